import torch
import torch.nn.functional as F
from jaxtyping import Float32
from torch import Tensor
from typedbatch import Batch


class Pair(Batch):
    chosen: Float32[Tensor, "N 1"]
    rejected: Float32[Tensor, "N 1"]
    margin: Float32[Tensor, "N"]

def rm_loss(pair: Pair) -> Float32[Tensor, ""]:
    return -F.logsigmoid(pair.chosen - pair.rejected - pair.margin).mean()  # WRONG: (N, 1) - (N,)

def main() -> None:
    margin = torch.arange(4.0)
    p = Pair(chosen=margin.unsqueeze(1), rejected=torch.zeros(4, 1), margin=margin)
    print("should be log 2 = 0.693:", rm_loss(p))


if __name__ == "__main__":
    main()
