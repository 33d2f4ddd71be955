"""Transitions, buffers of every class, and random histories that several files of this folder use."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from typedbatch import Batch
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    HERVectorReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)


def assert_same(ours: Any, theirs: Any, path: str = "result") -> None:
    """Batches of either library, dicts and leaves: the same names, dtypes, shapes and values; NaN equals NaN."""
    if hasattr(type(ours), "to_dict") or isinstance(ours, dict):
        ours, theirs = (x if isinstance(x, dict) else x.__dict__ for x in (ours, theirs))
        assert set(ours) == set(theirs), path
        for name in ours:
            assert_same(ours[name], theirs[name], f"{path}.{name}")
    elif isinstance(ours, torch.Tensor):
        assert ours.dtype == theirs.dtype, path
        assert torch.equal(ours, theirs), path
    else:
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype, path
        assert np.shape(ours) == np.shape(theirs), path
        np.testing.assert_array_equal(ours, theirs, err_msg=path)


def assert_same_places(ours: Any, theirs: Any) -> bool:
    """The same sizes and positions as Tianshou's buffer; False if there are no rows to look at."""
    assert len(ours) == len(theirs)
    assert ours.maxsize == theirs.maxsize
    assert ours.last_index.tolist() == theirs.last_index.tolist()
    assert ours.subbuffer_edges.tolist() == theirs.subbuffer_edges.tolist()
    if len(ours):
        assert ours.unfinished_index().tolist() == theirs.unfinished_index().tolist()
    return bool(len(ours))


def assert_untouched(rows: Any, before: bytes) -> None:
    """The rows are as they were when they were pickled."""
    assert_same(rows, pickle.loads(before))


def transition(i: float, terminated: bool = False, truncated: bool = False, **more: Any) -> Batch:
    """A single row whose numbers say which one it is."""
    fields: dict[str, Any] = {
        "obs": np.array([i, i + 0.5]), "act": int(i), "rew": float(i), "terminated": terminated,
        "truncated": truncated, "obs_next": np.array([i + 1, i + 1.5]), "info": {"t": int(i)},
    }  # fmt: skip
    return Batch({**fields, **more})


def transitions(numbers: Sequence[float], terminated: Any = False, **more: Any) -> Batch:
    """Several such rows."""
    n = np.asarray(numbers, float)
    fields: dict[str, Any] = {
        "obs": np.stack([n, n + 0.5], 1), "act": n.astype(int), "rew": n.copy(),
        "terminated": np.broadcast_to(terminated, n.shape).copy(), "truncated": np.zeros(n.shape, bool),
        "obs_next": np.stack([n + 1, n + 1.5], 1), "info": {"t": n.astype(int)},
    }  # fmt: skip
    return Batch({**fields, **more})


def distance(achieved: Any, desired: Any) -> Any:
    """A reward function for goals."""
    return -np.abs(np.asarray(achieved) - np.asarray(desired)).sum(-1)


def goals(achieved: Any, desired: Any) -> dict[str, Any]:
    """An observation of several rows, with goals of one number each."""
    achieved = np.asarray(achieved, float).reshape(-1, 1)
    desired = np.broadcast_to(np.asarray(desired, float).reshape(-1, 1), achieved.shape).copy()
    return {"observation": achieved + 0.25, "achieved_goal": achieved, "desired_goal": desired}


def goal_transitions(numbers: Sequence[float], terminated: Any = False, **more: Any) -> Batch:
    """Several rows for hindsight: row ``i`` goes from ``i`` to ``i + 1`` and should have gone to -1."""
    n = np.asarray(numbers, float)
    fields = {"obs": goals(n, -1), "obs_next": goals(n + 1, -1), "rew": distance(n[:, None] + 1, -np.ones((len(n), 1)))}
    return transitions(n, terminated, **{**fields, **more})


Make = Callable[..., Any]

BUFFERS: dict[str, Make] = {
    "ring": lambda **options: ReplayBuffer(8, **options),
    "vector": lambda **options: VectorReplayBuffer(8, 2, **options),
    "cached": lambda **options: CachedReplayBuffer(ReplayBuffer(4, **options), 2, 2),
    "prioritized": lambda **options: PrioritizedReplayBuffer(8, alpha=0.6, beta=0.4, **options),
    "prioritized vector": lambda **options: PrioritizedVectorReplayBuffer(8, 2, alpha=0.6, beta=0.4, **options),
    "hindsight": lambda **options: HERReplayBuffer(8, distance, 4, **options),
    "hindsight vector": lambda **options: HERVectorReplayBuffer(8, 2, distance, 4, **options),
}
"""Every buffer, with 8 slots."""


