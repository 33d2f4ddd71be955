"""DQN with a target network on CartPole, one-step targets."""
# wrong: """The value of the next observation is not discounted."""
# Source: RLMutation, No Discount Factor (NDF), arXiv:2301.05651.
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


class DQN:
    def __init__(self, seed: int, gamma: float = 0.99, sync: int = 2) -> None:
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.optim = torch.optim.Adam(self.net.parameters(), 1e-3)
        self.gamma, self.sync, self.updates = gamma, sync, 0
        self.rng = np.random.default_rng(seed)

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = self.net(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(self.rng.random(len(act)) < 0.3, self.rng.integers(0, 2, len(act)), act))

    def target_value(self, batch: RolloutBatch[Tensor]) -> Tensor:
        with torch.no_grad():
            next_q = self.target(batch.obs_next).max(dim=-1).values
            return batch.rew + self.gamma * next_q * (~batch.terminated)
            # wrong: return batch.rew + next_q * (~batch.terminated)

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        expected = self.target_value(batch)
        q = self.net(batch.obs).gather(1, batch.act.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, expected)
        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.net.parameters(), 100)
        self.optim.step()
        self.updates += 1
        if self.updates % self.sync == 0:
            self.target.load_state_dict(self.net.state_dict())
        return {"loss": loss.item(), "q": q.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    dqn = DQN(seed)
    buffer = VectorReplayBuffer[RolloutBatch](5_000, 4, random_seed=seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), dqn.explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=300, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=8)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return dqn.update, draw
