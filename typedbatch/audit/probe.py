"""Probes: replays that change one field of a batch in some rows, and say where that has an effect."""

from __future__ import annotations

import copy
from collections.abc import Set
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._tree.kinds import ARRAY, TENSOR, kind_of
from typedbatch.audit.lessons import Effect, Lessons, other_values
from typedbatch.audit.report import AuditCode, Finding
from typedbatch.audit.roles import TERMINATED, TRUNCATED
from typedbatch.batch import Batch

ROWS_TRIED: Final = 3
_INPUTS: Final = ("obs", "response_ids", "input_ids")
_FEWEST_UNAFFECTED: Final = 0.1
"""Share of rows that are not affected where no statistic of all rows is used."""


class Probe:
    """Replays of an update on one batch with other values in some rows.

    Args:
        lessons: Replays of the update.
        position: Position of the batch among the arguments of the update.
        batch: The batch.
    """

    def __init__(self, lessons: Lessons, position: int, batch: Any) -> None:
        self.lessons: Lessons = lessons
        self._position, self._batch = position, batch
        self.fields: dict[str, Any] = {
            name: value for name, value in Batch.items(batch) if kind_of(value) in (ARRAY, TENSOR)
        }
        self._places: dict[tuple[int, ...], list[set[int]]] = {}
        self.findings: list[Finding] = []

    def first(self, names: frozenset[str]) -> str | None:
        """Return the name of the first field of these that has a floating-point value per row."""
        for name, value in self.fields.items():
            if name in names and value.ndim and len(value) > ROWS_TRIED and is_float(value):
                return name
        return None

    def found(self, code: AuditCode, text: str, *, is_certain: bool = True) -> None:
        """Add a finding, or a note if it is not certain."""
        self.findings.append(Finding(code, "", text, is_certain))

    def effect(self, name: str, rows: Any, change: Any) -> Effect | None:
        """Return the effect of adding something to a field at an index."""
        changed = self.changed()
        changed[name][rows] = changed[name][rows] + change
        return self.effect_of(changed)

    def changed_ids(self, name: str, row: Any) -> Effect | None:
        """Return the effect of other integers in a field at an index: of tokens, those that masks have somewhere."""
        changed, ids = self.changed(), self.fields[name]
        mask = self.fields.get(f"{name.removesuffix('_ids')}_mask")
        there = ids[mask.astype(bool) if isinstance(mask, np.ndarray) else mask.bool()] if mask is not None else ids
        changed[name][row] = other_values(changed[name][row], there)
        return self.effect_of(changed)

    def places_of(self, rows: Any, key: tuple[int, ...]) -> list[set[int]] | None:
        """Return the positions of each output that rows have, as those whose output depends on their observations."""
        if key not in self._places:
            name = next((name for name in _INPUTS if name in self.fields), None)
            if name is None:
                return None
            effect = self.effect(name, rows, 0.5) if is_float(self.fields[name]) else self.changed_ids(name, rows)
            if effect is None:
                return None
            self._places[key] = effect.outputs
        return self._places[key]

    def ended(self) -> NDArray[np.bool_] | None:
        """Return the steps after which another episode begins, or None if the batch does not tell."""
        names = (TERMINATED | TRUNCATED) & self.fields.keys()
        if not TERMINATED & names or len({tuple(self.fields[name].shape) for name in names}) != 1:
            return None
        out: NDArray[np.bool_] = np.logical_or.reduce([self.array(name).astype(bool) for name in names])
        return out

    def rows_tried(self, count: int) -> list[int]:
        """Return rows far from each other, and not at the ends of episodes if there are others."""
        ended = self.ended()
        rows = np.arange(count)
        if ended is not None and ended.ndim == 1 and len(ended) == count and (~ended).sum() >= ROWS_TRIED:
            rows = rows[~ended]
        return [int(rows[(2 * part + 1) * len(rows) // (2 * ROWS_TRIED)]) for part in range(ROWS_TRIED)]

    def changed(self) -> Any:
        """Return a copy of the batch, to be changed."""
        return copy.deepcopy(self._batch)

    def effect_of(self, changed: Any) -> Effect | None:
        """Return the effect of another batch in its place."""
        return self.lessons.effect({self._position: changed})

    def size_of_gradients(self, name: str, change: float) -> float | None:
        """Return the norm of the gradients after adding something to a field."""
        changed = self.changed()
        changed[name] = changed[name] + change
        return self.lessons.size({self._position: changed})

    def array(self, name: str) -> NDArray[Any]:
        """Return a field as an array."""
        return np.asarray(leaf_to_numpy(self.fields[name]))


def is_float(value: Any) -> bool:
    """Return True if values are of a floating-point dtype."""
    return value.is_floating_point() if isinstance(value, Tensor) else value.dtype.kind == "f"


def is_part(affected: Set[int], used: set[int]) -> bool:
    """Return True if some of these are not affected, so that no statistic of all of them is used."""
    return len(used - affected) > max(2, _FEWEST_UNAFFECTED * len(used))


def like(value: Any, numbers: NDArray[Any]) -> Any:
    """Return numbers as a tensor or array, as a value is."""
    return torch.as_tensor(numbers).to(value) if isinstance(value, Tensor) else numbers.astype(value.dtype)
