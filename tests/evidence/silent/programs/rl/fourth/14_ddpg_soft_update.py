"""DDPG on Pendulum whose target critic and target actor both follow their online networks."""
# wrong: """The target critic is updated from itself, so it keeps its initial weights for ever."""

import copy
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, RolloutBatch
from typedbatch.buffers import ReplayBuffer


@dataclass
class Hyper:
    gamma: float = 0.98
    tau: float = 0.01
    actor_lr: float = 1e-3
    critic_lr: float = 2e-3
    batch_size: int = 64
    memory: int = 10_000
    theta: float = 0.15
    sigma: float = 0.3


def soft_update(target: nn.Module, source: nn.Module, tau: float) -> None:
    for target_param, param in zip(target.parameters(), source.parameters()):
        target_param.data.copy_(target_param.data * (1.0 - tau) + param.data * tau)


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())

    def forward(self, state: Tensor) -> Tensor:
        return 2.0 * self.layers(state)


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.state, self.rest = nn.Linear(3, 64), nn.Sequential(nn.Linear(65, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        return self.rest(torch.cat([torch.relu(self.state(state)), action], -1)).squeeze(-1)


class Agent:
    def __init__(self, hp: Hyper, seed: int) -> None:
        self.hp = hp
        self.actor, self.critic = Actor(), Critic()
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), hp.actor_lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), hp.critic_lr, weight_decay=1e-4)
        self.memory = ReplayBuffer[RolloutBatch](hp.memory, random_seed=seed)
        self.env, self.rng, self.noise = gym.make("Pendulum-v1"), np.random.default_rng(seed), 0.0
        self.obs = self.env.reset(seed=seed)[0]

    @torch.no_grad()
    def choose(self) -> np.ndarray:
        self.noise += -self.hp.theta * self.noise + self.hp.sigma * self.rng.normal()
        return np.clip(self.actor(torch.as_tensor(self.obs)).numpy() + self.noise, -2, 2).astype(np.float32)

    def step(self) -> None:
        act = self.choose()
        obs_next, rew, terminated, truncated, _ = self.env.step(act)
        self.memory.add(RolloutBatch(
            obs=self.obs, act=act, rew=np.array(rew / 10, np.float32), obs_next=obs_next,
            terminated=np.array(terminated), truncated=np.array(truncated), info=Batch()))
        self.obs = obs_next
        if terminated or truncated:
            self.obs, self.noise = self.env.reset()[0], 0.0

    def sample(self) -> tuple[RolloutBatch[Tensor]]:
        for _ in range(4):
            self.step()
        batch, _ = self.memory.sample(self.hp.batch_size, into=RolloutBatch[Tensor], dtype=torch.float32)
        return (batch,)

    def learn(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            q_next = self.critic_target(batch.obs_next, self.actor_target(batch.obs_next))
            q_label = batch.rew + self.hp.gamma * q_next * (1 - batch.terminated.float())
        critic_loss = nn.functional.mse_loss(self.critic(batch.obs, batch.act), q_label)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        actor_loss = -self.critic(batch.obs, self.actor(batch.obs)).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()

        soft_update(self.critic_target, self.critic, self.hp.tau)
        # wrong: soft_update(self.critic_target, self.critic_target, self.hp.tau)
        soft_update(self.actor_target, self.actor, self.hp.tau)
        return {"critic": critic_loss.item(), "actor": actor_loss.item(), "label": q_label.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    agent = Agent(Hyper(), seed)
    for _ in range(300):
        agent.step()
    return agent.learn, agent.sample
