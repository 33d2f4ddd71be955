"""The layer takes other features than the trunk gives."""

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

    def act(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        return self.value(self.policy(self.body(batch.obs)))  # WRONG


def main() -> None:
    print(Critic().act(rollout()))


if __name__ == "__main__":
    main()
