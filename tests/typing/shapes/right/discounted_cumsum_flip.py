import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def returns_to_go(rew: Float[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    return rew.flip(0).cumsum(0).flip(0)

@jaxtyped(typechecker=beartype)
def np_returns_to_go(rew: Float[np.ndarray, "T"], gamma: float) -> Float[np.ndarray, "T"]:
    pows = gamma ** np.arange(len(rew))
    return np.cumsum((rew * pows)[::-1])[::-1] / pows

def main() -> None:
    assert returns_to_go(torch.ones(5, 2))[0, 0] == 5
    assert np_returns_to_go(np.ones(4), 1.0).tolist() == [4, 3, 2, 1]


if __name__ == "__main__":
    main()
