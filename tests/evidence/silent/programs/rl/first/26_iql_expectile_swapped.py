"""Implicit Q-learning (IQL) with discrete actions on a fixed data set of CartPole."""
# wrong: """The two arguments of torch.where are swapped: the value is the lower expectile of Q, not the upper one."""
# Source: IQL, arXiv:2110.06169, equation 5; a swapped where with no effect on shapes or on the scale of the loss.
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer
from typedbatch.training import Collector, Losses

torch.set_num_threads(1)


def net(outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


class IQL:
    def __init__(self, expectile: float = 0.8, beta: float = 3.0, gamma: float = 0.99) -> None:
        self.expectile, self.beta, self.gamma = expectile, beta, gamma
        self.q, self.v, self.policy = net(2), net(1), net(2)
        self.q_old = copy.deepcopy(self.q).requires_grad_(False)
        self.optims = {name: torch.optim.Adam(getattr(self, name).parameters(), 1e-3) for name in ("q", "v", "policy")}

    def step(self, name: str, loss: Tensor) -> float:
        self.optims[name].zero_grad()
        loss.backward()
        self.optims[name].step()
        return loss.item()

    def value_loss(self, batch: RolloutBatch[Tensor], q_data: Tensor) -> Tensor:
        diff = q_data - self.v(batch.obs).squeeze(-1)
        weight = torch.where(diff > 0, self.expectile, 1 - self.expectile)
        # wrong: weight = torch.where(diff > 0, 1 - self.expectile, self.expectile)
        return (weight * diff.pow(2)).mean()

    def q_loss(self, batch: RolloutBatch[Tensor]) -> Tensor:
        with torch.no_grad():
            target = batch.rew + self.gamma * self.v(batch.obs_next).squeeze(-1) * ~batch.terminated
        return nn.functional.mse_loss(self.q(batch.obs).gather(1, batch.act[:, None]).squeeze(1), target)

    def policy_loss(self, batch: RolloutBatch[Tensor], q_data: Tensor) -> Tensor:
        with torch.no_grad():
            weight = (self.beta * (q_data - self.v(batch.obs).squeeze(-1))).exp().clamp(max=100.0)
        logp = torch.log_softmax(self.policy(batch.obs), -1).gather(1, batch.act[:, None]).squeeze(1)
        return -(weight * logp).mean()

    def update(self, batch: RolloutBatch[Tensor]) -> Losses:
        q_data = self.q_old(batch.obs).gather(1, batch.act[:, None]).squeeze(1)
        losses = {
            "v": self.step("v", self.value_loss(batch, q_data)),
            "policy": self.step("policy", self.policy_loss(batch, q_data)),
            "q": self.step("q", self.q_loss(batch)),
        }
        with torch.no_grad():
            for slow, fast in zip(self.q_old.parameters(), self.q.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        return losses


def mixed_data(seed: int, size: int = 800) -> ReplayBuffer[RolloutBatch, RolloutBatch]:
    """Steps of a policy that is right three times out of four."""
    rng = np.random.default_rng(seed)

    def act(batch: ObsBatch) -> ActBatch:
        lean = (batch.obs[:, 2] + batch.obs[:, 3] > 0).astype(np.int64)
        return ActBatch(act=np.where(rng.random(len(lean)) < 0.25, 1 - lean, lean))

    buffer = VectorReplayBuffer[RolloutBatch](size, 4, random_seed=seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=size)
    return buffer


def setup(seed: int = 0):
    torch.manual_seed(seed)
    data, iql = mixed_data(seed), IQL()
    return iql.update, lambda: (data.sample(128, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)
