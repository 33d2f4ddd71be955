import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def ensemble(xs: Float[Tensor, "N D"], weights: list[Tensor]) -> Float[Tensor, "E N"]:
    qs = torch.stack([xs @ w for w in weights])
    return qs - qs.mean(0)

def main() -> None:
    out = ensemble(torch.randn(5, 3), [torch.randn(3) for _ in range(4)])
    assert out.shape == (4, 5)


if __name__ == "__main__":
    main()
