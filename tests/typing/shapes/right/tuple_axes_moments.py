import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float, Float32, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def batch_stats(x: Float32[np.ndarray, "T B D"]) -> tuple[Float32[np.ndarray, "D"], Float32[np.ndarray, "D"]]:
    mean = x.mean(axis=(0, 1))
    var = np.square(x - mean).mean(axis=(0, 1))
    return mean, var

@jaxtyped(typechecker=beartype)
def image_mean(x: Float[Tensor, "N C H W"]) -> Float[Tensor, "N C"]:
    return (x - x.mean(dim=(0, -2, -1), keepdim=True)).sum((-2, -1))

def main() -> None:
    m, v = batch_stats(np.ones((5, 2, 3), np.float32))
    assert m.shape == v.shape == (3,)
    assert image_mean(torch.randn(2, 3, 4, 4)).shape == (2, 3)


if __name__ == "__main__":
    main()
