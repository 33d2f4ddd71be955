"""TD3 with a replay buffer that is a plain list of transitions."""

from __future__ import annotations

import copy
import random

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, RolloutBatch, RolloutBatchProtocol, validate


class ListBuffer:
    def __init__(self, max_size: int) -> None:
        self.transitions: list[Batch] = []
        self.max_size = max_size

    def push(self, **transition: object) -> None:
        if len(self.transitions) == self.max_size:
            self.transitions.pop(0)
        self.transitions.append(Batch(**transition))

    def sample(self, size: int) -> RolloutBatch:
        picked = Batch.stack(random.sample(self.transitions, size))
        picked.info = Batch()
        return validate(picked, RolloutBatch)


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 1), nn.Tanh())

    def forward(self, obs: Tensor) -> Tensor:
        out: Tensor = self.net(obs)
        return out


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, obs: Tensor, act: Tensor) -> Tensor:
        out: Tensor = self.net(torch.cat([obs, act], -1))
        return out.squeeze(-1)


class TD3:
    def __init__(self, policy_delay: int = 2) -> None:
        self.actor, self.critics = Actor(), nn.ModuleList([Critic(), Critic()])
        self.actor_target, self.critics_target = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optim = torch.optim.Adam(self.critics.parameters(), lr=1e-3)
        self.policy_delay = policy_delay
        self.calls = 0

    def target(self, batch: RolloutBatchProtocol[Tensor]) -> Tensor:
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(batch.act)).clamp(-0.5, 0.5)
            #! misspelt-read: noise = (0.2 * torch.randn_like(batch.acts)).clamp(-0.5, 0.5)
            act_next = (self.actor_target(batch.obs_next) + noise).clamp(-1, 1)
            #! misspelt-read: act_next = (self.actor_target(batch.next_obs) + noise).clamp(-1, 1)
            q_next = torch.stack([critic(batch.obs_next, act_next) for critic in self.critics_target]).amin(0)
            return batch.rew + 0.98 * q_next * (~batch.terminated).float()

    def update(self, sampled: RolloutBatchProtocol) -> Batch:
        self.calls += 1
        batch = Batch(
            obs=torch.as_tensor(sampled.obs).float(),
            obs_next=torch.as_tensor(sampled.obs_next).float(),
            act=torch.as_tensor(sampled.act).float(),
            #! misspelt-keyword: action=torch.as_tensor(sampled.act).float(),
            rew=torch.as_tensor(sampled.rew).float(),
            terminated=torch.as_tensor(sampled.terminated),
            truncated=torch.as_tensor(sampled.truncated),
            info=Batch(),
        )
        batch.target = self.target(batch)
        #! wrong-kind: batch.target = self.target(sampled)
        losses = Batch()
        losses.critic = sum((critic(batch.obs, batch.act) - batch.target).pow(2).mean() for critic in self.critics)
        self.critic_optim.zero_grad()
        losses.critic.backward()
        #! misspelt-read: losses.critics.backward()
        self.critic_optim.step()
        if self.calls % self.policy_delay == 0:
            losses.actor = -self.critics[0](batch.obs, self.actor(batch.obs)).mean()
            self.actor_optim.zero_grad()
            losses.actor.backward()
            #! misspelt-read: losses.policy.backward()
            self.actor_optim.step()
            with torch.no_grad():
                for new, old in zip(self.actor.parameters(), self.actor_target.parameters(), strict=True):
                    old.lerp_(new, 0.05)
        return losses


def main() -> None:
    random.seed(0)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    agent, buffer = TD3(), ListBuffer(200)
    obs = rng.normal(size=3).astype(np.float32)
    for step in range(150):
        with torch.no_grad():
            act = agent.actor(torch.as_tensor(obs)).numpy() + 0.1 * rng.normal(size=1).astype(np.float32)
        obs_next = (0.95 * obs + 0.1 * act).astype(np.float32)
        ended = bool(np.abs(obs_next).max() > 2)
        buffer.push(obs=obs, act=act, rew=-float(obs_next @ obs_next), obs_next=obs_next, terminated=ended, truncated=False)
        #! misspelt-keyword: buffer.push(obs=obs, act=act, reward=-float(obs_next @ obs_next), obs_next=obs_next, terminated=ended, truncated=False)
        obs = rng.normal(size=3).astype(np.float32) if ended else obs_next
        if step > 40:
            losses = agent.update(buffer.sample(16))
            if step % 50 == 0:
                print(step, {name: round(value.item(), 4) for name, value in losses.items()})


if __name__ == "__main__":
    main()
