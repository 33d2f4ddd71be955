import torch
import torch.nn.functional as F
from jaxtyping import Float32, Int64
from torch import Tensor
from typedbatch import Batch


class Pair(Batch):
    chosen: Int64[Tensor, "N L"]
    rejected: Int64[Tensor, "N M"]
    margin: Float32[Tensor, "N"]

def score(ids: Int64[Tensor, "B S"]) -> Float32[Tensor, "B"]:
    return (ids.float() * (ids != 0)).sum(-1) / (ids != 0).sum(-1)

def rm_loss(pair: Pair) -> Float32[Tensor, ""]:
    return -F.logsigmoid(score(pair.chosen) - score(pair.rejected) - pair.margin).mean()

def main() -> None:
    p = Pair(chosen=torch.ones(4, 5, dtype=torch.long), rejected=torch.ones(4, 7, dtype=torch.long), margin=torch.zeros(4))
    assert rm_loss(p).shape == ()


if __name__ == "__main__":
    main()
