import torch
from jaxtyping import Float32
from torch import Tensor
from typedbatch import Batch


class Seq(Batch):
    hidden: Float32[Tensor, "N H"]
    done: Float32[Tensor, "N"]

def carry(seq: Seq) -> Float32[Tensor, "N H"]:
    return seq.hidden * (1 - seq.done)  # WRONG: (N, H) with (N,) aligns N with H

def main() -> None:
    print(carry(Seq(hidden=torch.zeros(4, 16), done=torch.zeros(4))).shape)


if __name__ == "__main__":
    main()
