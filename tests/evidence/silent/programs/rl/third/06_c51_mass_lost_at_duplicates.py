"""C51 on CartPole: the distribution of the next value is projected onto the atoms (arXiv:1707.06887)."""
# wrong: """`m[rows, l] += p` adds only once where several atoms fall on the same one, so the projected distribution loses mass."""
# Indexed assignment does not accumulate; hence `index_add_` or a loop in the usual code of C51 (CleanRL has the loop).
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

ATOMS, V_MIN, V_MAX, GAMMA = 21, 0.0, 60.0, 0.98


class QNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("atoms", torch.linspace(V_MIN, V_MAX, ATOMS))
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2 * ATOMS))

    def log_pmfs(self, obs: Tensor) -> Tensor:
        return self.net(obs).unflatten(-1, (2, ATOMS)).log_softmax(-1)

    def best(self, obs: Tensor) -> Tensor:
        return (self.log_pmfs(obs).exp() * self.atoms).sum(-1).argmax(-1)


class C51:
    def __init__(self, seed: int) -> None:
        self.q = QNetwork()
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.optim = torch.optim.Adam(self.q.parameters(), 1e-3, eps=0.01 / 64)
        self.rng, self.updates = np.random.default_rng(seed), 0

    def explore(self, batch: ObsBatch) -> ActBatch:
        best = self.q.best(torch.as_tensor(batch.obs)).numpy()
        return ActBatch(act=np.where(self.rng.random(len(best)) < 0.2, self.rng.integers(0, 2, len(best)), best))

    @torch.no_grad()
    def project(self, batch: RolloutBatch[Tensor]) -> Tensor:
        rows = torch.arange(len(batch))[:, None].expand(-1, ATOMS)
        p = self.target.log_pmfs(batch.obs_next)[rows[:, 0], self.target.best(batch.obs_next)].exp()
        more = (~batch.terminated).float()[:, None]
        tz = (batch.rew[:, None] + GAMMA * more * self.target.atoms).clamp(V_MIN, V_MAX)
        b = (tz - V_MIN) / ((V_MAX - V_MIN) / (ATOMS - 1))
        low, high = b.floor().long().clamp(0, ATOMS - 1), b.ceil().long().clamp(0, ATOMS - 1)
        m = torch.zeros(len(batch), ATOMS)
        m.scatter_add_(1, low, p * (high.float() + (low == high) - b))
        # wrong: m[rows, low] += p * (high.float() + (low == high) - b)
        m.scatter_add_(1, high, p * (b - low))
        # wrong: m[rows, high] += p * (b - low)
        return m

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        for part in batch.split(64, rng=torch.default_generator):
            m = self.project(part)
            log_p = self.q.log_pmfs(part.obs)[torch.arange(len(part)), part.act]
            loss = -(m * log_p).sum(-1).mean()
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            self.updates += 1
            if self.updates % 10 == 0:
                self.target.load_state_dict(self.q.state_dict())
        return {"loss": loss.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    agent = C51(seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), agent.explore)
    collector.reset(seed=seed)
    buffer = VectorReplayBuffer[RolloutBatch](8_000, 4, random_seed=seed)
    collector.collect(buffer, n_step=256)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=64)
        return (buffer.sample(256, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return agent.update, draw
