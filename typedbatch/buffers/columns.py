"""Columns: what a buffer stores, as nested as its batches are, with one slot for each row that it has room for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._ops.casting import fitted, require_no_mask
from typedbatch._tree.leaves import (
    ARRAY,
    BATCH,
    DISTRIBUTION,
    KINDS,
    RAGGED,
    SCALAR,
    TENSOR,
    Tree,
    describe,
    is_reserved,
    new_tree,
)
from typedbatch.errors import LeafError, RowAssignmentError, TypedBatchError, under

if TYPE_CHECKING:
    from typedbatch.buffers.storage import Memory

Fields = dict[str, Any]
Lead = tuple[()] | tuple[int]
"""The dimensions that a value has in front of those of a row: none for a single row, the number of rows for several."""


Simple = Mapping[str, tuple["NDArray[Any] | None", "np.dtype[Any] | None", tuple[int, ...]]]
"""Columns that take what has their dtype and shape as it is, with the dtype, and the shape of a row."""

_NOT_SIMPLE = (None, None, ())
_NONE: Simple = {}


class NewField(NamedTuple):
    """A field that comes up for the first time."""

    fields: Fields
    """Where its column goes."""
    name: str
    value: Any
    path: tuple[str, ...]
    before: Any
    """What was there: a reserved field, or nothing."""


class Plan:
    """Rows that have been found to fit, still to be written: until all of them do, nothing is."""

    __slots__ = ("fills", "lead", "new", "writes")

    def __init__(self, lead: Lead) -> None:
        self.lead: Lead = lead
        self.writes: list[tuple[Any, Any]] = []
        self.new: list[NewField] = []
        self.fills: bool = False
        """Whether the rows lack fields that the columns have."""

    def add(self, columns: Fields, rows: Fields, path: tuple[str, ...] = (), simple: Simple = _NONE) -> None:
        """Plan the rows of each field of ``rows``; fields that only the columns have are set to zero or ``None``.

        Args:
            columns: what is written to.
            rows: what is written.
            path: where both are.
            simple: what ``simple_columns`` gave for the columns; without it everything takes the longer way.

        Raises:
            RowAssignmentError: a value is of another kind or shape than its column, or its dtype cannot hold it.
            LeafError: a value that rows cannot be made of.
        """
        lead, writes, unknown = self.lead, self.writes, 0
        for name, value in rows.items():
            column, dtype, shape = simple.get(name, _NOT_SIMPLE)
            cls = type(value)
            if (
                (cls is ndarray or KINDS[cls] is SCALAR)
                and value.dtype is dtype
                and value.shape == (lead + shape if lead else shape)
            ):
                writes.append((column, value))
                continue
            column = columns.get(name)
            unknown += name not in columns
            if not (type(column) is cls is Tree.__plain__ and not column.__dict__ and not value.__dict__):
                try:
                    self._add_field(columns, name, value, path)
                except TypedBatchError as error:
                    raise error.under(name) from error.__cause__
        if len(rows) - unknown < len(columns):
            absent = [name for name in columns if name not in rows]
            self.writes += [write for name in absent for write in _zeros(columns[name])]
            self.fills |= any(not is_reserved(columns[name]) for name in absent)

    def _add_field(self, columns: Fields, name: str, value: Any, path: tuple[str, ...]) -> None:
        column = columns.get(name)
        if name not in columns or (is_reserved(column) and KINDS[type(value)] is not BATCH):
            _require_rows(value, self.lead)
            self.new.append(NewField(columns, name, value, (*path, name), column))
        elif is_reserved(value):
            self.writes += _zeros(column)
        elif KINDS[type(column)] is BATCH and KINDS[type(value)] is BATCH:
            self.add(column.__dict__, value.__dict__, (*path, name))
        else:
            self.writes.append((column, _fitted_rows(column, value, self.lead)))

    def add_new_columns(self, size: int, storage: Memory) -> None:
        """Make the columns of new fields, zero but for the rows that are written.

        Raises:
            StorageError: there can be no such column, for example on disk. No column was added.
        """
        made = [(new, new_column(new.value, size, self.lead, storage, new.path)) for new in self.new]
        for new, column in made:
            new.fields[new.name] = column
            self.writes += _writes_of(column, new.value, self.lead)

    def part(self, rows: NDArray[np.intp]) -> Plan:
        """The plan for some of the rows; the plan itself for all of them in their order."""
        if self.lead == (len(rows),) and (rows[1:] > rows[:-1]).all():
            return self
        out = Plan((len(rows),))
        out.writes = [(column, value[rows] if np.ndim(value) else value) for column, value in self.writes]
        return out

    def write(self, slots: Any) -> None:
        """Write everything, to a slot for a single row, to an array of slots for several."""
        for column, value in self.writes:
            column[slots] = value


def new_column(value: Any, size: int, lead: Lead, storage: Memory, path: tuple[str, ...]) -> Any:
    """Room for ``size`` rows like those of ``value``: an array, a tensor, or a Batch of columns."""
    kind = KINDS[type(value)]
    if kind is BATCH:
        inner = {k: new_column(v, size, lead, storage, (*path, k)) for k, v in value.__dict__.items()}
        return new_tree(Tree.__plain__, inner)
    if kind is RAGGED:
        raise LeafError(
            f"{describe(value)}, and rows of a buffer have one shape; add what .padded(length=...) gives", path[-1]
        )
    shape = (size, *tuple(value.shape)[len(lead) :]) if kind in (ARRAY, TENSOR) else (size,)
    if kind is TENSOR:
        return storage.tensor(path, shape, value)
    return storage.array(path, shape, value.dtype if kind in (ARRAY, SCALAR) else np.dtype(object))


def take_slots(column: Any, slots: Any) -> Any:
    """The rows in some slots, or in one, as a copy."""
    if type(column) is ndarray:
        return column.take(slots, 0)
    kind = KINDS[type(column)]
    if kind is BATCH:
        return new_tree(type(column), {name: take_slots(inner, slots) for name, inner in column.__dict__.items()})
    if kind is TENSOR:
        return column[slots] if isinstance(slots, ndarray) else column[slots].clone()
    return np.asarray(column).take(slots, 0)  # of a class that derives from ndarray, as memmap does


def simple_columns(columns: Fields) -> Simple:
    """The columns that are arrays, and not of objects: what an array of these holds may look like an array itself."""
    arrays = {name: column for name, column in columns.items() if type(column) is ndarray}
    return {name: (c, c.dtype, c.shape[1:]) for name, c in arrays.items() if not c.dtype.hasobject}


def slice_of(columns: Tree, start: int, stop: int) -> Tree:
    """The same columns, from one slot to another, sharing their memory."""
    out: Tree = new_tree(type(columns), {})
    for name, column in columns.__dict__.items():
        nested = KINDS[type(column)] is BATCH
        out.__dict__[name] = slice_of(column, start, stop) if nested else column[start:stop]
    return out


def same_structure(columns: Tree) -> Tree:
    """The same columns in batches of their own."""
    fields = {
        name: same_structure(column) if KINDS[type(column)] is BATCH else column
        for name, column in columns.__dict__.items()
    }
    same: Tree = new_tree(type(columns), fields)
    return same


def _require_rows(value: Any, lead: Lead) -> None:
    """A new field's values must have the rows that they are said to have."""
    kind = KINDS[type(value)]
    if kind is BATCH:
        for name, inner in value.__dict__.items():
            with under(name):
                _require_rows(inner, lead)
    elif kind is DISTRIBUTION:
        raise LeafError("a distribution has no columns to be stored in; take it out with batch.pop() first")
    elif kind in (ARRAY, TENSOR, SCALAR) and lead and tuple(value.shape[:1]) != lead:
        raise RowAssignmentError(f"got {describe(value)} where {lead[0]} rows are added")
    require_no_mask(value)


