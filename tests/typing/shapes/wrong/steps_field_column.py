"""A column is set where one number per step is declared."""

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


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.value = nn.Linear(8, 1)
        self.policy = nn.Linear(8, 3)

    def values(self, batch: LogpOldBatch[Tensor]) -> LogpOldBatch[Tensor]:
        batch.v_s = self.value(self.body(batch.obs))  # WRONG
        return batch


def main() -> None:
    print(validate(Critic().values(rollout()), LogpOldBatch[Tensor]))


if __name__ == "__main__":
    main()
