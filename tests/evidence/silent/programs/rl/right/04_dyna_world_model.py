"""Dyna-like DQN on CartPole: a model predicts the change to obs_next and the end, and half of the training is imagined."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, Batch, ObsBatch, RolloutBatch, cat
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


class World(nn.Module):
    """Obs and action to the change of obs, and the logit of a failure."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU())
        self.change, self.failure = nn.Linear(64, 4), nn.Linear(64, 1)

    def forward(self, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor]:
        x = self.trunk(torch.cat([obs, nn.functional.one_hot(act, 2).float()], -1))
        return self.change(x), self.failure(x).squeeze(-1)


class Dyna:
    gamma, eps, warmup = 0.98, 0.1, 200

    def __init__(self, seed: int) -> None:
        self.q = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.q_target, self.world = copy.deepcopy(self.q), World()
        self.q_optim = torch.optim.Adam(self.q.parameters(), 1e-3)
        self.world_optim = torch.optim.Adam(self.world.parameters(), 1e-3)
        self.rng = np.random.default_rng(seed)
        self.updates = 0

    def act(self, batch: ObsBatch) -> ActBatch:
        best = self.q(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(self.rng.random(len(best)) < self.eps, self.rng.integers(0, 2, len(best)), best))

    def learn_world(self, batch: RolloutBatch[Tensor]) -> Tensor:
        change, failure = self.world(batch.obs, batch.act)
        moved = batch.obs_next - batch.obs
        scale = moved.std(0, keepdim=True) + 1e-3
        loss = ((change - moved) / scale).pow(2).mean()
        loss = loss + nn.functional.binary_cross_entropy_with_logits(failure, batch.terminated.float())
        self.world_optim.zero_grad()
        loss.backward()
        self.world_optim.step()
        return loss.detach()

    @torch.no_grad()
    def imagine(self, batch: RolloutBatch[Tensor]) -> RolloutBatch[Tensor]:
        """A step with random actions from the observations of the batch."""
        act = torch.randint(0, 2, batch.act.shape)
        change, failure = self.world(batch.obs, act)
        return RolloutBatch[Tensor](
            obs=batch.obs, act=act, obs_next=batch.obs + change, rew=torch.ones_like(batch.rew),
            terminated=failure > 0, truncated=torch.zeros_like(batch.truncated), info=Batch(),
        )

    def learn_q(self, batch: RolloutBatch[Tensor]) -> Tensor:
        with torch.no_grad():
            best = self.q(batch.obs_next).argmax(1, keepdim=True)
            goal = batch.rew + self.gamma * (~batch.terminated) * self.q_target(batch.obs_next).gather(1, best).squeeze(1)
        loss = nn.functional.smooth_l1_loss(self.q(batch.obs).gather(1, batch.act[:, None]).squeeze(1), goal)
        self.q_optim.zero_grad()
        loss.backward()
        self.q_optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.q_target.parameters(), self.q.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        return loss.detach()

    def update(self, batch: RolloutBatch[Tensor]) -> dict[str, float]:
        self.updates += 1
        losses = {"world": self.learn_world(batch).item()}
        if self.updates > self.warmup:  # the model is no good before
            batch = cat([batch, self.imagine(batch)])
        return losses | {"q": self.learn_q(batch).item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    dyna = Dyna(seed)
    buffer = VectorReplayBuffer[RolloutBatch](8_000, 4, random_seed=seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4, vectorization_mode="sync"), dyna.act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=256, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=4)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return dyna.update, draw
