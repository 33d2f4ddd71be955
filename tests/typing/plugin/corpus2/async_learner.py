"""Asynchronous actors and one learner over asyncio queues, with weights broadcast as Batches."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol, cat, checked, stack, validate

Arr = NDArray[Any]
STOP = None


class Fragment(BatchProtocol, Protocol):
    @property
    def obs(self) -> Arr: ...
    @property
    def act(self) -> Arr: ...
    @property
    def rew(self) -> Arr: ...
    @property
    def version(self) -> Arr: ...


class WithAdv(Fragment, Protocol):
    @property
    def adv(self) -> Arr: ...


@dataclass
class Shared:
    weights: Batch
    queue: "asyncio.Queue[Batch | None]"
    metrics: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    latest: Batch = field(default_factory=Batch)


async def actor(shared: Shared, number: int, fragments: int, trace: bool) -> int:
    rng = np.random.default_rng(number)
    x = rng.normal(size=2)
    sent = 0
    for _ in range(fragments):
        steps: list[Batch] = []
        w = shared.weights.copy()
        for t in range(5):
            act = float(w["w"] @ x + rng.normal())
            #! misspelt-item: act = float(w["weights"] @ x + rng.normal())
            nxt = 0.9 * x + np.array([0.0, 0.1 * act])
            step = Batch(obs=x, act=act, rew=-float(nxt @ nxt), version=w["version"])
            if trace:
                step.stamp = time.perf_counter()
            steps.append(step)
            x = nxt
        fragment = stack(steps)
        fragment.who = np.full(len(fragment), number)
        if trace:
            fragment.elapsed = fragment.stamp - fragment.stamp[0]
            del fragment.stamp
        await shared.queue.put(fragment)
        sent += len(fragment)
        await asyncio.sleep(0)
    return sent


def advantages(batch: Fragment, gamma: float = 0.9) -> WithAdv:
    out = Batch(batch)
    ret = np.zeros(len(batch) + 1)
    for t in reversed(range(len(batch))):
        ret[t] = batch.rew[t] + gamma * ret[t + 1]
        #! old-name: ret[t] = batch.rewards[t] + gamma * ret[t + 1]
    out.ret = ret[:-1]
    out.adv = out.ret - out.ret.mean()
    #! misspelt-read: out.adv = out.returns - out.returns.mean()
    return validate(out, WithAdv)


@checked
def gradient(batch: WithAdv, w: Arr) -> Arr:
    noise = batch.act - batch.obs @ w
    #! misspelt-read: noise = batch.action - batch.obs @ w
    return np.asarray((batch.adv * noise) @ batch.obs / len(batch))


def staleness(batch: Fragment, version: int) -> float:
    return float(version - batch.version.mean())


async def learner(shared: Shared, actors: int, min_rows: int) -> Batch:
    waiting: list[Batch] = []
    finished = 0
    updates = Batch(count=0, rows=0)
    while finished < actors:
        item = await shared.queue.get()
        if item is STOP:
            finished += 1
            continue
        waiting.append(item)
        rows = sum(len(b) for b in waiting)
        if rows < min_rows:
            continue
        parts = [advantages(validate(b, Fragment)) for b in waiting]
        data: Any = cat(parts)
        waiting.clear()
        now = Batch(stale=staleness(data, int(shared.weights.version)), rows=rows)
        g = gradient(data, shared.weights.w)
        #! missing-field: g = gradient(item, shared.weights.w)
        now.norm = float(np.linalg.norm(g))
        shared.weights = Batch(w=shared.weights.w + 0.05 * g, version=shared.weights.version + 1)
        #! misspelt-keyword: shared.weights = Batch(w=shared.weights.w + 0.05 * g, versions=shared.weights.version + 1)
        shared.latest = now
        shared.metrics["norm"].append(now.norm.item())
        updates.count += 1
        updates.rows += now.rows
        #! misspelt-read: updates.rows += now.n_rows
    if waiting:
        rest = cat(waiting)
        updates.left = len(rest)
    return updates


async def training(trace: bool, min_rows: int = 12) -> tuple[Shared, Batch]:
    shared = Shared(Batch(w=np.zeros(2), version=0), asyncio.Queue(maxsize=4))

    async def act_and_stop(k: int) -> int:
        try:
            return await actor(shared, k, 4, trace)
        finally:
            await shared.queue.put(STOP)

    job = asyncio.create_task(learner(shared, 3, min_rows))
    sent = await asyncio.gather(*(act_and_stop(k) for k in range(3)))
    updates = await job
    updates.sent = int(sum(sent))
    return shared, updates


def main() -> None:
    for trace in (False, True):
        shared, updates = asyncio.run(training(trace))
        left = int(updates.get("left", 0))
        print("updates", int(updates.count), "of", int(updates.sent), "left", left)
        assert updates.rows + left == updates.sent
        #! misspelt-read: assert updates.rows + left == updates.total
        print("version", int(shared.weights.version), "stale", float(shared.latest.stale))
        #! misspelt-read: print("version", int(shared.weights.versoin), "stale", float(shared.latest.stale))
        print("norm", np.round(shared.metrics["norm"], 3), shared.latest.norm > 0)


if __name__ == "__main__":
    main()
