"""Multi-task replay: a dictionary of batches, one per task, with rehearsal of old tasks."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from typedbatch import Batch


class Task(TypedDict):
    name: str
    slope: float


class Replay:
    def __init__(self, per_task: int, seed: int) -> None:
        self.store: dict[str, Batch] = {}
        self.per_task = per_task
        self.rng = np.random.default_rng(seed)
        self.meta = Batch(added=0, dropped=0)

    def add(self, name: str, rows: Batch) -> None:
        if name in self.store:
            rows = Batch.cat([self.store[name], rows])
        excess = len(rows) - self.per_task
        if excess > 0:
            self.meta.dropped += excess
            #! misspelt-read: self.meta.lost += excess
        self.store[name] = rows[-self.per_task :]
        self.meta.added += 1

    def sample(self, size: int, current: str) -> Batch:
        parts = []
        for name, rows in self.store.items():
            count = size // 2 if name == current else max(1, size // (2 * len(self.store)))
            part = rows[self.rng.integers(0, len(rows), size=count)]
            part.rehearsed = np.full(count, name != current)
            part.weight = np.where(part.rehearsed, 0.5, 1.0)
            #! misspelt-read: part.weight = np.where(part.rehearsal, 0.5, 1.0)
            parts.append(part)
        return Batch.cat(parts)

    def share(self) -> float:
        return float(self.meta.dropped / max(1, int(self.meta.added)))
        #! misspelt-read: return float(self.meta.dropped / max(1, int(self.meta.total)))


def generate(task: Task, n: int, rng: np.random.Generator) -> Batch:
    data = Batch(x=rng.uniform(-1, 1, n))
    data.y = task["slope"] * data.x + 0.05 * rng.normal(size=n)
    #! wrong-type: data.y = task["name"]
    data.features = np.stack([data.x, np.maximum(data.x, 0), np.ones(n)], axis=1)
    return data


def train(tasks: list[Task], steps: int) -> tuple[np.ndarray, Replay]:
    rng = np.random.default_rng(3)
    replay = Replay(per_task=40, seed=4)
    theta = np.zeros(3)
    for task in tasks:
        for _ in range(steps):
            replay.add(task["name"], generate(task, 16, rng))
            batch = replay.sample(32, current=task["name"])
            batch.error = batch["features"] @ theta - batch["y"]
            #! misspelt-item: batch.error = batch["feature"] @ theta - batch["y"]
            theta = theta - 0.3 * (batch.error * batch["weight"]) @ batch["features"] / batch["weight"].sum()
            #! misspelt-read: theta = theta - 0.3 * (batch.errors * batch["weight"]) @ batch["features"] / batch["weight"].sum()
    return theta, replay


def evaluate(theta: np.ndarray, replay: Replay) -> dict[str, float]:
    results = {}
    for name, rows in replay.store.items():
        frame = Batch(pred=rows["features"] @ theta, y=rows["y"])
        frame.mse = np.square(frame.pred - frame.y).mean()
        results[name] = round(float(frame.mse), 4)
        #! misspelt-read: results[name] = round(float(frame.mae), 4)
    return results


def main() -> None:
    theta, replay = train([{"name": "up", "slope": 1.0}, {"name": "down", "slope": -0.5}], steps=6)
    print(evaluate(theta, replay), round(replay.share(), 3), np.round(theta, 3).tolist())


if __name__ == "__main__":
    main()