def _fitted_rows(column: Any, value: Any, lead: Lead) -> Any:
    kind, is_array = KINDS[type(column)], KINDS[type(value)] in (ARRAY, TENSOR, SCALAR)
    if kind is BATCH or KINDS[type(value)] in (BATCH, DISTRIBUTION):
        raise RowAssignmentError(f"rows of {_row(column)} are stored here, got {describe(value)}")
    require_no_mask(value)
    if kind is ARRAY and column.dtype.hasobject and (not is_array or (column.ndim == 1 and not lead)):
        return _cell(value, lead)
    given = tuple(value.shape) if is_array else ()
    if not is_array or given != lead + tuple(column.shape)[1:]:
        rows = f"{lead[0]} rows" if lead else "one row"
        raise RowAssignmentError(f"{_row(column)} is stored for each row, got {describe(value)} for {rows}")
    if kind is ARRAY and column.dtype.hasobject:
        return value
    return fitted(column, value.detach() if KINDS[type(value)] is TENSOR else value)


def _row(column: Any) -> str:
    if KINDS[type(column)] is BATCH:
        return f"a batch of {', '.join(column.__dict__)}"
    return describe(column).replace(f"[{len(column)},", "[").replace(f"[{len(column)}]", "")


def _cell(value: Any, lead: Lead) -> Any:
    """An object as numpy writes it into a place of an object array, or into several, whatever it looks like inside."""
    value = value.item() if KINDS[type(value)] is ARRAY and not value.ndim else value
    if not lead:
        return value
    cell: NDArray[Any] = np.empty((), object)
    cell[()] = value
    return cell


def _writes_of(column: Any, value: Any, lead: Lead) -> list[tuple[Any, Any]]:
    kind = KINDS[type(column)]
    if kind is BATCH:
        return [write for k, v in value.__dict__.items() for write in _writes_of(column.__dict__[k], v, lead)]
    if kind is ARRAY and column.dtype.hasobject and (KINDS[type(value)] is not ARRAY or not value.ndim):
        return [(column, _cell(value, lead))]
    return [(column, value.detach() if kind is TENSOR else value)]


def _zeros(column: Any) -> list[tuple[Any, Any]]:
    kind = KINDS[type(column)]
    if kind is BATCH:
        return [write for inner in column.__dict__.values() for write in _zeros(inner)]
    if kind is TENSOR:
        return [(column, 0)]
    return [(column, None if column.dtype.hasobject else np.zeros((), column.dtype))]
