import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float, Float32, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def stack_frames(frames: Float32[np.ndarray, "T H W"], k: int) -> Float32[np.ndarray, "T {k} H W"]:
    padded = np.concatenate([np.repeat(frames[:1], k - 1, axis=0), frames])
    return np.stack([padded[i : i + len(frames)] for i in range(k)], axis=1)

@jaxtyped(typechecker=beartype)
def windows(x: Float[Tensor, "T D"], k: int) -> Float[Tensor, "W {k} D"]:
    return x.unfold(0, k, 1).mT

def main() -> None:
    assert stack_frames(np.zeros((6, 3, 3), np.float32), 4).shape == (6, 4, 3, 3)
    assert windows(torch.zeros(6, 2), 4).shape == (3, 4, 2)


if __name__ == "__main__":
    main()
