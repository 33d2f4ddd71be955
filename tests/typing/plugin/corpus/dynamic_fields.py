"""Fields made from names: setattr, keyword arguments, loops over tables of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from typedbatch import Batch

Feature = Callable[[Batch], np.ndarray]

FEATURES: dict[str, Feature] = {
    "speed": lambda b: np.linalg.norm(b["vel"], axis=-1),
    "distance": lambda b: np.linalg.norm(b["pos"], axis=-1),
    "energy": lambda b: 0.5 * b["mass"] * np.square(b["vel"]).sum(-1),
}


def simulate(n: int, **extra: Any) -> Batch:
    rng = np.random.default_rng(0)
    batch = Batch(pos=rng.normal(size=(n, 2)), vel=rng.normal(size=(n, 2)), mass=np.ones(n))
    for name, value in extra.items():
        setattr(batch, name, np.full(n, value))
    return batch


def add_features(batch: Batch, names: list[str]) -> Batch:
    for name in names:
        batch[name] = FEATURES[name](batch)
    return batch


def from_table(table: Mapping[str, list[float]], prefix: str = "") -> Batch:
    batch = Batch(**{prefix + name: np.asarray(column) for name, column in table.items()})
    batch.index = np.arange(len(batch))
    return batch


def standardise(batch: Batch, *names: str) -> Batch:
    done = Batch()
    for name in names:
        column = batch[name]
        done.update({name: (column - column.mean()) / (column.std() + 1e-8)})
    return done


def collect(n: int, options: Mapping[str, Any]) -> dict[str, float]:
    batch = simulate(n, **options)
    add_features(batch, ["speed", "distance", "energy"])
    scores = Batch(speed=batch["speed"], distance=batch["distance"])
    #! misspelt-item: scores = Batch(speed=batch["speeds"], distance=batch["distance"])
    scores.total = scores.speed - 0.5 * scores.distance
    #! misspelt-read: scores.total = scores.speed - 0.5 * scores.distances
    if "wind" in batch:
        scores.total = scores.total - batch["wind"] * 0.1
    for name in ("speed", "distance"):
        scores[f"{name}_rank"] = scores[name].argsort().argsort()
    return {name: float(np.mean(scores[name])) for name in sorted(scores.keys())}


def report(results: list[dict[str, float]]) -> str:
    rows = [Batch(result) for result in results]
    table = Batch.stack(rows)
    summary = Batch(mean=table["total"].mean(), spread=np.ptp(table["total"]))
    #! misspelt-item: summary = Batch(mean=table["totals"].mean(), spread=np.ptp(table["total"]))
    summary.ratio = summary.spread / (abs(summary.mean) + 1e-8)
    #! misspelt-read: summary.ratio = summary.spred / (abs(summary.mean) + 1e-8)
    return f"{float(summary.mean):.4f} {float(summary.spread):.4f} {float(summary.ratio):.4f}"
    #! misspelt-read: return f"{float(summary.average):.4f} {float(summary.spread):.4f} {float(summary.ratio):.4f}"


def main() -> None:
    results = [collect(16, options) for options in ({}, {"wind": 1.0}, {"wind": 2.0, "heat": 0.5})]
    print(report(results))
    loaded = from_table({"x": [1.0, 2.0, 4.0], "y": [0.0, 1.0, 0.0]}, prefix="col_")
    scaled = standardise(loaded, "col_x", "col_y")
    scaled.order = loaded["index"][::-1]
    print(np.round(scaled["col_x"], 3).tolist(), scaled.order.tolist())
    #! misspelt-read: print(np.round(scaled["col_x"], 3).tolist(), scaled.orders.tolist())


if __name__ == "__main__":
    main()
