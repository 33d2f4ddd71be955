"""Plain batches that live in modules, objects, classes, closures, lists, dicts and tuples."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol, RolloutBatchProtocol

Array = NDArray[Any]

DEFAULTS = Batch(gamma=0.99, lam=0.95, net={"width": 64})
STATS = Batch()
RUNNING = Batch(mean=np.zeros(4), var=np.ones(4))
OPEN: Batch = Batch(step=0)
TABLE = {"train": Batch(loss=1.0), "test": Batch(loss=2.0, acc=0.5)}

RUNNING.count = 0
DEFAULTS.clip = 0.2


def read_module() -> float:
    print(DEFAULTS.gamma, DEFAULTS["lam"], DEFAULTS.net.width, DEFAULTS.clip, RUNNING.count)
    return float(DEFAULTS.gamma * DEFAULTS.lam)


def write_module() -> None:
    STATS.episodes = 3
    STATS["reward"] = 1.0
    RUNNING.mean = RUNNING.mean + 1
    RUNNING.last_mean = RUNNING.mean
    DEFAULTS.net.depth = 2
    OPEN["step"] = OPEN["step"] + 1


def read_written() -> list[Any]:
    return [STATS.episodes, STATS.reward, RUNNING.last_mean, DEFAULTS.net.depth, OPEN["step"]]


def tables() -> float:
    TABLE["train"].loss = 0.5
    TABLE["val"] = Batch(loss=3.0)
    return float(sum(entry.loss for entry in TABLE.values()))


def rebind_module() -> None:
    global RUNNING
    RUNNING = Batch(mean=np.ones(4), var=np.ones(4), momentum=0.9)
    print(RUNNING.momentum)


class Buffer:
    """A ring of transitions that is made when the first one comes."""

    capacity: ClassVar[int] = 8
    empty: ClassVar[Batch] = Batch()

    def __init__(self) -> None:
        self.data = Batch()
        self.meta = Batch(size=0, index=0)
        self.rows: list[Batch] = []
        self.maybe: Batch | None = None

    def add(self, obs: Array, rew: float) -> None:
        row = Batch(obs=obs, rew=rew)
        row.done = False
        if self.data.is_empty():
            self.data = Batch.stack([row] * self.capacity)
        self.data[int(self.meta.index)] = row
        self.meta.index = (self.meta.index + 1) % self.capacity
        self.meta.size += 1
        self.meta.newest = rew
        self.rows.append(row)
        self.maybe = row

    def sample(self, n: int) -> Batch:
        return self.data[:n]

    def report(self) -> list[Any]:
        print(self.data.obs, self.data.rew, self.data.done, self.data.weight if "weight" in self.data else None)
        return [self.meta.size, self.meta.newest, [row["rew"] for row in self.rows]]

    def newest(self) -> float:
        return float(self.maybe["rew"]) if self.maybe is not None else 0.0


class Collector:
    """Follows its own batch within a method, and the written fields across methods."""

    def __init__(self, envs: int) -> None:
        self.now = Batch(obs=np.zeros((envs, 4)), act=np.zeros(envs, int))
        self.log = Batch(returns=[], lengths=[])

    def act(self) -> None:
        self.now.act = self.now.obs.argmax(-1)
        self.now.logits = self.now.obs

    def step(self) -> RolloutBatchProtocol:
        self.act()
        self.now.obs_next = self.now.obs + 1
        self.now.update(rew=self.now.logits.sum(-1), info=Batch())
        self.now.terminated = np.zeros(len(self.now.rew), bool)
        self.now.truncated = ~self.now.terminated
        done = self.now[:]
        self.now.obs = self.now.obs_next
        self.log.returns = [*self.log.returns, float(self.now.rew.sum())]
        return Batch(
            obs=done.obs,
            obs_next=done.obs_next,
            act=done.act,
            rew=done.rew,
            info=done.info,
            terminated=done.terminated,
            truncated=done.truncated,
        )

    def local_name(self) -> Array:
        now = self.now
        now.extra = now.act * 2
        return now.extra


class Child(Collector):
    """Writes fields of a batch that its parent owns."""

    def act(self) -> None:
        super().act()
        self.now.noise = np.zeros_like(self.now.obs)
        print(self.now.noise.sum(), self.now.logits)


@dataclass
class Run:
    """Holds batches as declared fields."""

    last: Batch = field(default_factory=Batch)
    all: deque[Batch] = field(default_factory=deque)
    best: Batch | None = None

    def keep(self, batch: Batch) -> None:
        self.last = batch
        self.all.append(batch)
        if self.best is None or self.best["score"] < batch["score"]:
            self.best = batch


def look(batch: BatchProtocol) -> int:
    return len(batch.keys())


def lists_of_batches() -> float:
    episodes = [Batch(rew=np.ones(2)), Batch(rew=np.ones(3))]
    episodes.append(Batch(rew=np.zeros(1), note="short"))
    for episode in episodes:
        episode.ret = episode.rew.sum()
    total = sum(float(episode.ret) for episode in episodes)
    first, *others = episodes
    print(first.rew, [other.ret for other in others], episodes[-1].rew)
    by_name = {"a": episodes[0], "b": Batch(rew=np.ones(1))}
    print(by_name["a"].rew, sorted(by_name))
    pair = (Batch(x=1.0), Batch(y=2.0))
    print(pair[0].x, pair[1].y)
    left, right = pair
    left.z = right.y
    print(left.z)
    for one, two in zip(episodes, episodes, strict=True):
        print(one.rew + two.ret)
    queue: deque[Batch] = deque(maxlen=2)
    queue.append(Batch(loss=1.0))
    print(queue[0]["loss"], [b["loss"] for b in queue])
    mixed = [Batch(a=1.0), Batch(b=2.0)]
    mixed[0].c = 3.0
    return total


def functions_in_functions() -> float:
    stats = Batch(count=0)
    totals = {"sum": 0.0}

    def bump(by: int) -> None:
        stats.count += by
        stats.last = by

    class Local:
        inner = Batch(kind="local")

        def show(self) -> Any:
            return self.inner.kind, stats.last

    for step in range(3):
        bump(step)
    twice = partial(bump, 2)
    twice()
    Local().show()
    totals["sum"] += float(stats.count)
    return totals["sum"] + float(stats.last)


def main() -> None:
    write_module()
    read_module(), read_written(), tables()
    rebind_module()
    buffer = Buffer()
    buffer.add(np.zeros(4), 1.0)
    buffer.add(np.ones(4), 2.0)
    buffer.report(), buffer.sample(2), buffer.newest()
    for collector in (Collector(2), Child(2)):
        assert len(collector.step()) == 2
        collector.local_name()
    run = Run()
    run.keep(Batch(score=1.0))
    run.keep(Batch(score=2.0))
    print(run.last["score"], run.best["score"] if run.best is not None else None, run.all[0]["score"])
    lists_of_batches(), functions_in_functions()


main()
