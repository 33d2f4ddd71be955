"""TD3 on Pendulum."""
# wrong: """The pairs of slow and fast parameters are a zip that is made once: it is empty after the first update of the targets."""
# An iterator that is used up raises nothing (no single source).
from __future__ import annotations

import copy
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


@dataclass
class Config:
    gamma: float = 0.98
    tau: float = 0.05
    noise: float = 0.2
    noise_clip: float = 0.5
    explore: float = 0.2
    delay: int = 2
    batch: int = 64
    steps: int = 8  # gradient steps in an update


def mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Networks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pi, self.q1, self.q2 = mlp(3, 64, 1), mlp(4, 64, 1), mlp(4, 64, 1)

    def act(self, obs: Tensor) -> Tensor:
        return 2.0 * self.pi(obs).tanh()

    def values(self, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([obs, act], -1)
        return self.q1(both).squeeze(-1), self.q2(both).squeeze(-1)


class TD3:
    def __init__(self, config: Config) -> None:
        self.config, self.count = config, 0
        self.net = Networks()
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.pi_optim = torch.optim.Adam(self.net.pi.parameters(), 1e-3)
        self.q_optim = torch.optim.Adam([*self.net.q1.parameters(), *self.net.q2.parameters()], 1e-3)
        self.pairs = list(zip(self.target.parameters(), self.net.parameters()))
        # wrong: self.pairs = zip(self.target.parameters(), self.net.parameters())

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = self.net.act(torch.as_tensor(batch.obs))
        return ActBatch(act=(act + 2.0 * self.config.explore * torch.randn_like(act)).clamp(-2, 2).numpy())

    def target_values(self, batch: RolloutBatch[Tensor]) -> Tensor:
        with torch.no_grad():
            act = self.target.act(batch.obs_next)
            noise = (torch.randn_like(act) * self.config.noise).clamp(-self.config.noise_clip, self.config.noise_clip)
            value = torch.min(*self.target.values(batch.obs_next, (act + 2.0 * noise).clamp(-2, 2)))
            return batch.rew + self.config.gamma * (~batch.terminated).float() * value

    def step(self, batch: RolloutBatch[Tensor]) -> float:
        self.count += 1
        y = self.target_values(batch)
        q1, q2 = self.net.values(batch.obs, batch.act)
        loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.q_optim.zero_grad()
        loss.backward()
        self.q_optim.step()
        if self.count % self.config.delay == 0:
            pi_loss = -self.net.values(batch.obs, self.net.act(batch.obs))[0].mean()
            self.pi_optim.zero_grad()
            pi_loss.backward()
            self.pi_optim.step()
            with torch.no_grad():
                for slow, fast in self.pairs:
                    slow.lerp_(fast, self.config.tau)
        return loss.item()

    def update(self, *batches: RolloutBatch[Tensor]) -> dict[str, float]:
        return {"loss": float(np.mean([self.step(batch) for batch in batches]))}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    config = Config()
    agent = TD3(config)
    collector = Collector(gym.make_vec("Pendulum-v1", 4), agent.explore)
    collector.reset(seed=seed)
    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector.collect(buffer, n_step=256)

    def draw() -> tuple[RolloutBatch[Tensor], ...]:
        collector.collect(buffer, n_step=32)
        into = {"into": RolloutBatch[Tensor], "dtype": torch.float32}
        return tuple(buffer.sample(config.batch, **into)[0] for _ in range(config.steps))

    return agent.update, draw
