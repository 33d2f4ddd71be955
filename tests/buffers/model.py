"""A model of a replay buffer in plain Python: a list of dicts for each ring. It is slow, and obviously right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch
from typedbatch.buffers import ReplayBuffer

Row = dict[str, Any]

ZEROS: Row = {
    "obs.pos": [0.0, 0.0], "obs.inner.id": 0, "obs_next.pos": [0.0, 0.0], "obs_next.inner.id": 0, "info.text": None,
    "extra": 0,
}  # fmt: skip
"""Values of a row in the fields that it was added without."""


def row(number: int, terminated: bool = False, truncated: bool = False, **optional: Any) -> Row:
    """A transition whose every value is made from its number, by the names that the model has for its fields."""
    return {
        "obs.pos": [float(number), number / 2], "obs.inner.id": number, "act": -number, "rew": number / 4,
        "terminated": terminated, "truncated": truncated, "obs_next.pos": [number + 0.5, number / 2],
        "obs_next.inner.id": number + 1000, **optional,
    }  # fmt: skip


def as_batch(row: Row) -> Batch:
    """A transition as a buffer takes it."""
    return _nested({name: np.array(value) if isinstance(value, list) else value for name, value in row.items()})


def as_rows(rows: list[Row], like: Row | None = None) -> Batch:
    """Several transitions with the same fields, or none with those of ``like``, as a buffer of several rings takes."""
    columns: dict[str, Any] = {}
    for name, first in (rows[0] if rows else like or row(0)).items():
        dtype = object if name == "info.text" else np.asarray(first).dtype
        columns[name] = np.array([one[name] for one in rows], dtype).reshape(len(rows), *np.shape(first))
    return _nested(columns)


def _nested(flat: dict[str, Any]) -> Batch:
    out: dict[str, Any] = {}
    for path, value in flat.items():
        *outer, name = path.split(".")
        place = out
        for step in outer:
            place = place.setdefault(step, {})
        place[name] = value
    return Batch(out)


class Ring:
    """The last ``capacity`` rows, each with its slot; and the episode that is going on."""

    def __init__(self, offset: int, capacity: int) -> None:
        self.offset, self.capacity = offset, capacity
        self.rows: list[tuple[int, Row]] = []
        self.reset()

    def reset(self, keep_statistics: bool = False) -> None:
        self.rows.clear()
        self.place = 0
        self.ep_start = self.offset
        if not keep_statistics:
            self.ep_return, self.ep_len = 0.0, 0

    def _append(self, row: Row) -> int:
        slot = self.offset + self.place
        self.rows = [*self.rows, (slot, row)][-self.capacity :]
        self.place = (self.place + 1) % self.capacity
        return slot

    def add(self, row: Row) -> tuple[int, float, int, int]:
        """The slot, and return, length and first slot of the episode, as ``add`` gives them."""
        start, total, steps = self.ep_start, self.ep_return + row["rew"], self.ep_len + 1
        slot = self._append(row)
        self._count(row, slot)
        return (slot, total, steps, start) if is_done(row) else (slot, 0.0, 0, start)

    def take(self, rows: Iterable[Row]) -> list[int]:
        """Rows of another buffer, whose slots are given; those that stay take part in the statistics."""
        taken = [(self._append(row), row) for row in rows]
        for slot, row in taken[-self.capacity :]:
            self._count(row, slot)
        return [slot for slot, _ in taken]

    def _count(self, row: Row, slot: int) -> None:
        self.ep_return, self.ep_len = self.ep_return + row["rew"], self.ep_len + 1
        if is_done(row):
            self.ep_return, self.ep_len = 0.0, 0
            self.ep_start = self.offset + (slot - self.offset + 1) % self.capacity


class Model:
    """Rings, one behind the other."""

    def __init__(self, capacities: list[int]) -> None:
        offsets = [sum(capacities[:ring]) for ring in range(len(capacities))]
        self.rings = [Ring(offset, capacity) for offset, capacity in zip(offsets, capacities, strict=True)]
        self.inputs = self.rings
        """The rings that rows are added to."""

    def add(self, ring: int, row: Row) -> tuple[int, float, int, int]:
        return self.inputs[ring].add(row)

    def slots(self) -> list[int]:
        """The slots that hold a row, in the order of time, ring by ring."""
        return [slot for ring in self.rings for slot, _ in ring.rows]

    def rows(self) -> dict[int, Row]:
        return {slot: row for ring in self.rings for slot, row in ring.rows}

    def fields(self) -> set[str]:
        """Every field that some row that is there came with."""
        return {name for row in self.rows().values() for name in row}

    def neighbour(self, slot: int, step: int) -> int:
        """The slot of the transition before (-1) or after (1) one, as far as there is one in the same episode."""
        ring = next(ring for ring in self.rings if slot in dict(ring.rows))
        place = [one for one, _ in ring.rows].index(slot)
        if not 0 <= place + step < len(ring.rows):
            return slot
        ends = ring.rows[place - 1 if step == -1 else place][1]
        return slot if is_done(ends) else ring.rows[place + step][0]

    def frames(self, slot: int, count: int) -> list[int]:
        frames = [slot]
        while len(frames) < count:
            frames.insert(0, self.neighbour(frames[0], -1))
        return frames

    def unfinished(self) -> list[int]:
        return [ring.rows[-1][0] for ring in self.rings if ring.rows and not is_done(ring.rows[-1][1])]


class CachedModel(Model):
    """A main ring, and caches from which each episode moves there when it ends."""

    def __init__(self, size: int, caches: int, rows: int) -> None:
        super().__init__([size] + [rows] * caches)
        self.main, *self.inputs = self.rings

    def add(self, ring: int, row: Row) -> tuple[int, float, int, int]:
        cache = self.inputs[ring]
        slot, total, steps, start = cache.add(row)
        if is_done(row):
            moved = self.main.take(row for _, row in cache.rows)
            cache.reset()
            slot, start = moved[-1], moved[0]
        return slot, total, steps, start


def is_done(row: Row) -> bool:
    return row["terminated"] or row["truncated"]


def value(row: Row, path: str) -> Any:
    """Return the value of a row in a field."""
    return is_done(row) if path == "done" else row[path] if path in row else ZEROS[path]


def leaf(batch: Any, path: str) -> NDArray[Any]:
    """A leaf of a batch, or a column of a buffer, by its path."""
    for name in path.split("."):
        batch = getattr(batch, name) if isinstance(batch, ReplayBuffer) else batch[name]
    return batch
