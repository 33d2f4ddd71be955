"""DQN on a small grid world of its own, with the last two observations as input."""
# wrong: """The frame stack returns the frames before the new one is appended: every step repeats the observation of the step before."""
# Source: RLMutation, Repeat (the environment returns the observation of the previous step), arXiv:2301.05651.
from __future__ import annotations

import copy
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch, convert
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

torch.set_num_threads(1)


class Corridor(gym.Env[Any, Any]):
    """Walk right to the end of a corridor of 7 cells; each step costs."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(0, 4))
        return np.array([self.cell / 6], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.cell = min(max(self.cell + (1 if action == 1 else -1), 0), 6)
        end = self.cell == 6
        return np.array([self.cell / 6], np.float32), 1.0 if end else -0.1, end, False, {}


class Stack(gym.Wrapper[Any, Any, Any, Any]):
    """The last observations side by side."""

    def __init__(self, env: gym.Env[Any, Any], k: int = 2) -> None:
        super().__init__(env)
        self.frames: deque[Any] = deque(maxlen=k)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (k,), np.float32)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        frame, info = self.env.reset(**kwargs)
        self.frames.extend([frame] * self.frames.maxlen)
        return np.concatenate(self.frames), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        frame, rew, terminated, truncated, info = self.env.step(action)
        # wrong, too: stacked = np.concatenate(self.frames)
        self.frames.append(frame)
        stacked = np.concatenate(self.frames)
        # wrong: without this line
        return stacked, rew, terminated, truncated, info


def make() -> gym.Env[Any, Any]:
    return Stack(gym.wrappers.TimeLimit(Corridor(), 40))


class Learner:
    def __init__(self, seed: int) -> None:
        self.net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
        self.slow, self.rng = copy.deepcopy(self.net), np.random.default_rng(seed)
        self.optim = torch.optim.Adam(self.net.parameters(), 3e-3)

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = self.net(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(self.rng.random(len(act)) < 0.5, self.rng.integers(0, 2, len(act)), act))

    def update(self, sample: RolloutBatch) -> dict[str, float]:
        batch = convert(sample, RolloutBatch[Tensor], dtype=torch.float32)
        with torch.no_grad():
            y = batch.rew + 0.95 * self.slow(batch.obs_next).amax(-1) * ~batch.terminated
        q = self.net(batch.obs).gather(-1, batch.act[:, None])[:, 0]
        loss = nn.functional.mse_loss(q, y)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.slow.parameters(), self.net.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
        return {"loss": loss.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    learner = Learner(seed)
    collector = Collector(gym.vector.SyncVectorEnv([make] * 4), learner.explore)
    collector.reset(seed=seed)
    buffer = VectorReplayBuffer[RolloutBatch](2_000, 4, random_seed=seed)
    collector.collect(buffer, n_step=200)

    def draw() -> tuple[RolloutBatch]:
        collector.collect(buffer, n_step=8)
        return (buffer.sample(64)[0],)

    return learner.update, draw
