"""DDPG on Pendulum, losses of actor and critic in one function."""
# wrong: """The critic steps after the backward pass of the actor's loss, whose gradient is then part of the critic's."""
# Source: why spinning-up freezes the critic in the actor's update, and why CleanRL steps before it.
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, convert
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector, Losses, add_nstep

torch.set_num_threads(1)


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.obs, self.both = nn.Linear(3, 64), nn.Linear(64 + 1, 64)
        self.out = nn.Linear(64, 1)

    def forward(self, obs: Tensor, act: Tensor) -> Tensor:
        hidden = torch.relu(self.obs(obs))
        return self.out(torch.relu(self.both(torch.cat([hidden, act], -1)))).squeeze(-1)


class OrnsteinUhlenbeck:
    def __init__(self, shape: tuple[int, ...], rng: np.random.Generator) -> None:
        self.state, self.rng = np.zeros(shape), rng

    def __call__(self) -> np.ndarray:
        self.state += -0.15 * self.state + 0.2 * self.rng.normal(size=self.state.shape)
        return self.state


class DDPG:
    def __init__(self, buffer: VectorReplayBuffer[RolloutBatch], seed: int) -> None:
        self.buffer = buffer
        self.actor = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())
        self.critic = Critic()
        self.actor_slow, self.critic_slow = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), 1e-4)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), 1e-3, weight_decay=1e-2)
        self.noise = OrnsteinUhlenbeck((4, 1), np.random.default_rng(seed))

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = 2 * self.actor(torch.as_tensor(batch.obs)).numpy() + self.noise()
        return ActBatch(act=act.clip(-2, 2).astype(np.float32))

    def target(self, obs_next: np.ndarray) -> Tensor:
        obs = torch.as_tensor(obs_next)
        return self.critic_slow(obs, 2 * self.actor_slow(obs))

    def learn(self, batch: BatchWithReturns[Tensor]) -> Losses:
        critic_loss = nn.functional.mse_loss(self.critic(batch.obs, batch.act), batch.returns)
        self.critic_optim.zero_grad()
        critic_loss.backward()
        self.critic_optim.step()
        # wrong: without this line

        actor_loss = -self.critic(batch.obs, 2 * self.actor(batch.obs)).mean()
        self.actor_optim.zero_grad()
        actor_loss.backward()
        # wrong, too: self.critic_optim.step()
        self.actor_optim.step()
        self.sync()
        return {"critic": critic_loss.item(), "actor": actor_loss.item()}

    @torch.no_grad()
    def sync(self, tau: float = 0.005) -> None:
        for slow, fast in (self.actor_slow, self.actor), (self.critic_slow, self.critic):
            for p_slow, p_fast in zip(slow.parameters(), fast.parameters(), strict=True):
                p_slow += tau * (p_fast - p_slow)

    def update(self, batch: RolloutBatch, slots: np.ndarray) -> Losses:
        with_returns = add_nstep(batch, self.buffer, slots, self.target, gamma=0.99, n=2)
        return self.learn(convert(with_returns, BatchWithReturns[Tensor], dtype=torch.float32))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    ddpg = DDPG(buffer, seed)
    collector = Collector(gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync"), ddpg.explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=256, random=True)

    def draw() -> tuple[RolloutBatch, np.ndarray]:
        collector.collect(buffer, n_step=4)
        return buffer.sample(64)

    return ddpg.update, draw
