import numpy as np
from beartype import beartype
from jaxtyping import Bool, Float32, Int, jaxtyped


@jaxtyped(typechecker=beartype)
def discounts(done: Bool[np.ndarray, "T B"], trunc: Bool[np.ndarray, "T B"]) -> Float32[np.ndarray, "T B"]:
    alive = 1 - done
    alive = alive * (1 - (trunc & ~done))
    return (0.99 * alive).astype(np.float32)

@jaxtyped(typechecker=beartype)
def episode_ids(done: Bool[np.ndarray, "T"]) -> Int[np.ndarray, "T"]:
    return np.cumsum(done) - done

def main() -> None:
    d = np.zeros((3, 2), bool)
    assert discounts(d, d).shape == (3, 2) and episode_ids(np.array([False, True, False])).tolist() == [0, 0, 1]


if __name__ == "__main__":
    main()
