import functools
from typing import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def huber(err: Float[Tensor, "*s"], delta: float) -> Float[Tensor, "*s"]:
    return torch.where(err.abs() < delta, 0.5 * err**2, delta * (err.abs() - 0.5 * delta))

def losses(q: Float[Tensor, "N 1"], y: Float[Tensor, "N 1"], pair: Float[Tensor, "N K M"]) -> tuple[Float[Tensor, ""], Float[Tensor, "N"]]:
    small = functools.partial(huber, delta=0.5)
    mean: Callable[[Tensor], Tensor] = lambda x: x.mean((1, 2))
    return small(q - y).mean(), mean(small(pair))

def main() -> None:
    a, b = losses(torch.randn(3, 1), torch.randn(3, 1), torch.randn(3, 4, 5))
    assert a.shape == () and b.shape == (3,)


if __name__ == "__main__":
    main()
