"""TD3+BC (arXiv:2106.06860) on a fixed data set of Pendulum."""
# wrong: """The normalization of Q in TD3+BC is not detached, so the actor's gradient also pushes the mean of |Q| in the denominator."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


def medium(rng: np.random.Generator):
    """A noisy policy that swings up and damps near the top."""

    def act(batch: ObsBatch) -> ActBatch:
        cos, sin, speed = batch.obs.T
        torque = np.where(cos > 0.8, -8 * sin - 2 * speed, 2 * np.sign(speed + 1e-6))
        noisy = torque + rng.normal(0, 0.5, len(torque))
        return ActBatch(act=noisy.clip(-2, 2)[:, None].astype(np.float32))

    return act


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, obs: Tensor) -> Tensor:
        return 2 * torch.tanh(self.net(obs))


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(2))

    def forward(self, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor]:
        pair = torch.cat([obs, act], -1)
        return self.heads[0](pair).squeeze(-1), self.heads[1](pair).squeeze(-1)


class TD3BC:
    gamma, tau, alpha, policy_noise, noise_clip, policy_freq = 0.97, 0.005, 2.5, 0.2, 0.5, 2

    def __init__(self) -> None:
        self.actor, self.critic = Actor(), Critic()
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), 3e-4)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), 3e-4)
        self.total = 0

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        self.total += 1
        with torch.no_grad():
            noise = (torch.randn_like(batch.act) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)
            act_next = (self.actor_target(batch.obs_next) + noise).clamp(-2, 2)
            q_next = torch.min(*self.critic_target(batch.obs_next, act_next))
            goal = batch.rew + self.gamma * (~batch.terminated) * q_next
        q1, q2 = self.critic(batch.obs, batch.act)
        critic_loss = nn.functional.mse_loss(q1, goal) + nn.functional.mse_loss(q2, goal)
        self.critic_optim.zero_grad()
        critic_loss.backward()
        self.critic_optim.step()
        losses = {"critic": critic_loss.item()}
        if self.total % self.policy_freq == 0:
            act = self.actor(batch.obs)
            q = self.critic(batch.obs, act)[0]
            lmbda = self.alpha / q.abs().mean().detach()
            # wrong: lmbda = self.alpha / q.abs().mean()
            actor_loss = -lmbda * q.mean() + nn.functional.mse_loss(act, batch.act)
            self.actor_optim.zero_grad()
            actor_loss.backward()
            self.actor_optim.step()
            losses["actor"] = actor_loss.item()
            with torch.no_grad():
                for slow, fast in ((self.actor_target, self.actor), (self.critic_target, self.critic)):
                    for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
                        old.lerp_(new, self.tau)
        return losses


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync")
    data = VectorReplayBuffer[RolloutBatch](1_200, 4, random_seed=seed)
    collector = Collector(envs, medium(np.random.default_rng(seed)))
    collector.reset(seed=seed)
    collector.collect(data, n_step=1_200)
    td3bc = TD3BC()
    return td3bc.update, lambda: (data.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)
