import torch
from jaxtyping import Float
from torch import Tensor


def attend(query: Float[Tensor, "N D"], memory: Float[Tensor, "M D"]) -> Float[Tensor, "N D"]:
    return (query @ memory.mT).softmax(-1) @ memory

def both(a: Float[Tensor, "N D"], b: Float[Tensor, "M D"]) -> tuple[Float[Tensor, "N D"], Float[Tensor, "M D"]]:
    return attend(a, b) + a, attend(b, a) + b

def transposed(d: Float[Tensor, "D N"]) -> Float[Tensor, "N D"]:
    return attend(d.T, d.T)

def main() -> None:
    x, y = both(torch.randn(3, 4), torch.randn(5, 4))
    assert x.shape == (3, 4) and y.shape == (5, 4) and transposed(torch.randn(2, 6)).shape == (6, 2)


if __name__ == "__main__":
    main()
