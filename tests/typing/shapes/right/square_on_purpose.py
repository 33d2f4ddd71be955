import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def symmetrise(a: Float[Tensor, "D D"]) -> Float[Tensor, "D D"]:
    return (a + a.T) / 2

@jaxtyped(typechecker=beartype)
def gram_minus_mean(x: Float[Tensor, "N D"]) -> Float[Tensor, "N N"]:
    k = x @ x.T
    row = k.mean(1)
    return k - row - row[:, None] + k.mean()

@jaxtyped(typechecker=beartype)
def cov(x: Float[Tensor, "N D"]) -> Float[Tensor, "D D"]:
    c = x - x.mean(0)
    return c.T @ c / (x.size(0) - 1) + 1e-5 * torch.eye(x.size(1))

def main() -> None:
    x = torch.randn(5, 3)
    assert symmetrise(cov(x)).shape == (3, 3) and gram_minus_mean(x).shape == (5, 5)


if __name__ == "__main__":
    main()
