import math

import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float32, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def scale(x: Float32[np.ndarray, "N"], y: Float32[Tensor, "N"]) -> tuple[Float32[np.ndarray, "N"], Float32[Tensor, "N"]]:
    x = np.where(x > 0, x * 2.0 + 1, 0.0).astype(np.float32, copy=False)
    x = np.clip((x - x.mean()) / (x.std() + 1e-8), -10, 10)
    w = torch.tensor(0.5, dtype=torch.float64)
    y = y * w + 3 - math.pi
    return np.maximum(x, 0), torch.where(y > 0, y, 0.0)

def main() -> None:
    a, b = scale(np.arange(4, dtype=np.float32), torch.arange(4.0))
    assert a.dtype == np.float32 and b.dtype == torch.float32


if __name__ == "__main__":
    main()
