"""DQN with action masks on a grid with walls; an action that runs into a wall is invalid."""
# wrong: """The maximum of the target is over all actions, also invalid ones, which are never taken and whose values nobody learns."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, BatchRecord, ObsBatch, RolloutBatch, convert
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

GAMMA = 0.9
MAZE = ["..#..", "..#..", ".....", "#.#.#", "....G"]
MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0)]


class Maze(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (25,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        free = [(r, c) for r in range(5) for c in range(5) if MAZE[r][c] == "."]
        self.pos, self.t = free[self.np_random.integers(len(free))], 0
        return self._obs(), {"action_mask": self._mask()}

    def _mask(self) -> np.ndarray:
        cells = [(self.pos[0] + r, self.pos[1] + c) for r, c in MOVES]
        return np.array([0 <= r < 5 and 0 <= c < 5 and MAZE[r][c] != "#" for r, c in cells])

    def _obs(self) -> np.ndarray:
        obs = np.zeros(25, np.float32)
        obs[5 * self.pos[0] + self.pos[1]] = 1
        return obs

    def step(self, action):
        r, c = MOVES[int(action)]
        assert self._mask()[int(action)]
        self.pos, self.t = (self.pos[0] + r, self.pos[1] + c), self.t + 1
        goal = MAZE[self.pos[0]][self.pos[1]] == "G"
        return self._obs(), 1.0 if goal else -0.05, goal, self.t >= 30 and not goal, {"action_mask": self._mask()}


class TensorMasks(BatchRecord):
    action_mask: Tensor


class Tensors(RolloutBatch[Tensor]):
    """Transitions; the mask is that of the observation after the step."""

    info: TensorMasks


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    net = nn.Sequential(nn.Linear(25, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    target = copy.deepcopy(net)
    optim = torch.optim.Adam(net.parameters(), 1e-3)

    def act(batch: ObsBatch, eps: float = 0.2) -> ActBatch:
        mask = torch.as_tensor(batch.info.action_mask)
        best = net(torch.as_tensor(batch.obs)).masked_fill(~mask, -torch.inf).argmax(-1).numpy()
        noise = np.where(mask.numpy(), rng.random(mask.shape), -1.0).argmax(-1)
        return ActBatch(act=np.where(rng.random(len(best)) < eps, noise, best))

    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector = Collector(gym.vector.SyncVectorEnv([Maze for _ in range(4)]), act, infos=["action_mask"])
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=256)

    def draw() -> tuple[Tensors]:
        collector.collect(buffer, n_step=8)
        batch, _ = buffer.sample(64)
        return (convert(batch, Tensors, dtype=torch.float32),)

    def update(batch: Tensors) -> dict[str, float]:
        with torch.no_grad():
            q_next = target(batch.obs_next).masked_fill(~batch.info.action_mask, -torch.inf)
            # wrong: q_next = target(batch.obs_next)
            goal = batch.rew + GAMMA * (~batch.terminated) * q_next.amax(-1)
        q = net(batch.obs).gather(1, batch.act[:, None]).squeeze(1)
        loss = nn.functional.mse_loss(q, goal)
        optim.zero_grad()
        loss.backward()
        optim.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
                slow.lerp_(fast, 0.02)
        return {"loss": loss.item(), "q": q.mean().item()}

    return update, draw
