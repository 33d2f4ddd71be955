"""Tags: what is known about where the values of an array or tensor come from."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Field(NamedTuple):
    """A field of the batches of one origin."""

    origin: int
    """Number of the batch that the rows come from, in the order in which batches are first read."""
    name: str
    """Path of the field: ``"rew"``, ``"obs.cam"``."""


class Rows(NamedTuple):
    """The rows of an origin that the first dimension of a value has."""

    origin: int
    ids: NDArray[np.intp]

    def same(self, other: Rows) -> bool:
        """Return True if both are the same rows in the same order."""
        return self.ids is other.ids or (self.ids.shape == other.ids.shape and bool((self.ids == other.ids).all()))

    def is_range(self) -> bool:
        """Return True if the rows follow each other without a gap."""
        return bool((np.diff(self.ids) == 1).all())


class Columns(NamedTuple):
    """The columns, such as positions of tokens, that the second dimension of a value has."""

    frame: tuple[Any, ...]
    """Origin and width, or the frames that were concatenated."""
    offset: int
    """Position of the first column."""


@dataclass(slots=True)
class Tag:
    """The origin of the values of an array or tensor. A tag is never changed.

    Attributes:
        fields: Fields that the values were computed from.
        rows: Rows of the first dimension, or None if they are not known.
        column: Field whose values these are, possibly of other rows, shape or dtype; None for computed values.
        models: Names of the modules whose parameters were used.
        columns: Columns of the second dimension, or None if they are not known.
        table: Rows of a value per row that is viewed as a table, or None.
        made_by: Name of the operation that computed the values; empty for those of a field.
        path: Names of the operations from a field to here, as long as no model was used.
        step: Number of optimizer steps before the values were computed.
        is_scaled: Whether the values were multiplied by a number, such as a discount.
        is_negated: Whether the values are those of a log-probability with another sign.
        of_rows: Whether this is one number for all rows: their mean, or the like.
        is_of_labels: Whether the values are those of certain tokens, such as log-probabilities.
    """

    fields: frozenset[Field] = frozenset()
    rows: Rows | None = None
    column: Field | None = None
    models: frozenset[str] = frozenset()
    columns: Columns | None = None
    table: Rows | None = None
    made_by: str = ""
    path: tuple[str, ...] = ()
    step: int = 0
    is_scaled: bool = False
    is_of_labels: bool = False
    of_rows: bool = False
    is_negated: bool = False

    @property
    def from_model(self) -> bool:
        """Whether parameters of a model were used."""
        return bool(self.models)

    @property
    def names(self) -> set[str]:
        """Names of the fields, without those of nested fields."""
        return {field.name.split(".")[0] for field in self.fields}

    def has_any(self, names: frozenset[str]) -> bool:
        """Return True if the values were computed from a field with one of these names, or from a part of one."""
        return any(field.name in names or field.name.split(".")[0] in names for field in self.fields)

    def is_column(self, names: frozenset[str]) -> bool:
        """Return True if these are the values of a field with one of these names."""
        return self.column is not None and self.column.name in names

    def read_as(self, field: Field) -> Tag:
        """Return the tag of the same values that are read as another field."""
        return replace(self, fields=self.fields | {field}, column=field)


UNKNOWN = Tag()
_FEWEST_ENTRIES = 4096


class Tags:
    """Tags by value. A value is identified by its id and held by a weak reference."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[weakref.ref[Any], Tag]] = {}
        """Reference and tag by the id of a value. A reference to another object means that an id was used again."""
        self._most = _FEWEST_ENTRIES

    def of(self, value: Any) -> Tag | None:
        """Return the tag of a value, or None."""
        entry = self.entries.get(id(value))
        return entry[1] if entry is not None and entry[0]() is value else None

    def put(self, value: Any, tag: Tag) -> None:
        """Set the tag of a value."""
        if len(self.entries) >= self._most:
            self._sweep()
        self.entries[id(value)] = (weakref.ref(value), tag)

    def _sweep(self) -> None:
        """Remove the entries of values that are gone. A callback for each of them would cost more."""
        self.entries = {key: entry for key, entry in self.entries.items() if entry[0]() is not None}
        self._most = max(_FEWEST_ENTRIES, 2 * len(self.entries))


def listed(names: set[str] | frozenset[str]) -> str:
    """Return names as a text: ``"act, adv, obs"``."""
    return ", ".join(sorted(names)) or "nothing"
