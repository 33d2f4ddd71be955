"""Prioritized buffers of a million rows, filled by 64 environments, beside cpprb's, which is written in C++.

A transition: obs and obs_next float32 (8,), act int64, rew float64, terminated and truncated; cpprb stores done alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np

from typedbatch import Batch
from typedbatch.buffers import PrioritizedVectorReplayBuffer

from .timing import Row, row

SIZE, ENVS, ROWS = 1_000_000, 64, 256
TITLE = f"prioritized buffers of {SIZE:,} rows and {ENVS} environments, beside cpprb"
_DIFFERENT = 64
"""Number of different rows, indices and priorities that the calls cycle through."""


def measure_prioritized() -> list[Row]:
    """Return the rows of the table; none if cpprb is not installed."""
    try:
        import cpprb
    except ImportError:
        return []
    numbers = np.random.default_rng(0)
    rows = [_rows(numbers) for _ in range(_DIFFERENT)]
    own = PrioritizedVectorReplayBuffer(SIZE, ENVS, 0.6, 0.4)
    fields = {name: {"shape": value.shape[1:] or 1, "dtype": value.dtype} for name, value in _of_cpprb(rows[0]).items()}
    theirs = cpprb.PrioritizedReplayBuffer(SIZE, fields, alpha=0.6)
    batches, dicts = [Batch(row) for row in rows], [_of_cpprb(row) for row in rows]
    for number in range(SIZE // ENVS):
        own.add(batches[number % _DIFFERENT])  # type: ignore[arg-type]  # a plain batch of the fields of a rollout
        theirs.add(**dicts[number % _DIFFERENT])
    slots = [numbers.integers(0, SIZE, ROWS) for _ in range(_DIFFERENT)]
    priorities = [numbers.random(ROWS) for _ in range(_DIFFERENT)]
    updates = [*zip(slots, priorities, strict=True)]
    return [
        row("add 64 rows", _each(lambda one: theirs.add(**one), dicts), _each(own.add, batches), 1.5),
        row("sample 256 rows", lambda: theirs.sample(ROWS, 0.4), lambda: own.sample(ROWS), 1.0),
        row(
            "update 256 priorities",
            _each(lambda update: theirs.update_priorities(*update), updates),
            _each(lambda update: own.update_weight(*update), updates),
            3.0,
        ),
    ]


def _rows(numbers: np.random.Generator) -> dict[str, Any]:
    return {
        "obs": numbers.random((ENVS, 8), np.float32), "act": numbers.integers(0, 4, ENVS), "rew": numbers.random(ENVS),
        "obs_next": numbers.random((ENVS, 8), np.float32), "terminated": numbers.random(ENVS) < 0.005,
        "truncated": numbers.random(ENVS) < 0.001, "info": {},
    }  # fmt: skip


def _of_cpprb(row: dict[str, Any]) -> dict[str, Any]:
    names = {"obs": "obs", "act": "act", "rew": "rew", "next_obs": "obs_next"}
    return {**{own: row[name] for own, name in names.items()}, "done": row["terminated"] | row["truncated"]}


def _each(call: Callable[[Any], Any], arguments: list[Any]) -> Callable[[], Any]:
    following = cycle(arguments).__next__
    return lambda: call(following())
