"""A reference model of ``Batch``: a dict of lists, one item for each row, and nothing that a reader has to trust."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


RESERVED = ("policy", "obs.later")
"""Fields of a batch that reserves some."""


class Model:
    """Fields by dotted path, each a kind and the list of its rows, and fields without rows, reserved or ``None``."""

    def __init__(
        self, fields: dict[str, tuple[str, Rows]], reserved: Sequence[str] = (), nothing: bool = False
    ) -> None:
        self.fields, self.reserved, self.nothing = fields, reserved, nothing

    def __len__(self) -> int:
        return min((len(rows) for _, rows in self.fields.values()), default=0)

    def like(self, fields: dict[str, tuple[str, Rows]]) -> Model:
        """Return a model of other rows, with the same fields without rows."""
        return Model(fields, self.reserved, self.nothing)

    def batch(self) -> Batch:
        """Return the batch that has these rows."""
        leaves: dict[str, Any] = {path: KINDS[kind][0](rows) for path, (kind, rows) in self.fields.items()}
        leaves |= {path: Batch() for path in self.reserved}
        return nested(leaves | ({"none": None} if self.nothing else {}))

    def row(self, number: int) -> dict[str, Any]:
        """Return what every field has in a row, without ``None``."""
        return {path: rows[number] for path, (_, rows) in self.fields.items() if rows[number] is not None}

    def rows(self) -> dict[str, Rows]:
        return {path: rows for path, (_, rows) in self.fields.items()}

    def take(self, numbers: Iterable[int]) -> Model:
        """Return the rows of these numbers, in this order."""
        order = list(numbers)
        return self.like({path: (kind, [rows[i] for i in order]) for path, (kind, rows) in self.fields.items()})

    def part(self, paths: Iterable[str]) -> Model:
        """Return the rows of some fields, with nothing beside them."""
        return Model({path: self.fields[path] for path in paths})

    def join(self, other: Model) -> Model:
        """Return these rows, then those of the other; fields that one of them lacks are filled."""
        kinds = {path: kind for model in (self, other) for path, (kind, _) in model.fields.items()}
        joined = self.like({})
        for path, kind in kinds.items():
            rows = [model.fields[path][1] if path in model.fields else model.gap(kind) for model in (self, other)]
            joined.fields[path] = kind, [*rows[0], *rows[1]]
        return joined

    def gap(self, kind: str) -> Rows:
        """Return the rows that stand for a field of this kind, which is missing."""
        return [KINDS[kind][1]] * len(self)

    def write(self, numbers: Iterable[int], value: Callable[[str, str], Callable[[int], Any]]) -> None:
        """Replace rows, by what ``value(path, kind)`` gives for the position of each among ``numbers``."""
        order = list(numbers)
        for path, (kind, rows) in self.fields.items():
            row = value(path, kind)
            for position, number in enumerate(order):
                rows[number] = row(position)


def nested(leaves: dict[str, Any]) -> Batch:
    """Return a batch of leaves by dotted path."""
    made = Batch()
    for path, leaf in leaves.items():
        *outer, name = path.split(".")
        inner = made
        for step in outer:
            if step not in inner:
                inner[step] = Batch()
            inner = inner[step]
        inner.__dict__[name] = leaf
    return made


def leaves(batch: Batch, prefix: str = "") -> dict[str, Any]:
    """Return every leaf by dotted path, without reserved fields and ``None``."""
    found: dict[str, Any] = {}
    for name, leaf in batch.__dict__.items():
        if isinstance(leaf, Batch):
            found |= leaves(leaf, f"{prefix}{name}.")
        elif leaf is not None:
            found[prefix + name] = leaf
    return found


def contents(batch: Batch) -> dict[str, Rows]:
    """Return the rows of every leaf as plain Python, by dotted path."""
    return {
        path: leaf.tolist() if isinstance(leaf, np.ndarray | np.generic | torch.Tensor) else leaf
        for path, leaf in leaves(batch).items()
    }


def dtypes(batch: Batch) -> dict[str, Any]:
    """Return the class and dtype of every leaf, by dotted path."""
    return {path: (type(leaf), leaf.dtype) for path, leaf in leaves(batch).items()}
