"""Actor threads fill a queue, a prefetch thread stacks, the main thread trains; shared state in module globals."""

import functools
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from typedbatch import Batch, RolloutBatch, RolloutBatchProtocol, cat, stack
from typedbatch.buffers import VectorReplayBuffer

Q = ParamSpec("Q")
R = TypeVar("R")
log = logging.getLogger("actors")
LOCK = threading.Lock()
SETTINGS = Batch(actors=3, steps=15, gamma=0.9, size=90)
PARAMS = Batch(w=np.zeros(3), version=0)
COUNTS = Batch(steps=0, updates=0, dropped=0)


def locked(fn: Callable[Q, R]) -> Callable[Q, R]:
    @functools.wraps(fn)
    def inner(*args: Q.args, **kwargs: Q.kwargs) -> R:
        with LOCK:
            return fn(*args, **kwargs)

    return inner


@locked
def snapshot() -> Batch:
    return Batch(w=PARAMS.w.copy(), version=int(PARAMS.version))
    #! misspelt-read: return Batch(w=PARAMS.weights.copy(), version=int(PARAMS.version))


@locked
def publish(w: Any) -> None:
    PARAMS.w = w
    PARAMS.version += 1
    COUNTS.updates += 1


@locked
def count(steps: int, dropped: int = 0) -> None:
    COUNTS.update(steps=COUNTS.steps + steps, dropped=COUNTS.dropped + dropped)
    #! misspelt-read: COUNTS.update(steps=COUNTS.steps + steps, dropped=COUNTS.drops + dropped)


def actor(number: int, out: "queue.Queue[Batch]", errors: list[BaseException]) -> None:
    try:
        rng = np.random.default_rng(number)
        params = snapshot()
        obs = np.ones(3)
        for t in range(int(SETTINGS.steps)):
            act = float(params["w"] @ obs) + rng.normal()
            nxt = 0.8 * obs + 0.1 * act
            row = Batch(obs=obs, act=act, rew=-abs(float(nxt.sum())), obs_next=nxt)
            row.terminated = False
            row.truncated = t == int(SETTINGS.steps) - 1
            row.actor = number
            row.update(info=Batch(), version=params["version"])
            #! misspelt-item: row.update(info=Batch(), version=params["ver"])
            out.put(row, timeout=5)
            obs = nxt
        count(int(SETTINGS.steps))
    except BaseException as e:
        errors.append(e)


def drain(source: "queue.Queue[Batch]") -> list[Batch]:
    rows: list[Batch] = []
    while True:
        try:
            rows.append(source.get_nowait())
        except queue.Empty:
            break
    return rows


def group(rows: list[Batch]) -> dict[int, Batch]:
    by: dict[int, list[Batch]] = {}
    for r in rows:
        by.setdefault(int(r.actor), []).append(r)
        #! misspelt-read: by.setdefault(int(r.actor_id), []).append(r)
    return {k: stack(v) for k, v in sorted(by.items())}


def fill(buffer: VectorReplayBuffer[RolloutBatch, RolloutBatchProtocol], groups: dict[int, Batch]) -> float:
    total = 0.0
    for t in range(int(SETTINGS.steps)):
        now = stack([g[t] for g in groups.values()])
        now.total = np.cumsum(now.rew)
        obs, then = now.obs, now.obs_next
        #! old-name: obs, then = now.obs, now.next_obs
        ends = {"terminated": now.terminated, "truncated": now.truncated}
        rec = RolloutBatch(obs=obs, obs_next=then, act=now.act, rew=now.rew, info=Batch(), **ends)
        #! forgotten-field: rec = RolloutBatch(obs=obs, obs_next=then, act=now.act, info=Batch(), **ends)
        added = buffer.add(rec)
        total += float(added.ep_return.sum())
    return total


def improve(batch: RolloutBatchProtocol) -> Batch:
    params = snapshot()
    work = Batch(noise=batch.act - batch.obs @ params["w"])
    #! missing-field: work = Batch(noise=batch.act - batch.obs @ batch.w)
    work.adv = (batch.rew - batch.rew.mean()) / (batch.rew.std() + 1e-6)
    step = (work.adv * work.noise) @ batch.obs / len(batch)
    publish(params["w"] + 0.1 * step)
    return Batch(norm=float(np.linalg.norm(step)), noise=float(work.noise.std()), adv=float(np.abs(work.adv).max()))
    #! misspelt-read: return Batch(norm=float(np.linalg.norm(step)), noise=float(work.noises.std()), adv=float(np.abs(work.adv).max()))


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    buffer = VectorReplayBuffer[RolloutBatch, RolloutBatchProtocol](int(SETTINGS.size), int(SETTINGS.actors))
    infos: list[Batch] = []
    for rnd in range(3):
        out: queue.Queue[Batch] = queue.Queue(maxsize=200)
        errors: list[BaseException] = []
        threads = [threading.Thread(target=actor, args=(k, out, errors)) for k in range(int(SETTINGS.actors))]
        for th in threads:
            th.start()
        for th in threads:
            th.join()
        if errors:
            raise errors[0]
        groups = group(drain(out))
        ret = fill(buffer, groups)
        sampled, _ = buffer.sample(32)
        info = improve(sampled)
        #! batch-for-array: info = improve(sampled.obs)
        info.update(round=rnd, ret=ret)
        infos.append(info)
    flat = cat([groups[k] for k in groups])
    print(len(flat), "rows, versions", np.unique(flat["version"]))
    table = stack(infos)
    print(table.ret.round(2), table.norm.round(3), int(COUNTS.steps), int(COUNTS.updates))
    #! misspelt-read: print(table.ret.round(2), table.norms.round(3), int(COUNTS.steps), int(COUNTS.updates))


if __name__ == "__main__":
    main()
