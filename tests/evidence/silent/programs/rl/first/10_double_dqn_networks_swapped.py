"""Double DQN with n-step returns of the library on CartPole."""
# wrong: """The two networks of double DQN are swapped: the slow one chooses the action and the trained one values it."""
# Source: arXiv:1509.06461, equation 4; a question under many double DQN implementations.
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, convert
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector, add_nstep

torch.set_num_threads(1)

Slots = NDArray[np.intp]


class DoubleDQN:
    """Online network and target network."""

    def __init__(self, buffer: VectorReplayBuffer[RolloutBatch], seed: int) -> None:
        self.buffer, self.rng = buffer, np.random.default_rng(seed)
        self.online = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
        self.frozen = copy.deepcopy(self.online)
        self.optim = torch.optim.Adam(self.online.parameters(), 2e-3)
        self.count = 0

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = self.online(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(self.rng.random(len(act)) < 0.2, 1 - act, act))

    def value(self, obs_next: NDArray[np.float32]) -> Tensor:
        obs = torch.as_tensor(obs_next)
        best = self.online(obs).argmax(dim=1, keepdim=True)
        # wrong: best = self.frozen(obs).argmax(dim=1, keepdim=True)
        return self.frozen(obs).gather(1, best)
        # wrong: return self.online(obs).gather(1, best)

    def process(self, batch: RolloutBatch, slots: Slots) -> BatchWithReturns[Tensor]:
        return convert(add_nstep(batch, self.buffer, slots, self.value, gamma=0.99, n=3), BatchWithReturns[Tensor])

    def step(self, batch: BatchWithReturns[Tensor]) -> float:
        q = self.online(batch.obs).gather(1, batch.act[:, None])[:, 0]
        loss = nn.functional.mse_loss(q, batch.returns)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return loss.item()

    def update(self, batch: RolloutBatch, slots: Slots) -> dict[str, float]:
        loss = self.step(self.process(batch, slots))
        self.count += 1
        if self.count % 50 == 0:
            self.frozen.load_state_dict(self.online.state_dict())
        return {"loss": loss}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    buffer = VectorReplayBuffer[RolloutBatch](10_000, 4, random_seed=seed)
    dqn = DoubleDQN(buffer, seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), dqn.explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=400)
    for _ in range(10):  # so that the two networks differ
        dqn.update(*buffer.sample(64))

    def draw() -> tuple[RolloutBatch, Slots]:
        collector.collect(buffer, n_step=4)
        return buffer.sample(64)

    return dqn.update, draw
