"""A program: names that nothing in it makes are reported wherever they are read."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from typedbatch import Batch

A: NDArray[np.float64] = np.ones((2, 3))


@dataclass
class Settings:
    gamma: float = 0.99
    depth: int = 2


class Memory:
    def __init__(self) -> None:
        self.rows: deque[Batch] = deque(maxlen=9)
        self.priorities = A

    def push(self, **fields: object) -> None:
        self.rows.append(Batch(**fields))

    def sample(self) -> Batch:
        batch = Batch.stack(list(self.rows))
        batch.weight = A
        return batch


class Learner:
    def process(self, batch: Batch) -> None:
        batch.returns = batch.rew + batch.reward  # E: never-made: reward
        for name in ("mean", "std"):
            batch[f"obs_{name}"] = batch.obs
            setattr(batch, name + "_rew", batch.rew)
        batch.update({"adv": A})

    def never_called(self, batch: Batch) -> None:
        batch.only_here = A
        print(batch.only_here, batch.elsewhere)  # E: nowhere: elsewhere

    def learn(self, batch: Batch) -> Batch:
        print(batch.returns, batch.obs_mean, batch.obs_std, batch.mean_rew, batch.adv, batch.weight)
        print(batch.gamma, batch.extra)
        print(batch["rews"])  # E: item: rews
        print(batch.get("asked"), batch.asked if "asked" in batch else 0)
        return Batch(loss=np.sum(A, keepdims=True))


def show(stats: Batch) -> None:
    print(stats.loss, stats.losses)  # E: result: losses


if __name__ == "__main__":
    memory, learner = Memory(), Learner()
    memory.push(obs=A, rew=A, **asdict(Settings()))
    sampled = partial(Batch, extra=A)(memory.sample())
    learner.process(sampled)
    show(learner.learn(sampled))
    print(sampled.dones)  # E: top-of-module: dones
