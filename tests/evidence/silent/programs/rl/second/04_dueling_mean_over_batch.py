"""Dueling double DQN on CartPole."""
# wrong: """The advantages of the dueling network are centred by the mean of the whole batch, not by the mean over actions."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


class Dueling(nn.Module):
    def __init__(self, obs_dim: int, n_act: int, hidden: int = 64) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU())
        self.advantage = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, n_act))
        self.value = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, obs: Tensor) -> Tensor:
        x = self.features(obs)
        advantage, value = self.advantage(x), self.value(x)
        return value + advantage - advantage.mean(dim=-1, keepdim=True)
        # wrong: return value + advantage - advantage.mean()


class DuelingDQN:
    gamma, tau, eps = 0.99, 0.01, 0.1

    def __init__(self, seed: int) -> None:
        self.net = Dueling(4, 2)
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.optim = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.rng = np.random.default_rng(seed)

    def explore(self, batch: ObsBatch) -> ActBatch:
        q = self.net(torch.as_tensor(batch.obs))
        random = self.rng.random(len(q)) < self.eps
        return ActBatch(act=np.where(random, self.rng.integers(0, 2, len(q)), q.argmax(-1).numpy()))

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            best = self.net(batch.obs_next).argmax(-1, keepdim=True)
            q_next = self.target(batch.obs_next).gather(1, best).squeeze(1)
            goal = batch.rew + self.gamma * (~batch.terminated).float() * q_next
        q = self.net(batch.obs).gather(1, batch.act.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, goal)
        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        self.optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.net.parameters(), strict=True):
                slow.lerp_(fast, self.tau)
        return {"td": loss.item(), "q": q.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    dqn = DuelingDQN(seed)
    envs = gym.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    buffer = VectorReplayBuffer[RolloutBatch](8_000, 4, random_seed=seed)
    collector = Collector(envs, dqn.explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=256, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=8)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return dqn.update, draw
