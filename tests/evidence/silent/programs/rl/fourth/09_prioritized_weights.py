"""Prioritized dueling DQN whose loss multiplies each row's error by the importance weight of the same row."""
# wrong: """Importance weights of shape (N, 1) broadcast against (N,) errors: the mean is mean weight times mean error."""

import copy

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, PrioBatch, RolloutBatch
from typedbatch.buffers import PrioritizedVectorReplayBuffer
from typedbatch.training import Collector

TORQUES = np.linspace(-2, 2, 5, dtype=np.float32)


def discrete_pendulum() -> gym.Env:
    """Pendulum with five torques."""
    return gym.wrappers.TransformAction(
        gym.make("Pendulum-v1"), lambda index: TORQUES[[index]], gym.spaces.Discrete(len(TORQUES)))


class Dueling(nn.Module):
    def __init__(self, obs_dim: int = 3, n_act: int = 5, width: int = 64) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value, self.advantage = nn.Linear(width, 1), nn.Linear(width, n_act)

    def forward(self, obs: Tensor) -> Tensor:
        h = self.trunk(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(-1, keepdim=True)


class PrioritizedDQN:
    def __init__(self, seed: int, *, gamma=0.99, tau=0.02, lr=1e-3, eps=0.2, batch_size=96) -> None:
        self.gamma, self.tau, self.eps, self.batch_size = gamma, tau, eps, batch_size
        self.rng = np.random.default_rng(seed)
        self.q = Dueling()
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.optim = torch.optim.Adam(self.q.parameters(), lr)
        self.buffer = PrioritizedVectorReplayBuffer[RolloutBatch, PrioBatch](
            12_000, 4, alpha=0.6, beta=0.6, random_seed=seed)
        self.collector = Collector(gym.vector.SyncVectorEnv([discrete_pendulum] * 4), self.explore)
        self.collector.reset(seed)
        self.collector.collect(self.buffer, n_step=1_000, random=True)
        self.prime()

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = self.q(torch.as_tensor(batch.obs, dtype=torch.float32)).argmax(-1).numpy()
        random = self.rng.random(len(act)) < self.eps
        act[random] = self.rng.integers(0, len(TORQUES), random.sum())
        return ActBatch(act=act)

    def td_error(self, batch: RolloutBatch[Tensor]) -> Tensor:
        with torch.no_grad():
            value_next = self.q_target(batch.obs_next).amax(-1)
            target = batch.rew + self.gamma * value_next * batch.terminated.logical_not()
        return self.q(batch.obs).gather(-1, batch.act.unsqueeze(-1)).squeeze(-1) - target

    def prime(self) -> None:
        """Priorities of the first rows from the errors of the fresh network, not all alike."""
        for _ in range(4):
            batch, slots = self.sample()
            self.buffer.update_weight(slots, self.td_error(batch).detach().abs().numpy() + 1e-3)

    def sample(self) -> tuple[PrioBatch, NDArray[np.intp]]:
        return self.buffer.sample(self.batch_size, into=PrioBatch[Tensor], dtype=torch.float32)

    def draw(self) -> tuple[PrioBatch, NDArray[np.intp]]:
        self.collector.collect(self.buffer, n_step=16)
        return self.sample()

    def update(self, batch: PrioBatch, slots: NDArray[np.intp]) -> dict[str, float]:
        td = self.td_error(batch)
        weight = batch.weight / batch.weight.max()
        # wrong: weight = (batch.weight / batch.weight.max()).unsqueeze(1)
        loss = (weight * td.pow(2)).mean()
        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10)
        self.optim.step()
        self.buffer.update_weight(slots, td.detach().abs().numpy() + 1e-3)
        with torch.no_grad():
            for slow, fast in zip(self.q_target.parameters(), self.q.parameters(), strict=True):
                slow.lerp_(fast, self.tau)
        return {"loss": loss.item(), "td": td.abs().mean().item(), "weight": weight.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    agent = PrioritizedDQN(seed)
    return agent.update, agent.draw
