"""SAC on Pendulum with a learned temperature, in the style of rljax and CleanRL."""
# wrong: """The temperature used in both losses is the one of the start: log_alpha is trained, but its exponential is never renewed."""

from __future__ import annotations

import copy

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


class SAC:
    gamma, tau, limit, target_entropy = 0.97, 0.01, 2.0, -1.0

    def __init__(self) -> None:
        self.actor = mlp(3, 2)
        self.q1, self.q2 = mlp(4, 1), mlp(4, 1)
        self.q1_target, self.q2_target = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.alpha = self.log_alpha.exp().item()
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.q_optim = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], 1e-3)
        self.alpha_optim = torch.optim.Adam([self.log_alpha], 1e-3)

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(obs).chunk(2, -1)
        dist = Normal(mean, log_std.clamp(-5, 2).exp())
        x = dist.rsample()
        y = x.tanh()
        logp = dist.log_prob(x) - (self.limit * (1 - y.pow(2)) + 1e-6).log()
        return self.limit * y, logp.sum(-1)

    def act(self, batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=self.sample(torch.as_tensor(batch.obs))[0])

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            act_next, logp_next = self.sample(batch.obs_next)
            pair = torch.cat([batch.obs_next, act_next], -1)
            q_next = torch.min(self.q1_target(pair), self.q2_target(pair)).squeeze(-1) - self.alpha * logp_next
            goal = batch.rew + self.gamma * (1 - batch.terminated.float()) * q_next
        pair = torch.cat([batch.obs, batch.act], -1)
        q_loss = sum((q(pair).squeeze(-1) - goal).pow(2).mean() for q in (self.q1, self.q2))
        self.q_optim.zero_grad()
        q_loss.backward()
        self.q_optim.step()

        act, logp = self.sample(batch.obs)
        pair = torch.cat([batch.obs, act], -1)
        actor_loss = (self.alpha * logp - torch.min(self.q1(pair), self.q2(pair)).squeeze(-1)).mean()
        self.actor_optim.zero_grad()
        actor_loss.backward()
        self.actor_optim.step()

        alpha_loss = -(self.log_alpha.exp() * (logp.detach() + self.target_entropy)).mean()
        self.alpha_optim.zero_grad()
        alpha_loss.backward()
        self.alpha_optim.step()
        self.alpha = self.log_alpha.exp().item()
        # wrong: without this line

        with torch.no_grad():
            for slow, fast in ((self.q1_target, self.q1), (self.q2_target, self.q2)):
                for p, q in zip(slow.parameters(), fast.parameters(), strict=True):
                    p.lerp_(q, self.tau)
        return {"q": q_loss.item(), "actor": actor_loss.item(), "alpha": self.log_alpha.exp().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    sac = SAC()
    envs = gym.make_vec("Pendulum-v1", 2, vectorization_mode="sync")
    buffer = VectorReplayBuffer[RolloutBatch](10_000, 2, random_seed=seed)
    collector = Collector(envs, sac.act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=200, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=2)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return sac.update, draw
