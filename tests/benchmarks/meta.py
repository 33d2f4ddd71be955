"""Costs of meta: nothing where there is none, and a copy of a small dict where there is some.

The floor does what the operation did before there was meta: it goes over the fields of the ``__dict__``, and makes a
new batch of the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedbatch import Batch, cat

from .timing import Ratio, beside

_new = object.__new__


@dataclass(frozen=True)
class MetaRow:
    """An operation: the seconds of the floor, and how many times that it takes without meta and with some."""

    name: str
    floor: float
    without: Ratio
    with_meta: Ratio


def measure_meta() -> list[MetaRow]:
    """Every operation."""
    fields = {
        name: np.zeros((256, 4), np.float32) for name in ("obs", "obs_next", "act", "rew", "returns", "adv", "logp")
    }
    plain, meta = Batch(fields), Batch(fields, meta={"temperature": 0.7, "step": 3, "engine": "v1"})
    rows = np.arange(64)
    calls: dict[str, tuple[Callable[[], Any], Callable[[Batch], Any]]] = {
        "batch[3]": (lambda: _each(plain, lambda value: value[3]), lambda batch: batch[3]),
        "batch[64 rows]": (lambda: _each(plain, lambda value: value.take(rows, 0)), lambda batch: batch[rows]),
        "cat of 2": (
            lambda: _each(plain, lambda value: np.concatenate((value, value))), lambda batch: cat([batch, batch])
        ),
        "copy": (lambda: _each(plain, lambda value: value), lambda batch: batch.copy()),
    }  # fmt: skip
    measured = []
    for name, (floor, call) in calls.items():
        both = {"without": lambda call=call: call(plain), "with": lambda call=call: call(meta)}
        seconds, ratios = beside(floor, both)
        measured.append(MetaRow(name, seconds, ratios["without"], ratios["with"]))
    return measured


def _each(batch: Batch, function: Callable[[Any], Any]) -> Batch:
    out = _new(Batch)
    made = out.__dict__
    for name, value in batch.__dict__.items():
        made[name] = function(value)
    return out
