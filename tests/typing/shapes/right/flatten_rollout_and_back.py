import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def evaluate(obs: Float[Tensor, "T B D"], w: Float[Tensor, "D"]) -> Float[Tensor, "T B"]:
    t, b = obs.shape[:2]
    flat = obs.reshape(t * b, -1)
    return (flat @ w).reshape(t, b)

@jaxtyped(typechecker=beartype)
def env_major(x: Float[Tensor, "T B *rest"]) -> Float[Tensor, "T*B *rest"]:
    return x.transpose(0, 1).reshape(-1, *x.shape[2:])

@jaxtyped(typechecker=beartype)
def by_env(x: Float[np.ndarray, "T B"]) -> Float[np.ndarray, "B T"]:
    t, b = x.shape
    return x.swapaxes(0, 1).reshape(b * t).reshape(b, t)

def main() -> None:
    assert evaluate(torch.randn(5, 2, 3), torch.randn(3)).shape == (5, 2)
    assert env_major(torch.randn(5, 2)).shape == (10,) and env_major(torch.randn(5, 2, 3, 4)).shape == (10, 3, 4)
    assert by_env(np.zeros((5, 2))).shape == (2, 5)


if __name__ == "__main__":
    main()
