"""Rows to columns, for :meth:`typedbatch.Batch.from_rows`; lists stay objects even if their lengths happen to agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import numpy as np

from typedbatch._core import kinds
from typedbatch._core.declaration import object_fields
from typedbatch._core.kinds import Tree, describe, kind_of, new_tree, object_array
from typedbatch._core.meta import as_meta, set_meta
from typedbatch._ops.combine import common_type, spread, stack_leaves
from typedbatch._ops.construct import to_array
from typedbatch._ops.joined_meta import joined_meta
from typedbatch.errors import LeafError, SettingError, StructureError, TypedBatchError, under

MissingInRows = Literal["error", "none", "zero"]
"""Treatment of a key that a row lacks: an error, None in a column of objects, or zeros (``None`` among objects)."""

_GAP: Final = object()
_NUMBERS: Final = frozenset({kinds.NUMBER, kinds.SCALAR})

B = TypeVar("B", bound=Tree)


def from_rows(cls: type[B], rows: Iterable[Any], missing: MissingInRows, meta: Mapping[str, Any] | None) -> B:
    """Return a batch of a class without declared fields; see :meth:`typedbatch.Batch.from_rows`."""
    given = fields_of_rows(rows)
    batch: B = new_tree(cls, columns_of(given, missing, frozenset()))
    if found := joined_meta(given, None) if meta is None else as_meta(meta):
        set_meta(batch, found)
    return batch


def fields_of_rows(rows: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return the fields of each row."""
    if isinstance(rows, (str, bytes, Mapping, Tree)) or not isinstance(rows, Iterable):
        raise LeafError(f"from_rows() takes a list of dicts or Batches, one for each row, got {describe(rows)}")
    found: list[Mapping[str, Any]] = []
    for number, row in enumerate(rows):
        if kind_of(row) not in (kinds.BATCH, kinds.MAPPING):
            raise LeafError(f"from_rows() takes dicts or Batches, got {describe(row)} as row {number}")
        fields: Any = row.__dict__ if isinstance(row, Tree) else row
        if not isinstance(row, Tree) and not _has_names(fields):
            names = ", ".join(repr(name) for name in fields if not isinstance(name, str))
            raise LeafError(f"field names must be strings, got {names} in row {number}")
        found.append(fields)
    return found


def columns_of(rows: Sequence[Mapping[str, Any]], missing: MissingInRows, declared: frozenset[str]) -> dict[str, Any]:
    """Return a column for each key of the rows; those named in ``declared`` are columns of objects in any case."""
    if missing not in ("error", "none", "zero"):
        raise SettingError(f"missing= must be 'error', 'none' or 'zero', got {missing!r}")
    return _columns(rows, range(len(rows)), missing, declared)


def lists_to_arrays(columns: dict[str, Any], declared: frozenset[str]) -> dict[str, Any]:
    """Convert columns named in ``declared`` to arrays if their rows are lists of numbers of one shape.

    Returns:
        All columns; ``columns`` itself is changed.
    """
    for name in declared & columns.keys():
        column = columns[name]
        if kind_of(column) is kinds.ARRAY and column.dtype == object and set(map(kind_of, column)) == {kinds.SEQUENCE}:
            with under(name):
                columns[name] = to_array(list(column))
    return columns


def _has_names(row: Mapping[Any, Any]) -> bool:
    return set(map(type, row)) <= {str} or all(isinstance(name, str) for name in row)


def _columns(
    rows: Sequence[Mapping[str, Any]], numbers: Sequence[int], missing: MissingInRows, declared: frozenset[str]
) -> dict[str, Any]:
    """Return a column for each key; ``numbers`` are the numbers of the rows, for error messages."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):  # A dict preserves the order of first occurrence.
        values = [row.get(name, _GAP) for row in rows]
        there = np.fromiter((value is not _GAP for value in values), bool, len(values))
        try:
            if there.all():
                columns[name] = object_array(values) if name in declared else _joined(values, numbers, missing)
            elif missing == "error":
                row = numbers[int(np.argmin(there))]
                raise StructureError(
                    f"row {row} lacks this key, which other rows have; missing='none' puts None there, missing='zero' "
                    "zeros, and objects(...) around a column of dicts stores them unchanged"
                )
            elif missing == "none" or name in declared:
                columns[name] = object_array([None if value is _GAP else value for value in values])
            else:
                present = [value for value in values if value is not _GAP]
                rows_there = [number for number, here in zip(numbers, there, strict=True) if here]
                columns[name] = spread(_joined(present, rows_there, missing), there)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
    return columns


def _joined(values: list[Any], numbers: Sequence[int], missing: MissingInRows) -> Any:
    """Return a column of values without gaps: an array or tensor, a nested batch, or the values as objects."""
    found = set(map(kind_of, values))
    if found <= {kinds.MAPPING, kinds.BATCH}:
        rows = [value.__dict__ if isinstance(value, Tree) else value for value in values]
        if any(rows) and all(map(_has_names, rows)):
            cls = common_type(values)
            declared = frozenset[str]() if cls is Tree.__plain__ else object_fields[cls]
            return new_tree(cls, _columns(rows, numbers, missing, declared))
        return object_array(values)
    if found <= _NUMBERS:
        return to_array(values)
    stackable = False
    if found == {kinds.DISTRIBUTION}:
        stackable = len({(type(value), value.batch_shape, value.event_shape) for value in values}) == 1
    elif found == {kinds.ARRAY}:
        is_plain = all(value.dtype.kind in "biufcmM" for value in values)
        stackable = is_plain and len({value.shape for value in values}) == 1
    elif found == {kinds.TENSOR}:
        stackable = not any(value.is_nested for value in values) and len({value.shape for value in values}) == 1
    return stack_leaves(values, found, 0) if stackable else object_array(values)
