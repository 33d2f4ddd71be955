"""Munchausen DQN (arXiv:2007.14430) on CartPole: the reward has a scaled log-policy of the target net, copied every 100 updates."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


class Munchausen:
    gamma, alpha, temperature, lowest, copy_every = 0.98, 0.9, 0.03, -1.0, 100

    def __init__(self, seed: int) -> None:
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.target = copy.deepcopy(self.net)
        self.optim = torch.optim.Adam(self.net.parameters(), 1e-3)
        self.rng, self.updates = np.random.default_rng(seed), 0

    def act(self, batch: ObsBatch) -> ActBatch:
        """From the softmax policy, as the method is a soft one; no epsilon."""
        q = self.net(torch.as_tensor(batch.obs))
        return ActBatch(act=Categorical(logits=q / self.temperature).sample().numpy())

    @torch.no_grad()
    def goal(self, batch: RolloutBatch[Tensor]) -> Tensor:
        q_next = self.target(batch.obs_next)
        logp_next = (q_next / self.temperature).log_softmax(-1)
        soft = (logp_next.exp() * (q_next - self.temperature * logp_next)).sum(-1)
        logp = (self.target(batch.obs) / self.temperature).log_softmax(-1).gather(1, batch.act[:, None]).squeeze(1)
        bonus = self.alpha * (self.temperature * logp).clamp(self.lowest, 0)
        return batch.rew + bonus + self.gamma * (~batch.terminated) * soft

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        q = self.net(batch.obs).gather(1, batch.act[:, None]).squeeze(1)
        loss = nn.functional.huber_loss(q, self.goal(batch))
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        self.updates += 1
        if self.updates % self.copy_every == 0:  # the target does not move at all in between
            self.target.load_state_dict(self.net.state_dict())
        return {"loss": loss.item(), "q": q.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    agent = Munchausen(seed)
    buffer = VectorReplayBuffer[RolloutBatch](8_000, 4, random_seed=seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4, vectorization_mode="sync"), agent.act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=256, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=4)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return agent.update, draw
