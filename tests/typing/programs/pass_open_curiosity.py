"""Curiosity (ICM/RND) bonuses added to rewards in place, numpy; properties that give batches."""
from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, RolloutBatch, RolloutBatchProtocol, extend, validate

Array = NDArray[Any]


class WithBonus(RolloutBatch):
    bonus: NDArray[np.float64]


class RunningMoments:
    def __init__(self) -> None:
        self._state = Batch(mean=0.0, var=1.0, count=1e-4)

    @property
    def state(self) -> Batch:
        return self._state

    def update(self, x: Array) -> None:
        delta = x.mean() - self.state.mean
        total = self.state.count + len(x)
        self.state.mean += delta * len(x) / total
        self.state.var = (self.state.var * self.state.count + x.var() * len(x)) / total
        self.state.count = total


class RND:
    def __init__(self, dim: int) -> None:
        rng = np.random.default_rng(5)
        self.fixed: Array = rng.normal(size=(dim, 4))
        self.learned: Array = np.zeros((dim, 4))
        self.moments = RunningMoments()

    @cached_property
    def report(self) -> Batch:
        return Batch(bonus=Batch(first=0.0, last=0.0), calls=0)

    def bonus(self, obs: Array) -> Array:
        error = np.square(np.tanh(obs @ self.fixed) - obs @ self.learned).mean(1)
        self.moments.update(error)
        return np.asarray(error / np.sqrt(self.moments.state.var + 1e-8))

    def process_fn(self, batch: RolloutBatchProtocol) -> WithBonus:
        bonus = self.bonus(batch.obs_next)
        if self.report.calls == 0:
            self.report.bonus.first = bonus.mean()
        self.report.bonus.last = bonus.mean()
        self.report.calls += 1
        return extend(batch, WithBonus, bonus=bonus)

    def learn(self, batch: RolloutBatchProtocol) -> None:
        error = batch.obs_next @ self.learned - np.tanh(batch.obs_next @ self.fixed)
        self.learned -= 0.1 * batch.obs_next.T @ error / len(batch)


def add_bonus(batch: WithBonus, scale: float) -> WithBonus:
    batch.rew = batch.rew + scale * batch.bonus
    batch["ext_rew"] = batch.rew - scale * batch.bonus
    return batch


def source(rng: np.random.Generator, n: int) -> Batch:
    out = Batch(obs=rng.normal(size=(n, 3)))
    out.obs_next = out.obs + 0.1
    out.act = out.rew = np.zeros(n)
    out.terminated, out.truncated = (rng.random((2, n)) < 0.05)[:]
    out.info = Batch(visited=Batch(count=np.zeros(n, int)))
    out.info.visited.count[: n // 2] += 1
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    rnd = RND(3)
    for _ in range(5):
        data = source(rng, 40)
        rollout = validate(data, RolloutBatch)
        batch = add_bonus(rnd.process_fn(rollout), 0.5)
        for mb in batch.split(20):
            rnd.learn(mb)
        print(batch.rew.mean() > 0, batch["ext_rew"].max(), data.rew.max())
    report = rnd.report
    print(report.bonus.last < report.bonus.first, report.calls, rnd.moments.state.count > 100)


if __name__ == "__main__":
    main()
