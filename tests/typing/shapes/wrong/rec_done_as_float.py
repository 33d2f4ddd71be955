import torch
from jaxtyping import Bool, Float32
from torch import Tensor
from typedbatch import Batch


class Rows(Batch):
    rew: Float32[Tensor, "N"]
    done: Bool[Tensor, "N"]

def tail(n: int) -> Rows:
    return Rows(rew=torch.zeros(n), done=torch.zeros(n))  # WRONG: done is float32, Bool is declared

def main() -> None:
    print(tail(3).done.dtype)


if __name__ == "__main__":
    main()
