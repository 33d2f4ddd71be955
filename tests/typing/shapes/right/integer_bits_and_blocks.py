import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


FLAG_PAD = 4

@jaxtyped(typechecker=beartype)
def clear_pad(flags: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
    return flags & ~FLAG_PAD

@jaxtyped(typechecker=beartype)
def page(positions: Int[Tensor, "N"], table: Int[Tensor, "P"], size: int) -> Int[Tensor, "N"]:
    return table[positions // size] * size + positions % size

@jaxtyped(typechecker=beartype)
def mean_int_reward(rew: Int[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    return rew / 10 - (rew.sum() // 2) * 0.5

def main() -> None:
    assert clear_pad(torch.tensor([4, 5])).tolist() == [0, 1]
    assert page(torch.arange(6), torch.tensor([2, 0, 1]), 2).tolist() == [4, 5, 0, 1, 2, 3]
    assert mean_int_reward(np.array([1, 2])).shape == (2,)


if __name__ == "__main__":
    main()
