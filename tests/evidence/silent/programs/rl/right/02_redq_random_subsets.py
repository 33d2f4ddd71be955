"""REDQ-like SAC on Pendulum: five critics, of which two random ones are the target and three random ones are trained."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


class REDQ:
    gamma, tau, alpha, critics, targets, trained = 0.97, 0.01, 0.1, 5, 2, 3

    def __init__(self, seed: int) -> None:
        self.actor = mlp(3, 2)
        self.qs = [mlp(4, 1) for _ in range(self.critics)]
        self.slow = [copy.deepcopy(q) for q in self.qs]
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.q_optims = [torch.optim.Adam(q.parameters(), 1e-3) for q in self.qs]  # one each: the others are not stepped
        self.rng = np.random.default_rng(seed)

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(obs).chunk(2, -1)
        dist = Normal(mean, log_std.clamp(-5, 2).exp())
        x = dist.rsample()
        logp = dist.log_prob(x) - 2 * (np.log(2) - x - nn.functional.softplus(-2 * x))
        return 2 * x.tanh(), logp.sum(-1)

    def act(self, batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=self.sample(torch.as_tensor(batch.obs))[0])

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            act, logp = self.sample(batch.obs_next)
            pair = torch.cat([batch.obs_next, act], -1)
            some = self.rng.choice(self.critics, self.targets, replace=False)
            lowest = torch.stack([self.slow[i](pair).squeeze(-1) for i in some]).amin(0)
            goal = batch.rew + self.gamma * (~batch.terminated) * (lowest - self.alpha * logp)
        pair = torch.cat([batch.obs, batch.act], -1)
        total = 0.0
        for i in self.rng.choice(self.critics, self.trained, replace=False):
            loss = (self.qs[i](pair).squeeze(-1) - goal).pow(2).mean()
            self.q_optims[i].zero_grad()
            loss.backward()
            self.q_optims[i].step()
            total += loss.item()
            with torch.no_grad():
                for old, new in zip(self.slow[i].parameters(), self.qs[i].parameters(), strict=True):
                    old.lerp_(new, self.tau)
        act, logp = self.sample(batch.obs)
        pair = torch.cat([batch.obs, act], -1)
        mean_q = torch.stack([q(pair).squeeze(-1) for q in self.qs]).mean(0)
        actor_loss = (self.alpha * logp - mean_q).mean()
        self.actor_optim.zero_grad()
        actor_loss.backward()  # the critics get gradients too, which are zeroed before their next step
        self.actor_optim.step()
        return {"q": total / self.trained, "actor": actor_loss.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    redq = REDQ(seed)
    buffer = VectorReplayBuffer[RolloutBatch](10_000, 2, random_seed=seed)
    collector = Collector(gym.make_vec("Pendulum-v1", 2, vectorization_mode="sync"), redq.act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=300, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=2)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return redq.update, draw
