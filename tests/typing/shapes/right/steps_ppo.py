"""PPO on a shipped record."""

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

    def loss(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        hidden = self.body(batch.obs)
        value = self.value(hidden).squeeze(-1)
        logp = F.log_softmax(self.policy(hidden), -1).gather(-1, batch.act[..., None]).squeeze(-1)
        ratio = (logp - batch.logp_old).exp()
        adv = (batch.adv - batch.adv.mean()) / (batch.adv.std() + 1e-8)
        clipped = ratio.clamp(0.8, 1.2) * adv
        actor = -torch.min(ratio * adv, clipped).mean()
        critic = F.mse_loss(value, batch.returns) + F.mse_loss(self.value(hidden), batch.returns[..., None])
        return actor + 0.5 * critic


def main() -> None:
    print(Critic().loss(rollout()))


if __name__ == "__main__":
    main()
