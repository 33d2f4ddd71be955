"""An update function with many ways out: empty data, warm-up, evaluation, degenerate batches."""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np

from typedbatch import Batch

logger = logging.getLogger(__name__)


class Result(NamedTuple):
    status: str
    loss: float


class Updater:
    def __init__(self, warmup: int, use_weights: bool, evaluate_only: bool = False) -> None:
        self.warmup = warmup
        self.use_weights = use_weights
        self.evaluate_only = evaluate_only
        self.theta = np.zeros(2)
        self.calls = 0

    def update(self, rows: list[tuple[np.ndarray, float]]) -> Result:
        self.calls += 1
        if not rows:
            return Result("empty", 0.0)

        batch = Batch(x=np.stack([x for x, _ in rows]), y=np.array([y for _, y in rows]))
        if self.use_weights:
            batch.weight = 1.0 / (1.0 + np.abs(batch.y))
            #! misspelt-read: batch.weight = 1.0 / (1.0 + np.abs(batch.target))

        if self.calls <= self.warmup:
            mean = float(batch.y.mean())
            return Result("warmup", mean)

        batch.pred = batch.x @ self.theta
        #! wrong-type: batch.pred = None
        batch.error = batch.pred - batch.y
        #! misspelt-read: batch.error = batch.prediction - batch.y
        if self.evaluate_only:
            return Result("eval", float(np.square(batch.error).mean()))

        outliers = np.abs(batch.error) > 3 * batch.error.std()
        if outliers.any():
            batch.clean = batch.error[~outliers]
            if len(batch.clean) == 0:
                return Result("all outliers", 0.0)
            logger.debug("kept %d", len(batch.clean))
        else:
            batch.clean = batch.error
        spread = float(batch.clean.std())
        #! misspelt-read: spread = float(batch.cleaned.std())

        if not self.use_weights:
            gradient = batch.error @ batch.x / len(batch.error)
        else:
            gradient = (batch.error * batch.weight) @ batch.x / batch.weight.sum()
            #! misspelt-read: gradient = (batch.error * batch.weights) @ batch.x / batch.weight.sum()
        if np.linalg.norm(gradient) < 1e-6:
            return Result("converged", 0.0)

        self.theta = self.theta - 0.1 * gradient
        batch.after = batch.x @ self.theta - batch.y
        gain = float(np.square(batch.error).mean() - np.square(batch.after).mean())
        return Result("ok", gain if spread > 0 else 0.0)
        #! branch-field: return Result("ok", gain / float(batch.weight.sum()))

    def confidence(self, rows: list[tuple[np.ndarray, float]]) -> float:
        batch = Batch(x=np.stack([x for x, _ in rows]))
        weighted = self.use_weights
        if weighted:
            batch.w = np.linspace(0.5, 1.0, len(rows))
        score = np.abs(batch.x @ self.theta)
        if weighted:
            score = score * batch.w
        return float(score.mean()) if not weighted else float(score.sum() / batch.w.sum())
        #! branch-field: return float(score.sum() / batch.w.sum())


def make_rows(rng: np.random.Generator, n: int, outlier: bool = False) -> list[tuple[np.ndarray, float]]:
    xs = rng.normal(size=(n, 2))
    ys = xs @ np.array([1.0, -2.0])
    if outlier:
        ys[0] = 100.0
    return [(x, float(y)) for x, y in zip(xs, ys, strict=True)]


def main() -> None:
    rng = np.random.default_rng(0)
    for updater in (Updater(1, use_weights=True), Updater(1, use_weights=False), Updater(0, True, evaluate_only=True)):
        results = [updater.update([]), updater.update(make_rows(rng, 20))]
        results += [updater.update(make_rows(rng, 20, outlier=i == 2)) for i in range(4)]
        results.append(updater.update([(np.zeros(2), 1.0), (np.zeros(2), 2.0)]))
        print([f"{one.status} {one.loss:.3f}" for one in results], round(updater.confidence(make_rows(rng, 5)), 4))


if __name__ == "__main__":
    main()
