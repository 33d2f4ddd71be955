"""Arrays of numpy, and generators of batches."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typedbatch import Batch, LogpOldBatch, LogpOldProtocol, convert, validate


def rollout(n: int = 5) -> LogpOldBatch[Tensor]:
    numbers = {name: torch.rand(n) for name in ("rew", "returns", "adv", "v_s", "logp_old")}
    flags = {name: torch.zeros(n, dtype=torch.bool) for name in ("terminated", "truncated")}
    obs = {name: torch.rand(n, 4) for name in ("obs", "obs_next")}
    batch = Batch(**obs, **numbers, **flags, act=torch.zeros(n, dtype=torch.long), info=Batch())
    return validate(batch, LogpOldBatch[Tensor])


def returns_of(batch: LogpOldProtocol, gamma: float = 0.9) -> np.ndarray:
    out = np.zeros(len(batch) + 1)
    for t in reversed(range(len(batch))):
        out[t] = batch.rew[t] + gamma * out[t + 1] * (not batch.terminated[t])
    weights = np.where(batch.truncated, 0.0, batch.adv)
    return out[:-1] + weights * batch.rew - np.cumsum(batch.rew, -1)


def main() -> None:
    print(returns_of(convert(rollout(), LogpOldBatch)))


if __name__ == "__main__":
    main()
