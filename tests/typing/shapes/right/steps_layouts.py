"""A rollout with an axis of time, and its rows."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typedbatch import Batch, LogpOldBatch, LogpOldProtocol, validate


def rollout(n: int = 5) -> LogpOldBatch[Tensor]:
    numbers = {name: torch.rand(n) for name in ("rew", "returns", "adv", "v_s", "logp_old")}
    flags = {name: torch.zeros(n, dtype=torch.bool) for name in ("terminated", "truncated")}
    obs = {name: torch.rand(n, 4) for name in ("obs", "obs_next")}
    batch = Batch(**obs, **numbers, **flags, act=torch.zeros(n, dtype=torch.long), info=Batch())
    return validate(batch, LogpOldBatch[Tensor])


def advantages(batch: LogpOldProtocol[Tensor], gamma: float = 0.99) -> Tensor:
    adv, last = torch.zeros_like(batch.rew), torch.zeros_like(batch.rew[0])
    for t in reversed(range(len(batch))):
        goes_on = 1.0 - batch.terminated[t].float()
        last = batch.rew[t] - batch.v_s[t] + gamma * goes_on * last
        adv[t] = last
    return adv.reshape(-1) / adv.std()


def by_environment(batch: LogpOldProtocol[Tensor]) -> Tensor:
    time, envs = batch.rew.shape
    returns = batch.rew.sum(0) + batch.returns[0]
    rows = batch.obs.reshape(time * envs, -1)
    return rows.mean() + returns.sum() + batch.adv.view(time, envs)[:, 0].sum() + batch.rew.transpose(0, 1).mean()


def main() -> None:
    numbers = {name: torch.rand(6, 2) for name in ("rew", "returns", "adv", "v_s", "logp_old")}
    flags = {name: torch.zeros(6, 2, dtype=torch.bool) for name in ("terminated", "truncated")}
    obs = {name: torch.rand(6, 2, 4) for name in ("obs", "obs_next")}
    batch = Batch(**obs, **numbers, **flags, act=torch.zeros(6, 2, dtype=torch.long), info=Batch())
    whole = validate(batch, LogpOldBatch[Tensor])
    print(advantages(rollout()), advantages(whole), by_environment(whole))


if __name__ == "__main__":
    main()
