import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def scores(x: Float[Tensor, "N L"], attention: Int[Tensor, "N L"], done: Bool[Tensor, "N"]) -> Float[Tensor, "N L"]:
    pad = ~attention.bool()
    keep = 1 - pad.long()
    keep = keep * (1 - done.int()).unsqueeze(1)
    weight = keep.float() / keep.sum(1, keepdim=True).clamp(min=1)
    return x.masked_fill(pad, 0.0) * weight

def main() -> None:
    out = scores(torch.ones(2, 4), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]), torch.tensor([False, True]))
    assert out.shape == (2, 4)


if __name__ == "__main__":
    main()
