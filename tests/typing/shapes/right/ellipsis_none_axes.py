import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def rbf(x: Float[Tensor, "*batch n d"], y: Float[Tensor, "*batch m d"]) -> Float[Tensor, "*batch n m"]:
    diff = x[..., :, None, :] - y[..., None, :, :]
    return torch.exp(-diff.square().sum(-1))

def main() -> None:
    assert rbf(torch.randn(3, 2), torch.randn(4, 2)).shape == (3, 4)
    assert rbf(torch.randn(6, 5, 3, 2), torch.randn(6, 5, 3, 2)).shape == (6, 5, 3, 3)


if __name__ == "__main__":
    main()
