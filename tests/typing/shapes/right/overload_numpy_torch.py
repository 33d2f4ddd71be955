import math
from typing import overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


@overload
def log_mean_exp(x: Float[Tensor, "N K"]) -> Float[Tensor, "N"]: ...
@overload
def log_mean_exp(x: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "N"]: ...
def log_mean_exp(x: Tensor | np.ndarray) -> Tensor | np.ndarray:
    if isinstance(x, Tensor):
        return x.logsumexp(1) - math.log(x.shape[1])
    top = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - top).mean(axis=1)) + top[:, 0]

def main() -> None:
    x = torch.randn(4, 3)
    a, b = log_mean_exp(x), log_mean_exp(x.numpy())
    assert a.shape == b.shape == (4,)
    assert np.allclose(a.numpy(), b, atol=1e-5)


if __name__ == "__main__":
    main()
