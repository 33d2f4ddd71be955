import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def group_norm(x: Float[Tensor, "N C H W"], gain: Float[Tensor, "C"], groups: int) -> Float[Tensor, "N C H W"]:
    n, c, h, w = x.shape
    g = x.view(n, groups, c // groups, h, w)
    mean = g.mean(dim=(2, 3, 4), keepdim=True)
    var = g.var(dim=(2, 3, 4), keepdim=True, unbiased=False)
    y = ((g - mean) * torch.rsqrt(var + 1e-5)).view(n, c, h, w)
    return y * gain.view(1, -1, 1, 1)

def main() -> None:
    assert group_norm(torch.randn(2, 6, 3, 4), torch.ones(6), 3).shape == (2, 6, 3, 4)


if __name__ == "__main__":
    main()
