"""Rollouts from a little contextual bandit with drift."""

from __future__ import annotations

import numpy as np
import torch

from ppo_trainer.nets import ActorCritic
from typedbatch import Batch, RolloutBatch


class Collector:
    def __init__(self, net: ActorCritic, seed: int) -> None:
        self.net = net
        self.rng = np.random.default_rng(seed)
        self.obs = self.rng.normal(size=3).astype(np.float32)

    def collect(self, n_steps: int) -> RolloutBatch:
        rows = []
        for step in range(n_steps):
            with torch.no_grad():
                logp, _ = self.net(torch.as_tensor(self.obs))
            act = int(torch.multinomial(logp.exp(), 1))
            obs_next = (0.8 * self.obs + 0.2 * self.rng.normal(size=3)).astype(np.float32)
            row = Batch(obs=self.obs, act=act, rew=float(self.obs[0] * (2 * act - 1)), obs_next=obs_next)
            row.terminated, row.truncated = step % 8 == 7, False
            rows.append(row)
            self.obs = obs_next
        data = Batch.stack(rows)
        return RolloutBatch(
            obs=data["obs"],
            obs_next=data["obs_next"],
            #! misspelt-item: obs_next=data["next_obs"],
            act=data["act"],
            rew=data["rew"],
            terminated=data["terminated"],
            truncated=data["truncated"],
            info=Batch(),
        )
