"""QR-DQN on CartPole."""
# wrong: """The fractions tau are broadcast along the target's quantiles, not the prediction's: all quantiles learn the same."""
# QR-DQN: arXiv:1710.10044, equation 10; square (N, K, K) losses hide a wrong axis (no single source).
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
QUANTILES = 16


class QuantileNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2 * QUANTILES))

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs).view(-1, 2, QUANTILES)

    def of(self, obs: Tensor, act: Tensor) -> Tensor:
        return self(obs)[torch.arange(len(act)), act]


def quantile_huber_loss(current: Tensor, target: Tensor) -> Tensor:
    """Loss of quantiles (N, K) against samples (N, K') of the return."""
    tau = (torch.arange(current.shape[1], device=current.device) + 0.5) / current.shape[1]
    delta = target.unsqueeze(1) - current.unsqueeze(2)  # (N, K, K')
    huber = torch.where(delta.abs() > 1, delta.abs() - 0.5, 0.5 * delta.pow(2))
    loss = (tau.view(1, -1, 1) - (delta.detach() < 0).float()).abs() * huber
    # wrong: loss = (tau.view(1, 1, -1) - (delta.detach() < 0).float()).abs() * huber
    return loss.sum(1).mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = QuantileNet()
    target_net = copy.deepcopy(net)
    optim = torch.optim.Adam(net.parameters(), lr=1e-3, eps=0.01 / 64)
    counter = {"updates": 0}

    def explore(batch: ObsBatch) -> ActBatch:
        act = net(torch.as_tensor(batch.obs)).mean(-1).argmax(-1).numpy()
        return ActBatch(act=np.where(rng.random(len(act)) < 0.2, rng.integers(0, 2, len(act)), act))

    def update(batch: RolloutBatch[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            best = target_net(batch.obs_next).mean(-1).argmax(-1)
            following = target_net.of(batch.obs_next, best)
            target = batch.rew.unsqueeze(1) + 0.98 * following * (~batch.terminated).unsqueeze(1)
        loss = quantile_huber_loss(net.of(batch.obs, batch.act), target)
        optim.zero_grad()
        loss.backward()
        optim.step()
        counter["updates"] += 1
        if counter["updates"] % 10 == 0:
            target_net.load_state_dict(net.state_dict())
        return {"loss": loss.item()}

    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=300, random=True)
    for _ in range(20):
        update(buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0])

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=8)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return update, draw
