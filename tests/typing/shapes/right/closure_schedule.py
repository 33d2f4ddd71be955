from typing import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def make_reward_fn(scale: Float[Tensor, "K"]) -> "Callable[[Tensor], Tensor]":
    def reward(features: Float[Tensor, "N K"]) -> Float[Tensor, "N"]:
        return (features * scale).sum(-1)

    return reward

def main() -> None:
    fn: Callable[[Tensor], Tensor] = make_reward_fn(torch.ones(3))
    assert fn(torch.randn(5, 3)).shape == (5,)
    assert fn(torch.randn(8, 3)).shape == (8,)


if __name__ == "__main__":
    main()
