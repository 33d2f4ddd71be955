"""Statistics of buffers and losses: helpers that only see open batches."""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from typedbatch import Batch


@dataclass
class RunningStats:
    total: Batch = field(default_factory=Batch)
    count: int = 0

    def add(self, values: Batch) -> None:
        if self.count == 0:
            self.total = values.copy()
        else:
            self.total = self.total + values
        self.count += 1

    @property
    def mean(self) -> Batch:
        return self.total / self.count


@dataclass
class Monitor:
    name: str
    buffer_stats: Batch = field(default_factory=Batch)
    losses: RunningStats = field(default_factory=RunningStats)

    def on_buffer(self, batch: Batch) -> None:
        self.buffer_stats.rew_mean = batch.rew.mean()
        self.buffer_stats.rew_max = batch.rew.max()
        self.buffer_stats.ep = Batch()
        self.buffer_stats.ep.count = int(batch.done.sum())
        self.buffer_stats.ep.length = len(batch) / max(1, self.buffer_stats.ep.count)

    def on_loss(self, policy: float, value: float) -> None:
        self.losses.add(Batch(policy=policy, value=value))

    def line(self) -> str:
        mean = self.losses.mean
        ep = self.buffer_stats.ep
        return f"{self.name}: rew {self.buffer_stats.rew_mean:.2f} len {ep.length:.1f} loss {mean.policy:.2f}/{mean.value:.2f}"


def flatten(batch: Batch, prefix: str = "") -> dict[str, float]:
    out: dict[str, float] = {}
    for name, value in batch.items():
        if isinstance(value, Batch):
            out.update(flatten(value, f"{prefix}{name}/"))
        else:
            out[prefix + name] = float(value)
    return out


def percentiles(batches: Iterable[Batch], at: Sequence[float]) -> Batch:
    joined = Batch.cat(list(batches))
    out = Batch()
    for p in at:
        out[f"p{p:g}"] = np.percentile(joined.rew, p)
    out.n = len(joined)
    return out


def normalise(batch: Batch) -> Batch:
    result = Batch(batch)
    result.rew = (batch.rew - batch.rew.mean()) / (batch.rew.std() + 1e-8)
    result.clipped = np.abs(result.rew) > 2
    result.rew[result.clipped] = np.sign(result.rew[result.clipped]) * 2
    return result


def main() -> None:
    rng = np.random.default_rng(0)
    batches: list[Batch] = []
    monitor = Monitor("train")
    for k in range(4):
        batch = Batch(rew=rng.normal(k, 1.0, size=30), done=np.arange(30) % 7 == 6)
        monitor.on_buffer(batch)
        monitor.on_loss(policy=0.5 * k, value=math.exp(-k))
        batches.append(batch)
    print(monitor.line())
    print(flatten(monitor.buffer_stats))
    table = percentiles(batches, [5, 50, 95])
    print(table.n, table.p50 < table.p95, table["p5"] < table.p50)
    normal = normalise(batches[0])
    print(normal.rew.mean().round(1), normal.clipped.sum())
    monitor.buffer_stats.ep.best = np.array([1.0, 2.0])
    print(monitor.buffer_stats.ep.best.mean())


if __name__ == "__main__":
    main()
