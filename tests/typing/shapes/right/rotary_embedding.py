import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def rotate(x: Float[Tensor, "B T H D"]) -> Float[Tensor, "B T H D"]:
    t, d = x.shape[1], x.shape[-1]
    inv = 1.0 / 10000 ** (torch.arange(0, d, 2).float() / d)
    angle = torch.outer(torch.arange(t).float(), inv)
    cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

def rotate_half(x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)

def main() -> None:
    x = torch.randn(2, 5, 3, 8)
    assert rotate(x).shape == x.shape == rotate_half(x).shape


if __name__ == "__main__":
    main()
