"""DDPG on Pendulum with its own loop over one environment and correlated (Ornstein-Uhlenbeck) noise."""
# wrong: """The environment gets the action with noise, but the buffer the action without it: transitions of other actions."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, Batch, ObsBatch, RolloutBatch
from typedbatch.buffers import ReplayBuffer
from typedbatch.training import compute_action


class OUNoise:
    def __init__(self, size: int, seed: int, theta: float = 0.15, sigma: float = 0.5) -> None:
        self.rng, self.theta, self.sigma = np.random.default_rng(seed), theta, sigma
        self.size = size
        self.reset()

    def reset(self) -> None:
        self.state = np.zeros(self.size, np.float32)

    def sample(self) -> np.ndarray:
        self.state = self.state - self.theta * self.state + self.sigma * self.rng.standard_normal(self.size).astype(np.float32)
        return self.state


def setup(seed: int = 0, gamma: float = 0.97, tau: float = 0.01, steps: int = 4):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    actor = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())
    critic = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
    actor_optim = torch.optim.Adam(actor.parameters(), 1e-3)
    critic_optim = torch.optim.Adam(critic.parameters(), 1e-3)
    env = gym.make("Pendulum-v1")
    buffer = ReplayBuffer[RolloutBatch](10_000, random_seed=seed)
    noise = OUNoise(1, seed)
    now = {"obs": env.reset(seed=seed)[0]}

    @torch.no_grad()
    def policy(batch: ObsBatch) -> ActBatch:
        return ActBatch(act=2 * actor(torch.as_tensor(batch.obs)).numpy())

    def step() -> None:
        obs = now["obs"]
        act = compute_action(policy, obs)
        act = np.clip(act + noise.sample(), -2, 2)
        # wrong: noisy = np.clip(act + noise.sample(), -2, 2)
        obs_next, rew, terminated, truncated, _ = env.step(act)
        # wrong: obs_next, rew, terminated, truncated, _ = env.step(noisy)
        buffer.add(
            RolloutBatch(
                obs=obs, act=act, rew=np.array(rew), obs_next=obs_next,
                terminated=np.array(terminated), truncated=np.array(truncated), info=Batch(),
            )
        )
        now["obs"] = obs_next
        if terminated or truncated:
            noise.reset()
            now["obs"] = env.reset()[0]

    for _ in range(256):
        step()

    def draw() -> tuple[RolloutBatch[Tensor]]:
        for _ in range(steps):
            step()
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    def q(net: nn.Module, obs: Tensor, act: Tensor) -> Tensor:
        return net(torch.cat([obs, act], -1)).squeeze(-1)

    def update(batch: RolloutBatch[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            q_next = q(critic_target, batch.obs_next, 2 * actor_target(batch.obs_next))
            goal = batch.rew + gamma * (~batch.terminated) * q_next
        critic_loss = (q(critic, batch.obs, batch.act) - goal).pow(2).mean()
        critic_optim.zero_grad()
        critic_loss.backward()
        critic_optim.step()
        actor_loss = -q(critic, batch.obs, 2 * actor(batch.obs)).mean()
        actor_optim.zero_grad()
        actor_loss.backward()
        actor_optim.step()
        with torch.no_grad():
            for slow, fast in ((actor_target, actor), (critic_target, critic)):
                for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
                    old.lerp_(new, tau)
        return {"critic": critic_loss.item(), "actor": actor_loss.item()}

    return update, draw
