from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


A = TypeVar("A", np.ndarray, Tensor)

def ema(old: A, new: A, rate: float) -> A:
    return old * (1 - rate) + new * rate

def blend(a: Float[Tensor, "N D"], b: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    return ema(a, b, 0.1)

def main() -> None:
    assert blend(torch.zeros(2, 3), torch.ones(2, 3)).shape == (2, 3)
    assert ema(np.zeros((4, 1)), np.ones((4, 1)), 0.5).shape == (4, 1)


if __name__ == "__main__":
    main()
