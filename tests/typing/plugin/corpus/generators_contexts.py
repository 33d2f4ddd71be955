"""Data pipeline of generators and context managers: read, shuffle, window, time."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

import numpy as np

from typedbatch import Batch, RolloutBatch, RolloutBatchProtocol


@contextmanager
def timed(log: dict[str, float], name: str) -> Iterator[Batch]:
    note = Batch(name=name, rows=0)
    start = time.perf_counter()
    try:
        yield note
    finally:
        log[name] = time.perf_counter() - start
        log[f"{name}/rows"] = float(note.rows)
        #! misspelt-read: log[f"{name}/rows"] = float(note.row)


def steps(seed: int) -> Iterator[RolloutBatch]:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=3)
    while True:
        obs_next = 0.9 * obs + 0.1 * rng.normal(size=3)
        yield RolloutBatch(
            obs=obs,
            obs_next=obs_next,
            act=np.asarray(rng.integers(2)),
            rew=np.asarray(obs_next.sum()),
            terminated=np.asarray(rng.random() < 0.1),
            truncated=np.asarray(False),
            info=Batch(),
        )
        obs = obs_next


def chunks(stream: Iterable[RolloutBatch], size: int) -> Iterator[RolloutBatch]:
    iterator = iter(stream)
    while rows := list(islice(iterator, size)):
        yield Batch.stack(rows)
        #! wrong-type: yield rows[0].obs


def shuffled(stream: Iterable[RolloutBatch], window: int, rng: np.random.Generator) -> Iterator[RolloutBatch]:
    held: list[RolloutBatch] = []
    for chunk in stream:
        held.append(chunk)
        if len(held) == window:
            yield from Batch.cat(held).split(8, rng=rng)
            held.clear()


def running_stats() -> Generator[Batch, RolloutBatchProtocol | None, None]:
    stats = Batch(n=0, total=0.0, ends=0)
    received = yield stats.copy()
    while received is not None:
        stats.n += len(received)
        #! misspelt-read: stats.count += len(received)
        stats.total += received.rew.sum()
        #! misspelt-read: stats.total += received.rews.sum()
        stats.ends += received.terminated.sum()
        #! old-name: stats.ends += received.done.sum()
        stats.mean = stats.total / stats.n
        received = yield stats.copy()


@contextmanager
def evaluation_mode(model: Batch) -> Iterator[Batch]:
    saved = model["noise"]
    model.noise = 0.0
    try:
        yield model
    finally:
        model.noise = saved


def predict(model: Batch, batch: RolloutBatchProtocol, rng: np.random.Generator) -> np.ndarray:
    noise = float(model["noise"]) * rng.normal(size=len(batch))
    return np.asarray(batch.obs @ model["weights"] + noise)


def main() -> None:
    rng = np.random.default_rng(1)
    model = Batch(weights=np.ones(3))
    model.noise = 0.3
    log: dict[str, float] = {}
    stats = running_stats()
    latest = next(stats)
    with timed(log, "train") as note:
        for minibatch in shuffled(chunks(islice(steps(0), 64), 16), 2, rng):
            latest = stats.send(minibatch)
            error = predict(model, minibatch, rng) - minibatch.rew
            model.weights = model.weights - 0.01 * error @ minibatch.obs / len(minibatch)
            #! misspelt-read: model.weights = model.weights - 0.01 * error @ minibatch.observation / len(minibatch)
            note.rows = latest["n"]
    with evaluation_mode(model):
        held_out = next(chunks(steps(5), 32))
        error = predict(model, held_out, rng) - held_out.rew
        #! misspelt-read: error = predict(model, held_out, rng) - held_out.reward
    print(int(log["train/rows"]), f"{float(latest['mean']):.4f} {np.square(error).mean():.4f} {float(model['noise'])}")


if __name__ == "__main__":
    main()
