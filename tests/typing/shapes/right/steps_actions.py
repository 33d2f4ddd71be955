"""Discrete and continuous actions, joined with observations."""

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

    def q_values(self, batch: LogpOldProtocol[Tensor]) -> Tensor:
        one_hot = F.one_hot(batch.act, 3).float()
        joined = torch.cat([batch.obs, one_hot], -1)
        picked = self.policy(self.body(batch.obs)).gather(1, batch.act.unsqueeze(1)).squeeze(1)
        logp = torch.distributions.Categorical(logits=self.policy(self.body(batch.obs))).log_prob(batch.act)
        rows = torch.arange(len(batch))
        return picked * batch.adv + logp + joined.sum(-1) + self.policy(self.body(batch.obs))[rows, batch.act]

    def minibatches(self, batch: LogpOldBatch[Tensor]) -> Tensor:
        loss = torch.zeros(())
        for part in batch.split(2):
            loss = loss + ((self.value(self.body(part.obs)).squeeze(-1) - part.returns) ** 2 * part.adv).mean()
        chosen = batch[batch.adv > 0]
        return loss + (chosen.adv * chosen.logp_old).sum() + (batch[0:2].adv - batch[1:3].adv).sum()


def main() -> None:
    print(Critic().q_values(rollout()), Critic().minibatches(rollout()))


if __name__ == "__main__":
    main()
