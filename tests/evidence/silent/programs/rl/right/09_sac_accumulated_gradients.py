"""SAC on Pendulum: gradients are accumulated over parts of a sample, and the actor is updated twice at every second update."""

from __future__ import annotations

import copy

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

GAMMA, TAU, PART, ACTOR_EVERY = 0.97, 0.01, 32, 2


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


class SAC:
    def __init__(self) -> None:
        self.actor, self.critics = mlp(3, 2), nn.ModuleList([mlp(4, 1), mlp(4, 1)])
        self.slow = copy.deepcopy(self.critics)
        self.log_alpha = nn.Parameter(torch.tensor(-1.0))
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.critic_optim = torch.optim.Adam(self.critics.parameters(), 1e-3)
        self.alpha_optim = torch.optim.Adam([self.log_alpha], 1e-3)
        self.updates = 0

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(obs).chunk(2, -1)
        dist = TransformedDistribution(Normal(mean, log_std.clamp(-5, 1).exp()), TanhTransform(cache_size=1))
        act = dist.rsample()
        return 2 * act, dist.log_prob(act).sum(-1)

    def act(self, batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=self.sample(torch.as_tensor(batch.obs))[0])

    def lowest(self, critics: nn.ModuleList, obs: Tensor, act: Tensor) -> Tensor:
        pair = torch.cat([obs, act], -1)
        return torch.cat([critic(pair) for critic in critics], -1).amin(-1)

    def train_critics(self, batch: RolloutBatch[Tensor]) -> float:
        total = 0.0
        self.critic_optim.zero_grad()  # also what the actor's losses have left
        for part in batch.split(PART, shuffle=False):
            with torch.no_grad():
                act, logp = self.sample(part.obs_next)
                soft = self.lowest(self.slow, part.obs_next, act) - self.log_alpha.exp() * logp
                goal = part.rew + GAMMA * (~part.terminated) * soft
            pair = torch.cat([part.obs, part.act], -1)
            loss = sum((critic(pair).squeeze(-1) - goal).pow(2).mean() for critic in self.critics)
            (loss * len(part) / len(batch)).backward()
            total += loss.item() * len(part) / len(batch)
        self.critic_optim.step()
        return total

    def train_actor(self, batch: RolloutBatch[Tensor]) -> float:
        total = 0.0
        self.actor_optim.zero_grad()
        self.alpha_optim.zero_grad()
        for part in batch.split(PART, shuffle=False):
            act, logp = self.sample(part.obs)
            loss = (self.log_alpha.exp().detach() * logp - self.lowest(self.critics, part.obs, act)).mean()
            temperature = -(self.log_alpha * (logp.detach() - 1.0)).mean()  # target entropy -1
            ((loss + temperature) * len(part) / len(batch)).backward()
            total += loss.item() * len(part) / len(batch)
        self.actor_optim.step()
        self.alpha_optim.step()
        return total

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        self.updates += 1
        losses = {"critic": self.train_critics(batch)}
        if self.updates % ACTOR_EVERY == 0:
            for _ in range(ACTOR_EVERY):  # makes up for the delay, as in CleanRL
                losses["actor"] = self.train_actor(batch)
        with torch.no_grad():
            for old, new in zip(self.slow.parameters(), self.critics.parameters(), strict=True):
                old.lerp_(new, TAU)
        return losses


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    sac = SAC()
    buffer = VectorReplayBuffer[RolloutBatch](10_000, 2, random_seed=seed)
    collector = Collector(gym.make_vec("Pendulum-v1", 2, vectorization_mode="sync"), sac.act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=300, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=2)
        return (buffer.sample(96, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return sac.update, draw
