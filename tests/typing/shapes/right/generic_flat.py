"""A result that is declared by a type variable may have any shape."""

from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

X = TypeVar("X", bound=Tensor)


def flat(x: X) -> X:
    return x.reshape(-1)  # type: ignore[return-value]  # reshape gives a Tensor


def pair(x: X) -> tuple[X, X]:
    return flat(x), flat(x)


def use(x: Float[Tensor, "N L"], y: Float[Tensor, "M"]) -> Float[Tensor, "M"]:
    one, other = pair(x)
    return flat(x) + y + one + other


if __name__ == "__main__":
    print(use(torch.ones(2, 3), torch.ones(6)).shape)
