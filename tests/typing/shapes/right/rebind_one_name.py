import torch
from jaxtyping import Float
from torch import Tensor


def head(x: Float[Tensor, "N D"], w: Float[Tensor, "D H"]) -> Float[Tensor, "N"]:
    x = x @ w
    x = x.relu()
    x = x.mean(dim=-1, keepdim=True)
    x = x - x.mean(dim=0)
    x = x.squeeze(-1)
    return x

def main() -> None:
    assert head(torch.randn(5, 3), torch.randn(3, 7)).shape == (5,)


if __name__ == "__main__":
    main()
