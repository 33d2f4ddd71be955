"""Environments whose every observation says which step of which episode it is."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from typedbatch import ActBatch, ObsBatch

MODES = list(AutoresetMode)


class Count(gym.Env[Any, Any]):
    """The observation is ``100 * episode + step``; the reward is the action and 1; it ends after so many steps."""

    def __init__(self, length: int, *, cut: bool = False, fails_at: int = 0, with_: str = "raise") -> None:
        self.length, self.cut, self.fails_at, self.with_ = length, cut, fails_at, with_
        self.observation_space = gym.spaces.Box(0, np.inf, (1,))
        self.action_space = gym.spaces.Discrete(3)
        self.episode = self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.step_ = 0
        self.episode += 1
        self.seeded_with = seed if seed is not None else getattr(self, "seeded_with", None)
        return self.obs(), {}

    def obs(self) -> Any:
        return np.array([self.episode * 100 + self.step_], np.float32)

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == self.fails_at:
            if self.with_ == "hang":
                time.sleep(1000)
            if self.with_ == "unpicklable":
                raise type("Local", (ValueError,), {})("only here")
            if self.with_ == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt if self.with_ == "interrupt" else ValueError("the simulator is gone")
        self.step_ += 1
        over = self.step_ == self.length
        info = {"lives": self.length - self.step_} if self.step_ % 2 else {}
        return self.obs(), float(action) + 1, over and not self.cut, over and self.cut, info


class Nested(Count):
    """Dicts and tuples as observations and as actions."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        number = gym.spaces.Box(-np.inf, np.inf, (1,))
        self.observation_space = gym.spaces.Dict(
            {"place": gym.spaces.Tuple((number, gym.spaces.Discrete(9))), "goal": number}
        )
        self.action_space = gym.spaces.Dict({"arm": gym.spaces.Box(-1, 1, (2,)), "grip": gym.spaces.Discrete(2)})

    def obs(self) -> Any:
        one = super().obs()
        return {"place": (one, int(one[0]) % 9), "goal": -one}

    def step(self, action: Any) -> Any:
        return super().step(int(action["grip"]) + float(action["arm"].sum()))


def sync(*envs: Any, mode: AutoresetMode = AutoresetMode.SAME_STEP, copy: bool = True) -> SyncVectorEnv:
    return SyncVectorEnv([lambda env=env: env for env in envs], autoreset_mode=mode, copy=copy)


def in_processes(*envs: Any, mode: AutoresetMode = AutoresetMode.SAME_STEP) -> AsyncVectorEnv:
    return AsyncVectorEnv([lambda env=env: env for env in envs], autoreset_mode=mode)


def zeros(batch: ObsBatch[Any, Any]) -> ActBatch:
    return ActBatch(act=np.zeros(len(batch.obs), np.int64))


class Reusing(Count):
    """Writes each observation into the arrays that it returned before, and keeps a log of copies.

    Only ``reset`` reports the level; only the info of steps has the time.
    """

    KINDS = ("array", "dict", "tuple", "nested")

    def __init__(self, length: int, kind: str = "array", *, cut: bool = False) -> None:
        super().__init__(length, cut=cut)
        box = self.observation_space
        self.arrays = [np.zeros(1, np.float32) for _ in range(2)]
        first, second = self.arrays
        pair = gym.spaces.Tuple((box, box))
        nested = gym.spaces.Dict({"a": gym.spaces.Dict({"b": pair})})
        self.value, self.observation_space = {
            "array": (first, box),
            "dict": ({"a": first, "b": second}, gym.spaces.Dict({"a": box, "b": box})),
            "tuple": ((first, second), pair),
            "nested": ({"a": {"b": (first, second)}}, nested),
        }[kind]
        self.info: dict[str, Any] = {"time": np.zeros(2)}
        self.log: list[tuple[float, float]] = []
        """Observation before and after each step, as numbers."""

    def obs(self) -> Any:
        for array in self.arrays:
            array[:] = self.episode * 100 + self.step_
        return self.value

    def reset(self, **given: Any) -> Any:
        obs, _ = super().reset(**given)
        return obs, {"level": self.episode}

    def step(self, action: Any) -> Any:
        before = float(self.arrays[0][0])
        *outcome, _ = super().step(action)
        self.log.append((before, float(self.arrays[0][0])))
        self.info["time"][:] = self.step_
        return *outcome, self.info
