import numpy as np
from jaxtyping import Float32, Int64
from typedbatch import Batch


class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    act: Int64[np.ndarray, "N"]

def main() -> None:
    obs = np.zeros((128, 4), dtype=np.float32)
    act = np.zeros(127, dtype=np.int64)
    rows = Rows(obs=obs, act=act)  # WRONG: N = 128 and N = 127
    print(rows.obs.shape, rows.act.shape)


if __name__ == "__main__":
    main()
