import torch
from jaxtyping import Float
from torch import Tensor


def distance(a: Float[Tensor, "D"], b: Float[Tensor, "D"]) -> Float[Tensor, ""]:
    return (a - b).square().sum().sqrt()

def matrix(x: Float[Tensor, "N D"], y: Float[Tensor, "M D"]) -> Float[Tensor, "N M"]:
    rows = torch.vmap(distance, in_dims=(None, 0))
    out: Tensor = torch.vmap(rows, in_dims=(0, None))(x, y)
    return out

def main() -> None:
    assert matrix(torch.randn(4, 3), torch.randn(5, 3)).shape == (4, 5)


if __name__ == "__main__":
    main()
