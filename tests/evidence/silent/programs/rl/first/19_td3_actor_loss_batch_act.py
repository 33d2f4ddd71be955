"""TD3 on Pendulum, actor and targets updated every second time."""
# wrong: """The actor's loss values the actions of the batch instead of the actor's: the actor gets no gradient at all."""
# Source: wrong data wired; autograd does not complain, since the critic's parameters take the gradient.
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

torch.set_num_threads(1)


class Actor(nn.Module):
    def __init__(self, state_dim: int, action_dim: int, max_action: float) -> None:
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(state_dim, 64), nn.Linear(64, 64), nn.Linear(64, action_dim)
        self.max_action = max_action

    def forward(self, state: Tensor) -> Tensor:
        a = F.relu(self.l2(F.relu(self.l1(state))))
        return self.max_action * torch.tanh(self.l3(a))


class Critic(nn.Module):
    def __init__(self, state_dim: int, action_dim: int) -> None:
        super().__init__()
        self.l1, self.l2 = nn.Linear(state_dim + action_dim, 64), nn.Linear(64, 1)
        self.l4, self.l5 = nn.Linear(state_dim + action_dim, 64), nn.Linear(64, 1)

    def forward(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        sa = torch.cat([state, action], 1)
        return self.l2(F.relu(self.l1(sa))), self.l5(F.relu(self.l4(sa)))

    def Q1(self, state: Tensor, action: Tensor) -> Tensor:
        return self.l2(F.relu(self.l1(torch.cat([state, action], 1))))


class TD3:
    def __init__(self, seed: int, discount: float = 0.99, tau: float = 0.005) -> None:
        self.actor, self.critic = Actor(3, 1, 2.0), Critic(3, 1)
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.discount, self.tau, self.max_action = discount, tau, 2.0
        self.policy_noise, self.noise_clip, self.policy_freq = 0.4, 1.0, 2
        self.total_it, self.rng = 0, np.random.default_rng(seed)

    def select_action(self, batch: ObsBatch) -> ActBatch:
        act = self.actor(torch.as_tensor(batch.obs)).numpy()
        noise = self.rng.normal(0, 0.2, act.shape).astype(np.float32)
        return ActBatch(act=(act + noise).clip(-self.max_action, self.max_action))

    def train(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        self.total_it += 1
        state, action, next_state = batch.obs, batch.act, batch.obs_next
        reward, not_done = batch.rew.unsqueeze(1), 1 - batch.terminated.float().unsqueeze(1)
        with torch.no_grad():
            noise = (torch.randn_like(action) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)
            next_action = (self.actor_target(next_state) + noise).clamp(-self.max_action, self.max_action)
            target_Q1, target_Q2 = self.critic_target(next_state, next_action)
            target_Q = reward + not_done * self.discount * torch.min(target_Q1, target_Q2)
        current_Q1, current_Q2 = self.critic(state, action)
        critic_loss = F.mse_loss(current_Q1, target_Q) + F.mse_loss(current_Q2, target_Q)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()
        if self.total_it % self.policy_freq == 0:
            actor_loss = -self.critic.Q1(state, self.actor(state)).mean()
            # wrong: actor_loss = -self.critic.Q1(state, action).mean()
            self.actor_optimizer.zero_grad()
            actor_loss.backward()
            self.actor_optimizer.step()
            for param, target_param in zip(self.critic.parameters(), self.critic_target.parameters(), strict=True):
                target_param.data.copy_(self.tau * param.data + (1 - self.tau) * target_param.data)
            for param, target_param in zip(self.actor.parameters(), self.actor_target.parameters(), strict=True):
                target_param.data.copy_(self.tau * param.data + (1 - self.tau) * target_param.data)
        return {"critic": critic_loss.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    td3 = TD3(seed)
    buffer = VectorReplayBuffer[RolloutBatch](4_000, 2, random_seed=seed)
    collector = Collector(gym.make_vec("Pendulum-v1", 2, vectorization_mode="sync"), td3.select_action)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=256, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=2)
        return (buffer.sample(100, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return td3.train, draw
