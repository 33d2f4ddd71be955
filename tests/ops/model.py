"""A reference model of ``Batch``: a dict of lists, one item for each row, and nothing that a reader has to trust."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from typedbatch import Batch

Rows = list[Any]

KINDS: dict[str, tuple[Callable[[Rows], Any], Any, Callable[[int], Any]]] = {
    "flag": (lambda rows: np.array(rows, bool), False, lambda number: number % 2 == 1),
    "small": (lambda rows: np.array(rows, np.int8).reshape(len(rows)), 0, lambda number: number % 100),
    "float": (lambda rows: np.array(rows, np.float64).reshape(len(rows)), 0.0, lambda number: number / 4),
    "wide": (lambda rows: np.array(rows, np.int64).reshape(len(rows), 2), [0, 0], lambda number: [number, -number]),
    "tensor": (lambda rows: torch.tensor(rows, dtype=torch.int64).reshape(len(rows)), 0, lambda number: number),
    "pairs": (
        lambda rows: torch.tensor(rows, dtype=torch.float64).reshape(len(rows), 2),
        [0.0, 0.0],
        lambda number: [number / 2, 1.0],
    ),
    "object": (lambda rows: _column(rows), None, lambda number: f"row {number}" if number % 3 else {"id": number}),
}
"""For each kind of field: a leaf of rows, the row that fills gaps, and a row that a number can be recognized by."""


def _column(rows: Rows) -> np.ndarray:
    column = np.empty(len(rows), object)
    column[:] = rows
    return column


class Model:
    """Fields by dotted path, each a kind and the list of its rows."""

    def __init__(self, fields: dict[str, tuple[str, Rows]]) -> None:
        self.fields = fields

    def __len__(self) -> int:
        return min((len(rows) for _, rows in self.fields.values()), default=0)

    def batch(self) -> Batch:
        """Return the batch that has these rows."""
        made = Batch()
        for path, (kind, rows) in self.fields.items():
            *outer, name = path.split(".")
            inner = made
            for step in outer:
                if step not in inner:
                    inner[step] = Batch()
                inner = inner[step]
            inner[name] = KINDS[kind][0](rows)
        return made

    def take(self, numbers: Iterable[int]) -> Model:
        """Return the rows of these numbers, in this order."""
        order = list(numbers)
        return Model({path: (kind, [rows[i] for i in order]) for path, (kind, rows) in self.fields.items()})

    def join(self, other: Model) -> Model:
        """Return these rows, then those of the other, which has the same fields."""
        return Model({path: (kind, [*rows, *other.fields[path][1]]) for path, (kind, rows) in self.fields.items()})

    def write(self, numbers: Iterable[int], value: Callable[[str, str], Callable[[int], Any]]) -> None:
        """Replace rows, by what ``value(path, kind)`` gives for the position of each among ``numbers``."""
        order = list(numbers)
        for path, (kind, rows) in self.fields.items():
            row = value(path, kind)
            for position, number in enumerate(order):
                rows[number] = row(position)


def contents(batch: Batch, prefix: str = "") -> dict[str, Rows]:
    """Return the rows of every leaf as plain Python, by dotted path."""
    found: dict[str, Rows] = {}
    for name, leaf in batch.__dict__.items():
        if isinstance(leaf, Batch):
            found |= contents(leaf, f"{prefix}{name}.")
        else:
            found[prefix + name] = leaf.tolist()
    return found


def dtypes(batch: Batch, prefix: str = "") -> dict[str, Any]:
    """Return the class and dtype of every leaf, by dotted path."""
    found: dict[str, Any] = {}
    for name, leaf in batch.__dict__.items():
        found |= (
            dtypes(leaf, f"{prefix}{name}.") if isinstance(leaf, Batch) else {prefix + name: (type(leaf), leaf.dtype)}
        )
    return found
