"""Closures and decorators around batches: a pipeline of transforms."""
from __future__ import annotations

from collections.abc import Callable
from functools import reduce, wraps

import numpy as np

from typedbatch import Batch, RolloutBatch, RolloutBatchProtocol, validate

Transform = Callable[[Batch], Batch]


def compose(*transforms: Transform) -> Transform:
    def run(batch: Batch) -> Batch:
        return reduce(lambda b, t: t(b), transforms, batch)

    return run


def logged(log: Batch) -> Callable[[Transform], Transform]:
    log.setdefault("calls", Batch())

    def decorate(transform: Transform) -> Transform:
        name = str(getattr(transform, "__name__"))
        log.calls[name] = 0

        @wraps(transform)
        def inner(batch: Batch) -> Batch:
            log.calls[name] += 1
            log.last = name
            return transform(batch)

        return inner

    return decorate


LOG = Batch()


@logged(LOG)
def flags(batch: Batch) -> Batch:
    batch.done = batch.terminated | batch.truncated
    batch.info.ended = batch.done.copy()
    return batch


@logged(LOG)
def scale(batch: Batch) -> Batch:
    batch.rew = batch.rew * 0.1
    batch.rew += 1.0
    return batch


@logged(LOG)
def drop(batch: Batch) -> Batch:
    del batch.done
    batch.pop("weight", None)
    return batch


def clip_reward(low: float, high: float) -> Transform:
    seen = Batch(n=0)

    def transform(batch: Batch) -> Batch:
        seen.n += len(batch)
        batch.rew = batch.rew.clip(low, high)
        batch.info.clipped = (batch.rew == low) | (batch.rew == high)
        batch.info.seen = np.full(len(batch), seen.n)
        return batch

    return transform


def make_source(seed: int) -> Callable[[int], Batch]:
    rng = np.random.default_rng(seed)

    def source(n: int) -> Batch:
        batch = Batch(obs={"cam": rng.random((n, 4)), "pos": rng.random(n)}, act=rng.integers(2, size=n))
        batch.obs_next = batch.obs.copy()
        batch.rew = rng.normal(size=n)
        batch.terminated, batch.truncated = np.zeros(n, bool), rng.random(n) < 0.1
        batch.info = Batch(env_id=np.arange(n) % 4)
        batch.weight = np.ones(n)
        return batch

    return source


def count(batch: RolloutBatchProtocol[np.ndarray, Batch]) -> int:
    return int((batch.rew > 1).sum()) + len(batch.obs.cam)


def main() -> None:
    source = make_source(0)
    pipeline = compose(flags, scale, clip_reward(0.9, 1.1), drop)
    for _ in range(3):
        batch = pipeline(source(20))
        print(batch.info.clipped.sum(), batch.info.seen[0], batch.info.ended.sum(), "weight" in batch)
        print(count(validate(batch, RolloutBatch[np.ndarray, Batch])))
    print(LOG.calls.flags, LOG.calls.scale, LOG.last)


if __name__ == "__main__":
    main()
