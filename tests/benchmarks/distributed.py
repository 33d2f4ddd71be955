"""Ray: a batch through its object store beside a dict of tensors, and two workers beside one; by the wall clock."""

from __future__ import annotations

import importlib.util
import statistics
import time
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from typedbatch import ActBatch, Batch, ObsBatch
from typedbatch.training import Collector

MEGABYTES, ROUNDS, STEPS, PAUSE = 50, 15, 512, 1e-3
STORE_BAR, WORKERS_BAR = 0.3, 1.7


@dataclass(frozen=True)
class Distributed:
    """A row: what is measured, the figure, its bar, and the floor in milliseconds."""

    name: str
    floor: float
    ratio: float
    bar: float
    more_is_better: bool = False

    @property
    def missed(self) -> bool:
        return self.ratio < self.bar if self.more_is_better else self.ratio > self.bar


class Slow(gym.Env[Any, Any]):
    """An environment that takes a millisecond for a step, and leaves the processor alone in it."""

    observation_space = gym.spaces.Box(-1, 1, (4,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(PAUSE)
        return np.zeros(4, np.float32), 1.0, False, False, {}


def slow_envs() -> Any:
    """One of them, as a vector."""
    return gym.vector.SyncVectorEnv([Slow])


def still(batch: ObsBatch) -> ActBatch:
    """A policy that costs nothing."""
    return ActBatch(act=np.zeros(len(batch.obs), np.int64))


def measure_distributed() -> list[Distributed]:
    """Every row; none where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        return []
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        return [_store(ray), _workers()]
    finally:
        ray.shutdown()


def _store(ray: Any) -> Distributed:
    rows = MEGABYTES * 2**20 // 4 // 4 // 64
    arrays = {name: np.ones((rows, 64), np.float32) for name in ("obs", "obs_next", "act", "value")}
    batch, tensors = Batch(**arrays), {name: torch.from_numpy(array) for name, array in arrays.items()}

    def once(value: Any) -> float:
        begun = time.perf_counter()
        ray.get(ray.put(value))
        return time.perf_counter() - begun

    for value in (batch, tensors):
        once(value)
    both = [(once(batch), once(tensors)) for _ in range(ROUNDS)]
    floor, ratio = statistics.median(dict_ for _, dict_ in both), statistics.median(own / dict_ for own, dict_ in both)
    return Distributed(f"put and get of {MEGABYTES} MB, beside a dict of tensors", floor * 1e3, ratio, STORE_BAR)


def _workers() -> Distributed:
    from typedbatch.bridges.ray import RayCollectors

    one, two = Collector(slow_envs(), still), RayCollectors(slow_envs, still, 2)

    def once(collector: Any) -> float:
        begun = time.perf_counter()
        collector.rollout(STEPS)
        return time.perf_counter() - begun

    for collector in (one, two):
        once(collector)
    pairs = [(once(one), once(two)) for _ in range(5)]
    two.close()
    floor, ratio = statistics.median(alone for alone, _ in pairs), statistics.median(a / b for a, b in pairs)
    name = f"{STEPS} steps of an environment of {PAUSE * 1e3:.0f} ms: two workers, times as fast as a collector here"
    return Distributed(name, floor * 1e3, ratio, WORKERS_BAR, more_is_better=True)
