import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def masked_mean(
    x: Float[Tensor, "N L"], mask: Float[Tensor, "N L"] | None = None, dim: int | None = None
) -> Float[Tensor, "..."]:
    if mask is None:
        return x.mean() if dim is None else x.mean(dim)
    if dim is None:
        return (x * mask).sum() / mask.sum().clamp(min=1)
    return (x * mask).sum(dim) / mask.sum(dim).clamp(min=1)

def main() -> None:
    x, m = torch.randn(3, 5), torch.ones(3, 5)
    assert masked_mean(x).shape == masked_mean(x, m).shape == ()
    assert masked_mean(x, m, dim=1).shape == (3,)
    assert masked_mean(x, dim=0).shape == (5,)


if __name__ == "__main__":
    main()
