import numpy as np
from typedbatch import Batch

def load(n, obs_dim, n_act):
    rng = np.random.default_rng(0)
    return Batch(
        obs=rng.normal(size=(n, obs_dim)).astype(np.float32),
        act=rng.integers(0, n_act, size=n),
        rew=rng.normal(size=n).astype(np.float32),
        obs_next=rng.normal(size=(n, obs_dim)).astype(np.float32),
        terminated=np.zeros(n, bool),
    )
