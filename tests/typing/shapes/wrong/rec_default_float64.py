import numpy as np
from jaxtyping import Float32
from typedbatch import Batch


class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    rew: Float32[np.ndarray, "N"]

def empty_rows(n: int) -> Rows:
    obs = np.zeros((n, 4), dtype=np.float32)
    return Rows(obs=obs, rew=np.zeros(n))  # WRONG: np.zeros is float64, Float32 is declared

def main() -> None:
    print(empty_rows(3).rew.dtype)


if __name__ == "__main__":
    main()
