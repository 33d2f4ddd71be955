"""Collectors beside a plain loop over gymnasium's environments that writes preallocated arrays, and beside Tianshou's.

The loop puts the last observations of episodes in their place, as a collector has to, and keeps no statistics. All
step CartPole in this process, with the same random actions, or with actions that a small network of torch draws.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Categorical

from typedbatch import ActBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

from .buffers import Row
from .timing import beside

STEPS, SIZE = 128, 20_000
Policy = Callable[[Any], Any]


def make(envs: int) -> Any:
    """CartPoles in this process, reset within the step that ends an episode."""
    kwargs = {"autoreset_mode": AutoresetMode.SAME_STEP}
    return gym.make_vec("CartPole-v1", envs, vectorization_mode="sync", vector_kwargs=kwargs)


class Loop:
    """The floor: one step after the other, into arrays."""

    def __init__(self, envs: int, policy: Policy) -> None:
        self.envs, self.policy, self.count = make(envs), policy, envs
        self.obs, _ = self.envs.reset(seed=0)

    def rollout(self, steps: int) -> dict[str, Any]:
        shape = (self.count, steps)
        obs, obs_next = np.empty((*shape, 4), np.float32), np.empty((*shape, 4), np.float32)
        act, rew = np.empty(shape, np.int64), np.empty(shape)
        terminated, truncated = np.empty(shape, bool), np.empty(shape, bool)
        with torch.no_grad():
            for t in range(steps):
                chosen = self.policy(self.obs)
                obs[:, t], act[:, t] = self.obs, chosen
                self.obs, rew[:, t], terminated[:, t], truncated[:, t], info = self.envs.step(chosen)
                obs_next[:, t] = self.obs
                if "final_obs" in info:
                    ended = info["_final_obs"]
                    obs_next[ended, t] = np.stack(info["final_obs"][ended])
        rows = {"obs": obs, "obs_next": obs_next, "act": act, "rew": rew}
        return {**rows, "terminated": terminated, "truncated": truncated}


def policies(envs: int) -> dict[str, Policy]:
    """From observations to actions."""
    rng = np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    return {
        "random": lambda obs: rng.integers(0, 2, envs),
        "torch": lambda obs: Categorical(logits=net(torch.from_numpy(obs)), validate_args=False).sample().numpy(),
    }


def measure_training() -> Iterator[tuple[int, list[Row]]]:
    """Yield the rows of each number of environments."""
    for envs in (8, 16):
        rows: list[Row] = []
        for name, policy in policies(envs).items():
            rows += _rows(envs, name, policy, *((1.15, 1.2) if name == "random" else (1.1, 1.1)))
        yield envs, rows


def _rows(envs: int, name: str, policy: Policy, bar: float, bar_into: float) -> list[Row]:
    def act(batch: Any) -> ActBatch:
        return ActBatch(act=policy(batch.obs))

    what = f"{envs} CartPoles, {name} policy"
    plain, into, single = (Collector(make(envs), act) for _ in range(3))
    buffer, buffer_1 = VectorReplayBuffer(SIZE, envs), VectorReplayBuffer(SIZE, envs)
    steps = STEPS * envs
    peer = tianshou(envs) if name == "random" else None
    calls: dict[str, Any] = {
        f"rollout of {STEPS} steps, {what}": (bar, lambda: plain.rollout(steps)),
        f"{STEPS} steps into a buffer, {what}": (bar_into, lambda: into.collect(buffer, steps)),
    }
    if name == "random":
        calls[f"{STEPS} times one step into a buffer, {what}"] = (
            1.5, lambda: [single.collect(buffer_1, envs) for _ in range(STEPS)]
        )  # fmt: skip
    floor = Loop(envs, policy)
    both: dict[str, Callable[[], Any]] = {key: call for key, (_, call) in calls.items()}
    if peer is not None:
        both["tianshou"] = peer
    seconds, found = beside(lambda: floor.rollout(STEPS), both)
    return [Row(key, seconds, found[key], limit, found.get("tianshou")) for key, (limit, _) in calls.items()]


def tianshou(envs: int) -> Callable[[], Any] | None:
    """Its collector into its buffer, with random actions; None where it is not installed."""
    try:
        import tianshou.data as ts
        from tianshou.algorithm.algorithm_base import Policy as TianshouPolicy
        from tianshou.env import DummyVectorEnv
    except ImportError:
        return None

    class Random(TianshouPolicy):
        def forward(self, batch: Any, state: Any = None, **_: Any) -> Any:
            return ts.Batch(act=np.zeros(len(batch.obs), np.int64), state=state)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        venv = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(envs)])
        space = gym.make("CartPole-v1")
        policy = Random(space.action_space, space.observation_space)
        collector = ts.Collector(policy, venv, ts.VectorReplayBuffer(SIZE, envs))
        collector.reset()
    return lambda: collector.collect(n_step=STEPS * envs, random=True)
