"""Prioritized double DQN on CartPole, with gradients accumulated over parts of a sample."""
# wrong: """The sample is shuffled into parts, so the new priorities are written to the slots of other rows."""
# Source: in the spirit of RLMutation's Mangled operator (arXiv:2301.05651); PER indices that are not those of the TD errors.
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, PrioBatch, RolloutBatch, convert
from typedbatch.buffers import PrioritizedVectorReplayBuffer
from typedbatch.training import Collector

torch.set_num_threads(1)

Buffer = PrioritizedVectorReplayBuffer[RolloutBatch, PrioBatch]


class PrioritizedDQN:
    def __init__(self, buffer: Buffer, seed: int, gamma: float = 0.98) -> None:
        self.buffer, self.gamma, self.rng = buffer, gamma, np.random.default_rng(seed)
        self.q = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.q_target = copy.deepcopy(self.q)
        self.optim = torch.optim.Adam(self.q.parameters(), 5e-4)

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = self.q(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(self.rng.random(len(act)) < 0.25, self.rng.integers(0, 2, len(act)), act))

    def td_error(self, part: PrioBatch[Tensor]) -> Tensor:
        with torch.no_grad():
            best = self.q(part.obs_next).argmax(-1, keepdim=True)
            following = self.q_target(part.obs_next).gather(-1, best).squeeze(-1)
            target = part.rew + self.gamma * following * ~part.terminated
        return target - self.q(part.obs).gather(-1, part.act.unsqueeze(-1)).squeeze(-1)

    def update(self, sample: PrioBatch, slots: NDArray[np.intp]) -> dict[str, float]:
        batch = convert(sample, PrioBatch[Tensor], dtype=torch.float32)
        errors = []
        self.optim.zero_grad()
        for part in batch.split(32, shuffle=False):
        # wrong: for part in batch.split(32):
            error = self.td_error(part)
            loss = (part.weight * error.pow(2)).sum() / len(batch)
            loss.backward()
            errors.append(error.detach().abs())
        self.optim.step()
        priorities = torch.cat(errors)
        self.buffer.update_weight(slots, priorities)
        with torch.no_grad():
            for slow, fast in zip(self.q_target.parameters(), self.q.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        return {"error": priorities.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    np.random.seed(seed)
    buffer = Buffer(4_000, 4, alpha=0.6, beta=0.4, random_seed=seed)
    dqn = PrioritizedDQN(buffer, seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), dqn.explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=400, random=True)

    def draw() -> tuple[PrioBatch, NDArray[np.intp]]:
        collector.collect(buffer, n_step=4)
        return buffer.sample(128)

    return dqn.update, draw
