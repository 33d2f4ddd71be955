"""Discrete CQL on a fixed data set of CartPole."""
# wrong: """The log-sum-exp of the penalty is over rows (dim=0) and not over actions: the values of a batch are pushed down together."""
# Source: wrong axis; nothing fails, since both results are averaged to a scalar. CQL: arXiv:2006.04779.
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

torch.set_num_threads(1)


class CQL:
    """Double DQN with a conservative penalty."""

    def __init__(self, alpha: float = 1.0, gamma: float = 0.99, tau: float = 0.01) -> None:
        self.alpha, self.gamma, self.tau = alpha, gamma, tau
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.slow = copy.deepcopy(self.net)
        self.optim = torch.optim.Adam(self.net.parameters(), 1e-3)

    def bellman(self, batch: RolloutBatch[Tensor], q_data: Tensor) -> Tensor:
        with torch.no_grad():
            best = self.net(batch.obs_next).argmax(dim=1, keepdim=True)
            following = self.slow(batch.obs_next).gather(1, best)
            target = batch.rew.unsqueeze(1) + self.gamma * following * (~batch.terminated).unsqueeze(1)
        return nn.functional.mse_loss(q_data, target)

    def conservative(self, q: Tensor, q_data: Tensor) -> Tensor:
        return torch.logsumexp(q, dim=1).mean() - q_data.mean()
        # wrong: return torch.logsumexp(q, dim=0).mean() - q_data.mean()

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        q = self.net(batch.obs)
        q_data = q.gather(1, batch.act.unsqueeze(1))
        bellman, penalty = self.bellman(batch, q_data), self.conservative(q, q_data)
        self.optim.zero_grad()
        (0.5 * bellman + self.alpha * penalty).backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.slow.parameters(), self.net.parameters(), strict=True):
                slow.lerp_(fast, self.tau)
        return {"bellman": bellman.item(), "penalty": penalty.item()}


def dataset(seed: int, size: int = 800) -> VectorReplayBuffer[RolloutBatch]:
    rng = np.random.default_rng(seed)

    def behaviour(batch: ObsBatch) -> ActBatch:
        lean = (batch.obs[:, 2] + 0.5 * batch.obs[:, 3] > 0).astype(np.int64)
        return ActBatch(act=np.where(rng.random(len(lean)) < 0.3, rng.integers(0, 2, len(lean)), lean))

    buffer = VectorReplayBuffer[RolloutBatch](size, 4, random_seed=seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), behaviour)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=size)
    return buffer


def setup(seed: int = 0):
    torch.manual_seed(seed)
    cql, data = CQL(), dataset(seed)
    return cql.update, lambda: (data.sample(128, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)
