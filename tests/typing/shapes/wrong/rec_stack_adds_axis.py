import numpy as np
from jaxtyping import Float32
from typedbatch import Batch


class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    rew: Float32[np.ndarray, "N"]

def join(a: Float32[np.ndarray, "N 4"], b: Float32[np.ndarray, "N 4"], rew: Float32[np.ndarray, "2*N"]) -> Rows:
    return Rows(obs=np.stack([a, b]), rew=rew)  # WRONG: stack gives (2, N, 4), concatenate was meant

def main() -> None:
    x = np.zeros((3, 4), np.float32)
    print(join(x, x, np.zeros(6, np.float32)).obs.shape)


if __name__ == "__main__":
    main()
