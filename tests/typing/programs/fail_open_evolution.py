"""Evolution strategies: perturbations as a record, generations as batches."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchRecord, extend

Array = NDArray[Any]


class Population(BatchRecord):
    noise: NDArray[np.float64]
    seed: NDArray[np.int64]


class Evaluated(Population):
    fitness: NDArray[np.float64]


class Ranked(Evaluated):
    rank: NDArray[np.float64]


def spawn(rng: np.random.Generator, size: int, dim: int) -> Population:
    noise = rng.normal(size=(size // 2, dim))
    return Population(noise=np.concatenate([noise, -noise]), seed=rng.integers(1000, size=size))


def evaluate(population: Population, center: Array, sigma: float) -> Evaluated:
    points = center + sigma * population.noise
    return extend(population, Evaluated, fitness=-np.square(points - 1.0).sum(1))


def rank(batch: Evaluated) -> Ranked:
    order = batch.fitness.argsort().argsort()
    return extend(batch, Ranked, rank=order / (len(batch) - 1) - 0.5)


def gradient(batch: Ranked, sigma: float) -> Array:
    return np.asarray((batch.rank[:, None] * batch.noise).mean(0) / sigma)


def gradient_unranked(batch: Evaluated) -> Array:
    return gradient(batch, 0.1)  # E: user-wrong-stage


def best_noise(batch: Evaluated) -> Array:
    return np.asarray(batch.noise[batch.fitnes.argmax()])  # E: user-misspelt


def respawn(old: Batch) -> Population:
    return Population(noise=old.noise)  # E: user-missing


def generations(dim: int, count: int) -> Iterator[Batch]:
    rng = np.random.default_rng(0)
    center = np.zeros(dim)
    for number in range(count):
        ranked = rank(evaluate(spawn(rng, 40, dim), center, 0.1))
        center = center + 0.2 * gradient(ranked, 0.1)
        summary = Batch(generation=number, best=ranked.fitness.max())
        summary.center = center.copy()
        summary.elite = Batch(ranked[ranked.rank > 0.4])
        summary.elite.info = Batch(size=len(summary.elite.rank))
        yield summary


def main() -> None:
    history: list[Batch] = []
    for summary in generations(5, 30):
        if summary.generation % 10 == 0:
            print(summary.generation, summary.best.round(2), summary.elite.info.size)
        history.append(Batch(best=summary.best, center=summary.center))
    log = Batch.stack(history)
    log.improved = np.diff(log.best, prepend=log.best[0]) > 0
    print(log.improved.mean() > 0.5, log[-1].center.shape)
    final = log[-5:]
    final.center += 1
    print(final.center.mean() > 1)


if __name__ == "__main__":
    main()
