"""SAC on Pendulum: the actor's actions are in [-1, 1], the environment's in [-2, 2]."""
# wrong: """The buffer has actions of the environment's range, and the critics get those of the actor, in [-1, 1], in both other places."""
# Source: SB3 stores `unscaled_action -> buffer_action` for this reason (OffPolicyAlgorithm._sample_action).
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

SCALE, GAMMA, TAU = 2.0, 0.98, 0.02


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.mean, self.log_std = nn.Linear(64, 1), nn.Linear(64, 1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        x = self.trunk(obs)
        normal = Normal(self.mean(x), self.log_std(x).clamp(-5, 2).exp())
        raw = normal.rsample()
        act = raw.tanh()
        logp = normal.log_prob(raw) - (1 - act.square() + 1e-6).log()
        return act, logp.sum(-1)


class TwinCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(2))

    def forward(self, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.cat([obs, act], -1)
        return self.a(x).squeeze(-1), self.b(x).squeeze(-1)


class SAC:
    def __init__(self) -> None:
        self.actor, self.critic = Actor(), TwinCritic()
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), 1e-3)
        self.alpha_optim = torch.optim.Adam([self.log_alpha], 1e-3)

    def explore(self, batch: ObsBatch) -> ActBatch:
        return ActBatch(act=SCALE * self.actor(torch.as_tensor(batch.obs))[0].numpy())

    def critic_loss(self, batch: RolloutBatch[Tensor], alpha: Tensor) -> Tensor:
        with torch.no_grad():
            next_act, next_logp = self.actor(batch.obs_next)
            value = torch.min(*self.critic_target(batch.obs_next, next_act)) - alpha * next_logp
            y = batch.rew / 8 + GAMMA * (~batch.terminated).float() * value
        a, b = self.critic(batch.obs, batch.act / SCALE)
        # wrong: a, b = self.critic(batch.obs, batch.act)
        return F.mse_loss(a, y) + F.mse_loss(b, y)

    def update(self, *batches: RolloutBatch[Tensor]) -> dict[str, float]:
        losses = []
        for batch in batches:
            alpha = self.log_alpha.exp().detach()
            critic_loss = self.critic_loss(batch, alpha)
            self.critic_optim.zero_grad()
            critic_loss.backward()
            self.critic_optim.step()
            act, logp = self.actor(batch.obs)
            actor_loss = (alpha * logp - torch.min(*self.critic(batch.obs, act))).mean()
            self.actor_optim.zero_grad()
            actor_loss.backward()
            self.actor_optim.step()
            alpha_loss = -(self.log_alpha * (logp.detach() - 1.0)).mean()
            self.alpha_optim.zero_grad()
            alpha_loss.backward()
            self.alpha_optim.step()
            with torch.no_grad():
                for slow, fast in zip(self.critic_target.parameters(), self.critic.parameters()):
                    slow.lerp_(fast, TAU)
            losses.append(critic_loss.item())
        return {"critic": float(np.mean(losses)), "alpha": self.log_alpha.exp().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    agent = SAC()
    collector = Collector(gym.make_vec("Pendulum-v1", 4), agent.explore)
    collector.reset(seed=seed)
    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector.collect(buffer, n_step=256)

    def draw() -> list[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=16)
        return [buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0] for _ in range(4)]

    return agent.update, draw
