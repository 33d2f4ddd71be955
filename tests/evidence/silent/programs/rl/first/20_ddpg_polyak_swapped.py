"""DDPG on Pendulum with small functions."""
# wrong: """The arguments of `polyak` are swapped for the critic: the trained critic is pulled to its target, which never changes."""
# Source: `soft_update(local, target)` exists with both orders of arguments in public code.
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch, convert
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

torch.set_num_threads(1)


@torch.no_grad()
def polyak(target: nn.Module, source: nn.Module, tau: float) -> None:
    """Move the target towards the source."""
    for slow, fast in zip(target.parameters(), source.parameters(), strict=True):
        slow.mul_(1 - tau).add_(tau * fast)


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, obs: Tensor, act: Tensor) -> Tensor:
        return self.net(torch.cat([obs, act], -1)).squeeze(-1)


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())

    def forward(self, obs: Tensor) -> Tensor:
        return 2 * self.net(obs)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    actor, critic = Actor(), Critic()
    actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
    actor_optim = torch.optim.Adam(actor.parameters(), 1e-3)
    critic_optim = torch.optim.Adam(critic.parameters(), 1e-3)

    def explore(batch: ObsBatch) -> ActBatch:
        act = actor(torch.as_tensor(batch.obs)).numpy()
        return ActBatch(act=np.clip(act + rng.normal(0, 0.3, act.shape), -2, 2).astype(np.float32))

    def critic_loss(batch: RolloutBatch[Tensor]) -> Tensor:
        with torch.no_grad():
            following = critic_target(batch.obs_next, actor_target(batch.obs_next))
            y = batch.rew + 0.98 * following * ~batch.terminated
        return nn.functional.mse_loss(critic(batch.obs, batch.act), y)

    def actor_loss(batch: RolloutBatch[Tensor]) -> Tensor:
        return -critic(batch.obs, actor(batch.obs)).mean()

    def descend(loss: Tensor, optim: torch.optim.Optimizer) -> float:
        optim.zero_grad()
        loss.backward()
        optim.step()
        return loss.item()

    def update(sample: RolloutBatch) -> dict[str, float]:
        batch = convert(sample, RolloutBatch[Tensor], dtype=torch.float32)
        losses = {"critic": descend(critic_loss(batch), critic_optim), "actor": descend(actor_loss(batch), actor_optim)}
        polyak(actor_target, actor, 0.01)
        polyak(critic_target, critic, 0.01)
        # wrong: polyak(critic, critic_target, 0.01)
        return losses

    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector = Collector(gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync"), explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=400, random=True)

    def draw() -> tuple[RolloutBatch]:
        collector.collect(buffer, n_step=4)
        return (buffer.sample(128)[0],)

    return update, draw
