import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def segment_mean(x: Float[Tensor, "L D"], seg: Int[Tensor, "L"], n: int) -> Float[Tensor, "{n} D"]:
    total = torch.zeros(n, x.shape[1]).index_add(0, seg, x)
    count = torch.bincount(seg, minlength=n)
    return total / count.clamp(min=1).unsqueeze(1)

@jaxtyped(typechecker=beartype)
def from_boundaries(x: Float[Tensor, "L"], cu: Int[Tensor, "K"]) -> Float[Tensor, "K-1"]:
    lengths = cu[1:] - cu[:-1]
    parts = torch.split(x, lengths.tolist())
    out = torch.stack([p.sum() for p in parts])
    return out / lengths

def main() -> None:
    assert segment_mean(torch.randn(5, 2), torch.tensor([0, 0, 2, 2, 2]), 3).shape == (3, 2)
    assert from_boundaries(torch.ones(7), torch.tensor([0, 3, 7])).tolist() == [1, 1]


if __name__ == "__main__":
    main()
