import torch
from jaxtyping import Float
from torch import Tensor


def whiten(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    n, d = x.shape
    weight = torch.ones(n)
    return x * weight  # WRONG: (n, d) * (n,) aligns n with d

def main() -> None:
    print(whiten(torch.zeros(4, 3)))


if __name__ == "__main__":
    main()
