"""C51 on CartPole: a categorical distribution of returns for each action."""
# wrong: """The softmax of C51 is over the actions (dim=1) and not over the atoms (dim=2), so rows are not distributions of returns."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

GAMMA, ATOMS, V_MIN, V_MAX = 0.95, 21, 0.0, 20.0


class QNetwork(nn.Module):
    """Logits of shape (N, actions, atoms)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2 * ATOMS))
        self.register_buffer("atoms", torch.linspace(V_MIN, V_MAX, ATOMS))

    def pmfs(self, obs: Tensor) -> Tensor:
        return self.net(obs).view(-1, 2, ATOMS).softmax(dim=2)
        # wrong: return self.net(obs).view(-1, 2, ATOMS).softmax(dim=1)

    def act(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """The best actions, and the distributions of their returns."""
        pmfs = self.pmfs(obs)
        best = (pmfs * self.atoms).sum(2).argmax(1)
        return best, pmfs[torch.arange(len(obs)), best]


def project(rew: Tensor, terminated: Tensor, pmfs: Tensor, atoms: Tensor) -> Tensor:
    delta = (V_MAX - V_MIN) / (ATOMS - 1)
    moved = (rew[:, None] + GAMMA * (1 - terminated[:, None]) * atoms).clamp(V_MIN, V_MAX)
    place = ((moved - V_MIN) / delta).clamp(0, ATOMS - 1)
    low, high = place.floor(), place.ceil()
    to_low = (high + (low == high).float() - place) * pmfs
    to_high = (place - low) * pmfs
    target = torch.zeros_like(pmfs)
    target.scatter_add_(1, low.long(), to_low)
    target.scatter_add_(1, high.long(), to_high)
    return target


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    net = QNetwork()
    target = copy.deepcopy(net)
    optim = torch.optim.Adam(net.parameters(), 1e-3, eps=0.01 / 32)
    count = {"updates": 0}

    def explore(batch: ObsBatch) -> ActBatch:
        best = net.act(torch.as_tensor(batch.obs))[0].numpy()
        return ActBatch(act=np.where(rng.random(len(best)) < 0.1, rng.integers(0, 2, len(best)), best))

    envs = gym.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector = Collector(envs, explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=200, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=8)
        batch, _ = buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)
        return (batch,)

    def update(batch: RolloutBatch[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            _, next_pmfs = target.act(batch.obs_next)
            goal = project(batch.rew, batch.terminated.float(), next_pmfs, target.atoms)
        old = net.pmfs(batch.obs)[torch.arange(len(batch)), batch.act]
        loss = -(goal * old.clamp(1e-5, 1 - 1e-5).log()).sum(-1).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        count["updates"] += 1
        if count["updates"] % 50 == 0:
            target.load_state_dict(net.state_dict())
        return {"loss": loss.item()}

    return update, draw
