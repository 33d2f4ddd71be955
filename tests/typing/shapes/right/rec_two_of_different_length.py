import numpy as np
from jaxtyping import Float32
from typedbatch import Batch


class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    rew: Float32[np.ndarray, "N"]

def merge(a: Rows, b: Rows) -> Rows:
    return Rows(obs=np.concatenate([a.obs, b.obs]), rew=np.concatenate([a.rew, b.rew]))

def make(n: int) -> Rows:
    return Rows(obs=np.zeros((n, 4), dtype=np.float32), rew=np.ones(n, dtype=np.float32))

def main() -> None:
    both = merge(make(3), make(5))
    assert both.obs.shape == (8, 4) and both.rew.shape == (8,)
    gap = make(3).rew.mean() - make(5).rew.mean()
    pairs = make(3).rew[:, None] < make(5).rew
    assert gap == 0 and pairs.shape == (3, 5)


if __name__ == "__main__":
    main()
