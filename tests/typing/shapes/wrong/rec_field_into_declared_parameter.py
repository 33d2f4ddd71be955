import numpy as np
from jaxtyping import Float32
from typedbatch import Batch


class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    act: Float32[np.ndarray, "N 2"]

def normalise(obs: Float32[np.ndarray, "B 4"]) -> Float32[np.ndarray, "B 4"]:
    return obs / 10.0

def main() -> None:
    rows = Rows(obs=np.zeros((3, 4), np.float32), act=np.zeros((3, 2), np.float32))
    print(normalise(rows.act).shape)  # WRONG: act has 2 columns, 4 are declared


if __name__ == "__main__":
    main()
