"""Residual algorithm (Baird 1995) for Q on a deterministic corridor: the gradient flows through the next value, without a target."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

GAMMA, MIX, LENGTH = 0.9, 0.5, 8


class Corridor(gym.Env):
    """Deterministic, so that a single sample of the next state makes the residual gradient unbiased."""

    observation_space = gym.spaces.Box(0, 1, (LENGTH,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pos, self.t = int(self.np_random.integers(LENGTH - 1)), 0
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.eye(LENGTH, dtype=np.float32)[self.pos]

    def step(self, action):
        self.pos, self.t = min(max(self.pos + 2 * int(action) - 1, 0), LENGTH - 1), self.t + 1
        goal = self.pos == LENGTH - 1
        return self._obs(), float(goal), goal, self.t >= 20 and not goal, {}


class Residual:
    def __init__(self, seed: int) -> None:
        self.net = nn.Sequential(nn.Linear(LENGTH, 32), nn.Tanh(), nn.Linear(32, 2))
        self.optim = torch.optim.Adam(self.net.parameters(), 3e-3)
        self.rng = np.random.default_rng(seed)

    def act(self, batch: ObsBatch) -> ActBatch:
        best = self.net(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(self.rng.random(len(best)) < 0.3, self.rng.integers(0, 2, len(best)), best))

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        q = self.net(batch.obs).gather(1, batch.act[:, None]).squeeze(1)
        v_next = self.net(batch.obs_next).amax(1) * (~batch.terminated)
        residual = (batch.rew + GAMMA * v_next - q).pow(2).mean()  # gradient through both
        direct = (batch.rew + GAMMA * v_next.detach() - q).pow(2).mean()
        loss = MIX * residual + (1 - MIX) * direct
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return {"residual": residual.item(), "q": q.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    agent = Residual(seed)
    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector = Collector(gym.vector.SyncVectorEnv([Corridor for _ in range(4)]), agent.act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=200, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=4)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return agent.update, draw
