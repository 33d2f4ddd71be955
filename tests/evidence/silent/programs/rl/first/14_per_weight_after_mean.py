"""Prioritized n-step DQN on CartPole."""
# wrong: """The importance weights are multiplied with the mean loss, so that every row has the same weight."""
# Source: RLMutation, Incorrect Loss Function (ILF), arXiv:2301.05651; F.mse_loss without reduction="none".
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, PrioBatch, RolloutBatch, convert
from typedbatch.buffers import PrioritizedVectorReplayBuffer
from typedbatch.training import Collector, add_nstep

torch.set_num_threads(1)


def make_net(hidden: int = 64) -> nn.Module:
    return nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 2))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = make_net()
    old = copy.deepcopy(net)
    optim = torch.optim.Adam(net.parameters(), lr=1e-3)
    buffer = PrioritizedVectorReplayBuffer[RolloutBatch, PrioBatch](6_000, 4, alpha=0.7, beta=0.5, random_seed=seed)
    counter = {"updates": 0}

    def eps_greedy(batch: ObsBatch) -> ActBatch:
        act = net(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(rng.random(len(act)) < 0.2, rng.integers(0, 2, len(act)), act))

    def best(obs: NDArray[np.float32]) -> Tensor:
        return old(torch.as_tensor(obs)).max(-1, keepdim=True).values

    def update(sample: PrioBatch, slots: NDArray[np.intp]) -> dict[str, float]:
        weight = torch.as_tensor(sample.weight, dtype=torch.float32)
        batch = convert(add_nstep(sample, buffer, slots, best, gamma=0.99, n=3), BatchWithReturns[Tensor])
        q = net(batch.obs)[torch.arange(len(batch)), batch.act]
        loss = (weight * F.mse_loss(q, batch.returns, reduction="none")).mean()
        # wrong: loss = (weight * F.mse_loss(q, batch.returns)).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        buffer.update_weight(slots, (q.detach() - batch.returns).abs())
        counter["updates"] += 1
        if counter["updates"] % 20 == 0:
            old.load_state_dict(net.state_dict())
        return {"loss": loss.item()}

    collector = Collector(gym.make_vec("CartPole-v1", 4), eps_greedy)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=400, random=True)
    for _ in range(5):  # so that priorities differ
        update(*buffer.sample(64))

    def draw() -> tuple[PrioBatch, NDArray[np.intp]]:
        collector.collect(buffer, n_step=4)
        return buffer.sample(64)

    return update, draw
