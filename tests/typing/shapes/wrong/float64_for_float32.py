import numpy as np
from jaxtyping import Float32


def discount_weights(rewards: Float32[np.ndarray, "T"], gamma: float) -> Float32[np.ndarray, "T"]:
    (steps,) = rewards.shape
    weights = np.ones(steps)
    weights[1:] = gamma
    return np.cumprod(weights)  # WRONG: float64 array for Float32

def main() -> None:
    print(discount_weights(np.zeros(4, dtype=np.float32), 0.9).dtype)


if __name__ == "__main__":
    main()
