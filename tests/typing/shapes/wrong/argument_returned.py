"""An argument is returned as it came, by a function that calls nothing."""

import torch
from jaxtyping import Float
from torch import Tensor


def last(x: Float[Tensor, "N R"]) -> Float[Tensor, "N"]:
    return x  # WRONG


def main() -> None:
    print(last(torch.rand(2, 3)))


if __name__ == "__main__":
    main()