def is_hindsight(name: str) -> bool:
    return name.startswith("hindsight")


def rows_for(name: str, numbers: Sequence[float], terminated: Any = False, **more: Any) -> Batch:
    """Rows that the buffer of this name takes."""
    return (goal_transitions if is_hindsight(name) else transitions)(numbers, terminated, **more)


def ids_for(name: str) -> list[int]:
    """``buffer_ids`` of two rows, for a buffer of this name."""
    return [0, 0] if name in ("ring", "prioritized", "hindsight") else [0, 1]


@dataclass
class Step:
    """A row that was added."""

    ring: int
    episode: int
    number: int
    rew: Any
    terminated: bool
    truncated: bool
    slot: int = -1

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


def plain_rows(steps: list[Step]) -> Batch:
    numbers = [10.0 * step.number + step.ring for step in steps]
    return transitions(
        numbers,
        [step.terminated for step in steps],
        truncated=np.array([step.truncated for step in steps]),
        rew=np.array([step.rew for step in steps]),
    )


def filled(
    buffer: Any,
    steps: int,
    seed: int,
    batch_of: Callable[[list[Step]], Batch] = plain_rows,
    rew_shape: tuple[int, ...] = (),
) -> list[list[Step]]:
    """Add random rows to random rings, and give what each ring should hold then, oldest first."""
    rng = np.random.default_rng(seed)
    capacities = np.diff(buffer.subbuffer_edges)
    history: list[list[Step]] = [[] for _ in capacities]
    episodes = [0] * len(capacities)
    for number in range(steps):
        ids = np.flatnonzero(rng.random(len(capacities)) < 0.8)
        if not len(ids):
            continue
        added = []
        for ring in ids.tolist():
            fate = rng.random()
            rew = rng.normal(size=rew_shape).round(2)
            added.append(Step(ring, episodes[ring], number, rew, bool(fate < 0.15), bool(fate > 0.87)))
            episodes[ring] += added[-1].done
        slots = buffer.add(batch_of(added), buffer_ids=ids).slots
        for step, slot in zip(added, slots.tolist(), strict=True):
            step.slot = slot
            history[step.ring].append(step)
    return [kept[-capacity:] for kept, capacity in zip(history, capacities.tolist(), strict=True)]


def step(i: float, done: bool = False, **others: Any) -> Any:
    """A row with numbers for observations."""
    return Batch(
        {"obs": i, "act": 0, "rew": float(i), "terminated": done, "truncated": False, "obs_next": i + 1} | others
    )


def row(number: int, rew: Any = 1.0, **more: Any) -> Batch:
    """A row with an observation of three numbers."""
    flags = {"terminated": False, "truncated": False}
    return Batch(
        {"obs": np.full(3, number, float), "act": number, "rew": rew, "obs_next": np.zeros(3), **flags, **more}
    )


def steps(*values: float, done: bool = False, **others: Any) -> Any:
    """Several such rows."""
    return Batch.stack([step(i, done, **others) for i in values])


def held(buffer: Any, *rows: Any) -> Any:
    """Add rows to a buffer, and return it."""
    for row in rows:
        buffer.add(row)
    return buffer


every_buffer = pytest.mark.parametrize("name", BUFFERS)
every_store = pytest.mark.parametrize("name", [*BUFFERS, *(f"{name} on disk" for name in BUFFERS)])
"""Every buffer, in memory and on disk."""


def made(name: str, path: Any, **options: Any) -> Any:
    """A buffer of this name; on disk, in a folder in ``path``, if the name says so."""
    if not name.endswith(" on disk"):
        return BUFFERS[name](**options)
    if name.startswith("cached"):
        return CachedReplayBuffer(ReplayBuffer(4, **options), 2, 2, path=path / "buffer")
    return BUFFERS[name.removesuffix(" on disk")](**options, path=path / "buffer")


def holding(name: str, pairs: int = 3, **options: Any) -> Any:
    """A buffer with twice as many rows as ``pairs``, none of them the last of an episode."""
    buffer = BUFFERS[name](**options)
    for i in range(pairs):
        buffer.add(rows_for(name, [10 * i, 10 * i + 5]), buffer_ids=ids_for(name))
    return buffer


def contents(buffer: Any) -> dict[str, Any]:
    """All that can be read of a buffer, as a copy."""
    return {
        "rows": buffer[:],
        "slots": buffer.sample_indices(0) if not isinstance(buffer, HERReplayBuffer) else np.arange(0),
        "len": len(buffer),
        "last": buffer.last_index.copy(),
        "unfinished": buffer.unfinished_index(),
        "columns": np.array(sorted(buffer[:].__dict__)),
    }
