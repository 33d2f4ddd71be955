"""DQN with normalized observations on CartPole, n-step targets."""
# wrong: """Observations are normalized for the trained network, but the next observations are not for the target network."""
# SB3's replay buffer normalizes both `obs` and `next_obs` of a sample for this reason (no single source).
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


class RunningMeanStd:
    def __init__(self, dim: int) -> None:
        self.mean, self.var, self.count = torch.zeros(dim), torch.ones(dim), 1e-4

    def learn(self, obs: Tensor) -> None:
        mean, var, n = obs.mean(0), obs.var(0, correction=0), len(obs)
        delta, total = mean - self.mean, self.count + n
        m2 = self.var * self.count + var * n + delta.square() * self.count * n / total
        self.mean, self.var, self.count = self.mean + delta * n / total, m2 / total, total

    def __call__(self, obs: NDArray[np.float32] | Tensor) -> Tensor:
        return ((torch.as_tensor(obs) - self.mean) / (self.var + 1e-8).sqrt()).clamp(-10, 10)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    normalize = RunningMeanStd(4)
    q_net = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
    q_target = copy.deepcopy(q_net)
    optim = torch.optim.AdamW(q_net.parameters(), 1e-3, amsgrad=True)
    buffer = VectorReplayBuffer[RolloutBatch](8_000, 8, random_seed=seed)

    def explore(batch: ObsBatch) -> ActBatch:
        act = q_net(normalize(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(rng.random(len(act)) < 0.2, rng.integers(0, 2, len(act)), act))

    def next_value(obs_next: NDArray[np.float32]) -> Tensor:
        return q_target(normalize(obs_next)).max(-1).values
        # wrong: return q_target(torch.as_tensor(obs_next)).max(-1).values

    collector = Collector(gym.make_vec("CartPole-v1", 8), explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=400, random=True)
    normalize.learn(torch.as_tensor(buffer[:].obs))

    def update(sample: RolloutBatch, slots: NDArray[np.intp]) -> dict[str, float]:
        targets = add_nstep(sample, buffer, slots, next_value, gamma=0.99, n=2)
        batch = convert(targets, BatchWithReturns[Tensor], dtype=torch.float32)
        q = q_net(normalize(batch.obs)).gather(1, batch.act.view(-1, 1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, batch.returns)
        optim.zero_grad()
        loss.backward()
        optim.step()
        weights, slow = q_net.state_dict(), q_target.state_dict()
        for key in weights:
            slow[key] = weights[key] * 0.05 + slow[key] * 0.95
        q_target.load_state_dict(slow)
        return {"loss": loss.item(), "target": batch.returns.mean().item()}

    def draw() -> tuple[RolloutBatch, NDArray[np.intp]]:
        collector.collect(buffer, n_step=8)
        return buffer.sample(128)

    return update, draw
