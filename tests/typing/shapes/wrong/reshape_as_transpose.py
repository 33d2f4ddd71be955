import numpy as np
from jaxtyping import Float


def to_env_major(x: Float[np.ndarray, "T B"]) -> Float[np.ndarray, "B T"]:
    steps, envs = x.shape
    return x.reshape(envs, steps)  # WRONG: reshape renames (T, B) to (B, T) without moving data

def main() -> None:
    x = np.arange(6.0).reshape(3, 2)
    print(to_env_major(x), "should be", x.T)


if __name__ == "__main__":
    main()
