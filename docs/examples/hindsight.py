"""DQN with hindsight experience replay (arXiv:1707.01495): ``python docs/examples/hindsight.py [seed]``.

Each action flips one of 12 bits, and an episode ends when they equal the goal. A policy that never reaches the goal
learns nothing from its rewards, so the buffer reads most episodes as if their goal had been one that they reached. With
``1`` behind the seed, which is ``future_k``, it does not, and no goal is reached.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import ActBatch, BatchRecord, ObsBatch, RolloutBatch
from typedbatch.buffers import HERVectorReplayBuffer
from typedbatch.training import Collector, Losses, add_nstep, evaluate, off_policy

Array = NDArray[Any]
Slots = NDArray[np.intp]

BITS, GAMMA, TAU, LEARNING_RATE = 12, 0.95, 0.02, 1e-3


class Goals(BatchRecord):
    """An observation: the bits, which are the goal that was achieved, and those that are wanted."""

    achieved_goal: Array
    desired_goal: Array


Rollout = RolloutBatch[Array, Goals]
Buffer = HERVectorReplayBuffer[Rollout]


def reached(achieved: Array, desired: Array) -> NDArray[np.bool_]:
    """Return whether goals are reached, for one goal or for rows: reaching it ends an episode."""
    equal: NDArray[np.bool_] = (achieved == desired).all(-1)
    return equal


def reward(achieved: Array, desired: Array) -> Array:
    """Return the reward: -1 for each step, and 0 for the one that reaches the goal."""
    return reached(achieved, desired) - 1.0


class BitFlip(gym.Env[Any, np.int64]):
    """Bits, one of which each action flips, and a goal for them."""

    def __init__(self) -> None:
        space = gym.spaces.Box(0, 1, (BITS,))
        self.observation_space = gym.spaces.Dict({"achieved_goal": space, "desired_goal": space})
        self.action_space = gym.spaces.Discrete(BITS)

    def observation(self) -> dict[str, Array]:
        return {"achieved_goal": self.bits.copy(), "desired_goal": self.goal}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self.bits, self.goal = self.np_random.integers(0, 2, (2, BITS)).astype(np.float32)
        return self.observation(), {}

    def step(self, action: np.int64) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        self.bits[action] = 1 - self.bits[action]
        done = bool(reached(self.bits, self.goal))
        return self.observation(), float(reward(self.bits, self.goal)), done, False, {}


class DQN:
    """Action values of bits and goals, of a network and of its slow copy."""

    def __init__(self, buffer: Buffer, seed: int) -> None:
        self.net = nn.Sequential(nn.Linear(2 * BITS, 256), nn.ReLU(), nn.Linear(256, BITS))
        self.target = copy.deepcopy(self.net)
        self.optim = torch.optim.Adam(self.net.parameters(), LEARNING_RATE)
        self.buffer, self.rng = buffer, np.random.default_rng(seed)

    def greedy(self, batch: ObsBatch[Array, Goals]) -> ActBatch:
        return ActBatch(act=self.net(inputs(batch.obs)).argmax(-1).numpy())

    def explore(self, batch: ObsBatch[Array, Goals]) -> ActBatch:
        act = self.greedy(batch).act
        random = self.rng.random(len(act)) < 0.2
        return ActBatch(act=np.where(random, self.rng.integers(0, BITS, len(act)), act))

    def value(self, obs: Goals) -> Tensor:
        """Return the target's value of the action that the network finds best (double DQN, arXiv:1509.06461)."""
        best = self.net(inputs(obs)).argmax(-1, keepdim=True)
        value: Tensor = self.target(inputs(obs)).gather(-1, best)
        return value

    def update(self, batch: Rollout, slots: Slots) -> Losses:
        returns = torch.as_tensor(add_nstep(batch, self.buffer, slots, self.value, gamma=GAMMA, n=1).returns)
        value = self.net(inputs(batch.obs)).gather(-1, torch.as_tensor(batch.act)[:, None]).squeeze(-1)
        loss = nn.functional.smooth_l1_loss(value, returns)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.net.parameters(), strict=True):
                slow.lerp_(fast, TAU)
        return {"loss": loss.item()}


def inputs(obs: Goals) -> Tensor:
    return torch.as_tensor(np.concatenate([obs.achieved_goal, obs.desired_goal], -1))


def bit_flips(num_envs: int) -> SyncVectorEnv:
    """Create environments whose episodes are cut off after as many steps as there are bits."""
    return SyncVectorEnv([lambda: gym.wrappers.TimeLimit(BitFlip(), BITS)] * num_envs)


def main(seed: int = 0, future_k: int = 5, steps: int = 15_000) -> None:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    buffer = Buffer(
        100_000, 8, reward, horizon=BITS, future_k=future_k, compute_terminated_fn=reached, random_seed=seed
    )
    dqn = DQN(buffer, seed)
    collector = Collector(bit_flips(8), dqn.explore)
    collector.reset(seed)
    training = off_policy(
        collector, buffer, dqn.update,
        n_step=16, updates_per_step=0.25, batch_size=128, epoch_steps=5_000, total_steps=steps, warmup=1_000,
    )  # fmt: skip
    for epoch in training:
        returns = evaluate(bit_flips(10), dqn.greedy, 100, seed=seed + 1000).returns
        print(f"{epoch.step:6} steps, goals reached {(returns > -BITS).mean():4.0%}, loss {epoch.losses['loss']:6.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
