"""Hindsight experience replay (strategy "future") with DQN on bit flipping."""
# wrong: """Goals are replaced in observations, but rewards and ends are still those of the old goals."""
# HER: arXiv:1707.01495, section 4.2, recomputes the reward for each replaced goal (no single source).
from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import ActBatch, Batch, ObsBatch, RolloutBatch, cat, convert
from typedbatch.episodes import split_by_episode
from typedbatch.training import Collector

torch.set_num_threads(1)
BITS = 6


def reached(state: NDArray[np.float32], goal: NDArray[np.float32]) -> NDArray[np.bool_]:
    return (state == goal).all(-1)


class FlipBits(gym.Env[Any, Any]):
    """Observations are bits, and behind them the goal."""

    observation_space = gym.spaces.Box(0.0, 1.0, (2 * BITS,), np.float32)
    action_space = gym.spaces.Discrete(BITS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.bits, self.goal = self.np_random.integers(0, 2, (2, BITS)).astype(np.float32)
        self.goal[0] = 1 - self.bits[0]
        return np.concatenate([self.bits, self.goal]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.bits[action] = 1 - self.bits[action]
        success = bool(reached(self.bits, self.goal))
        return np.concatenate([self.bits, self.goal]), 0.0 if success else -1.0, success, False, {}


def relabel(episode: RolloutBatch, rng: np.random.Generator) -> RolloutBatch:
    """The episode as if states that were reached later had been the goals."""
    later = rng.integers(np.arange(len(episode)), len(episode))
    goal = episode.obs_next[later, :BITS]
    success = reached(episode.obs_next[:, :BITS], goal)
    # wrong: success = reached(episode.obs_next[:, :BITS], episode.obs_next[:, BITS:])
    return RolloutBatch(
        obs=np.concatenate([episode.obs[:, :BITS], goal], 1),
        obs_next=np.concatenate([episode.obs_next[:, :BITS], goal], 1),
        act=episode.act,
        rew=np.where(success, 0.0, -1.0),
        terminated=success,
        truncated=episode.truncated & ~success,
        info=Batch(),
    )


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = nn.Sequential(nn.Linear(2 * BITS, 64), nn.ReLU(), nn.Linear(64, BITS))
    slow = copy.deepcopy(net)
    optim = torch.optim.Adam(net.parameters(), 1e-3)
    memory: list[RolloutBatch] = []

    def explore(batch: ObsBatch) -> ActBatch:
        act = net(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(rng.random(len(act)) < 0.3, rng.integers(0, BITS, len(act)), act))

    envs = gym.vector.SyncVectorEnv([lambda: gym.wrappers.TimeLimit(FlipBits(), BITS + 2)] * 4)
    collector = Collector(envs, explore)
    collector.reset(seed=seed)

    def draw() -> tuple[list[RolloutBatch]]:
        memory.extend(split_by_episode(collector.rollout(128)))
        return ([memory[i] for i in rng.integers(0, len(memory), 16)],)

    def update(episodes: list[RolloutBatch]) -> dict[str, float]:
        fields = "obs", "obs_next", "act", "rew", "terminated", "truncated"
        original = [RolloutBatch(**{name: episode[name] for name in fields}, info=Batch()) for episode in episodes]
        rows = cat([*original, *(relabel(episode, rng) for episode in episodes for _ in range(2))])
        batch, loss_sum = convert(rows, RolloutBatch[Tensor], dtype=torch.float32), 0.0
        for part in batch.split(128, merge_last=True, rng=torch.default_generator):
            with torch.no_grad():
                y = part.rew + 0.95 * slow(part.obs_next).amax(-1) * ~part.terminated
            q = net(part.obs).gather(-1, part.act[:, None]).squeeze(-1)
            loss = nn.functional.smooth_l1_loss(q, y.clamp(-1 / (1 - 0.95), 0))
            optim.zero_grad()
            loss.backward()
            optim.step()
            loss_sum += loss.item()
        with torch.no_grad():
            for p_slow, p in zip(slow.parameters(), net.parameters(), strict=True):
                p_slow.lerp_(p, 0.05)
        return {"loss": loss_sum, "rew": rows.rew.mean().item()}

    return update, draw
