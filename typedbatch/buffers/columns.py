"""Columns: the arrays that a buffer stores fields in, nested like its batches, with one entry for each slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core import kinds
from typedbatch._core.kinds import KINDS, Tree, describe, is_placeholder, new_tree
from typedbatch._ops.casting import fitted, require_no_mask
from typedbatch.errors import LeafError, RowAssignmentError, TypedBatchError, under

if TYPE_CHECKING:
    from typedbatch.buffers.storage import Memory

Fields = dict[str, Any]
Lead = tuple[()] | tuple[int]
"""Leading shape of the values of a field: empty for a single row, ``(rows,)`` for several rows."""


Simple = Mapping[str, tuple["NDArray[Any] | None", "np.dtype[Any] | None", tuple[int, ...]]]
"""Columns that store values of their own dtype and shape unchanged: column, dtype and shape by name."""

_NOT_SIMPLE, _NESTED = (None, None, ()), (kinds.BATCH, kinds.DISTRIBUTION)
_NONE: Simple = {}


def writes_unchanged(columns: Simple, rows: Fields) -> list[tuple[Any, Any]]:
    """Return the writes of rows all of whose values are stored unchanged; of other rows, none."""
    writes: list[tuple[Any, Any]] = []
    for name, value in rows.items():  # hot path: the least that finds out whether a value fits its column
        column, dtype, shape = columns.get(name, _NOT_SIMPLE)
        if type(value) is not ndarray or value.dtype is not dtype or value.shape != shape:
            return []
        writes.append((column, value))
    return writes


class NewField(NamedTuple):
    """A field that has no column yet."""

    fields: Fields
    """Columns that the new column is added to."""
    name: str
    value: Any
    path: tuple[str, ...]


class Plan:
    """Pending writes; nothing is written until every row has been checked."""

    __slots__ = ("fills", "lead", "new", "writes")

    def __init__(self, lead: Lead, writes: list[tuple[Any, Any]]) -> None:
        self.lead: Lead = lead
        self.writes: list[tuple[Any, Any]] = writes
        self.new: list[NewField] = []
        self.fills: bool = False
        """Whether the rows lack fields that have columns, which get zeros or ``None``."""

    def add(self, columns: Fields, rows: Fields, path: tuple[str, ...] = (), simple: Simple = _NONE) -> None:
        """Plan to write each field of ``rows``, and zeros or ``None`` to other columns.

        ``simple`` has the columns that are fast, with the shapes of all rows.
        """
        writes, unknown = self.writes, 0
        for name, value in rows.items():
            column, dtype, shape = simple.get(name, _NOT_SIMPLE)
            cls = type(value)
            if (cls is ndarray or KINDS[cls] is kinds.SCALAR) and value.dtype is dtype and value.shape == shape:
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
            self.fills |= any(not is_placeholder(columns[name]) for name in absent)

    def _add_field(self, columns: Fields, name: str, value: Any, path: tuple[str, ...]) -> None:
        column = columns.get(name)
        if name not in columns or (is_placeholder(column) and KINDS[type(value)] is not kinds.BATCH):
            _require_rows(value, self.lead)
            self.new.append(NewField(columns, name, value, (*path, name)))
        elif is_placeholder(value):
            self.writes += _zeros(column)
        elif KINDS[type(column)] is kinds.BATCH and KINDS[type(value)] is kinds.BATCH:
            self.add(column.__dict__, value.__dict__, (*path, name))
        else:
            self.writes.append((column, _fitted_rows(column, value, self.lead)))

    def add_new_columns(self, size: int, storage: Memory) -> None:
        """Create the columns of new fields, filled with zeros, and plan to write their rows; all or none."""
        created = [(new, new_column(new.value, size, self.lead, storage, new.path)) for new in self.new]
        for new, column in created:
            new.fields[new.name] = column
            self.writes += _writes_of(column, new.value, self.lead)

    def part(self, rows: NDArray[np.intp]) -> Plan:
        """Return a plan of some of the rows, or this plan if those are all rows in their order."""
        if self.lead == (len(rows),) and (rows[1:] > rows[:-1]).all():
            return self
        writes = [(column, value[rows] if np.ndim(value) else value) for column, value in self.writes]
        return Plan((len(rows),), writes)

    def write(self, slots: Any) -> None:
        """Write all rows: a single row to a slot, several rows to an array of slots or a slice."""
        for column, value in self.writes:
            column[slots] = value


def new_column(value: Any, size: int, lead: Lead, storage: Memory, path: tuple[str, ...]) -> Any:
    """Return a column of zeros for ``size`` rows like those of ``value``: an array, a tensor, or a Batch of columns."""
    kind = KINDS[type(value)]
    if kind is kinds.BATCH:
        inner = {k: new_column(v, size, lead, storage, (*path, k)) for k, v in value.__dict__.items()}
        return new_tree(Tree.__plain__, inner)
    if kind is kinds.RAGGED:
        raise LeafError(
            f"rows of a buffer must have the same shape, got {describe(value)}; add the result of .padded(length=...)",
            path[-1],
        )
    shape = (size, *tuple(value.shape)[len(lead) :]) if kind in (kinds.ARRAY, kinds.TENSOR) else (size,)
    if kind is kinds.TENSOR:
        if value.is_sparse:
            raise LeafError(f"{describe(value)} is sparse, so no rows can be stored; to_dense() first", ".".join(path))
        return storage.tensor(path, shape, value)
    return storage.array(path, shape, value.dtype if kind in (kinds.ARRAY, kinds.SCALAR) else np.dtype(object))


def take_slots(column: Any, slots: Any) -> Any:
    """Return a copy of the rows in some slots, or of a single row."""
    if type(column) is ndarray:
        return column.take(slots, 0)
    kind = KINDS[type(column)]
    if kind is kinds.BATCH:
        return new_tree(type(column), {name: take_slots(inner, slots) for name, inner in column.__dict__.items()})
    if kind is kinds.TENSOR:
        return column[slots] if isinstance(slots, ndarray) else column[slots].clone()
    return np.asarray(column).take(slots, 0)  # a memmap becomes a plain array


def simple_columns(columns: Fields, lead: Lead) -> Simple:
    """Return the columns that are arrays, except for objects, of which numpy would unpack arrays and sequences."""
    arrays = {name: column for name, column in columns.items() if type(column) is ndarray}
    return {name: (c, c.dtype, lead + c.shape[1:]) for name, c in arrays.items() if not c.dtype.hasobject}


def same_structure(columns: Tree) -> Tree:
    """Return new batches that hold the same columns."""
    fields = {k: same_structure(v) if isinstance(v, Tree) else v for k, v in columns.__dict__.items()}
    return new_tree(type(columns), fields)


def _require_rows(value: Any, lead: Lead) -> None:
    """Check that the value of a new field has the leading shape ``lead``, and can be stored."""
    kind = KINDS[type(value)]
    if kind is kinds.BATCH:
        for name, inner in value.__dict__.items():
            with under(name):
                _require_rows(inner, lead)
    elif kind is kinds.DISTRIBUTION:
        raise LeafError("a distribution cannot be stored in a buffer; take it out with batch.pop() first")
    elif kind in kinds.NUMERIC and lead and tuple(value.shape[:1]) != lead:
        raise RowAssignmentError(f"{lead[0]} rows are expected, got {describe(value)}")
    require_no_mask(value)


def _fitted_rows(column: Any, value: Any, lead: Lead) -> Any:
    """Return ``value`` as it can be written into ``column``, cast to its dtype if nothing but rounding is lost."""
    kind, is_array = KINDS[type(column)], KINDS[type(value)] in kinds.NUMERIC
    if kind is kinds.BATCH or KINDS[type(value)] in _NESTED:
        raise RowAssignmentError(f"rows of {_row(column)} are stored here, got {describe(value)}")
    require_no_mask(value)
    if kind is kinds.ARRAY and column.dtype.hasobject and (not is_array or (column.ndim == 1 and not lead)):
        return _cell(value, lead)
    given = tuple(value.shape) if is_array else ()
    if not is_array or given != lead + tuple(column.shape)[1:]:
        rows = f"{lead[0]} rows" if lead else "one row"
        raise RowAssignmentError(f"{_row(column)} is stored for each row, got {describe(value)} for {rows}")
    if kind is kinds.ARRAY and column.dtype.hasobject:
        return value
    return fitted(column, value.detach() if KINDS[type(value)] is kinds.TENSOR else value)


def _row(column: Any) -> str:
    """Describe a row of a column, for errors."""
    if KINDS[type(column)] is kinds.BATCH:
        return f"a batch of {', '.join(column.__dict__)}"
    return describe(column).replace(f"[{len(column)},", "[").replace(f"[{len(column)}]", "")


def _cell(value: Any, lead: Lead) -> Any:
    """Wrap an object so that numpy writes it as one element, even a sequence; a single row needs no wrapper."""
    value = value.item() if KINDS[type(value)] is kinds.ARRAY and not value.ndim else value
    if not lead:
        return value
    cell: NDArray[Any] = np.empty((), object)
    cell[()] = value
    return cell


def _writes_of(column: Any, value: Any, lead: Lead) -> list[tuple[Any, Any]]:
    """Return the writes that store ``value`` in a column that was created for it."""
    kind = KINDS[type(column)]
    if kind is kinds.BATCH:
        return [write for k, v in value.__dict__.items() for write in _writes_of(column.__dict__[k], v, lead)]
    if kind is kinds.ARRAY and column.dtype.hasobject and (KINDS[type(value)] is not kinds.ARRAY or not value.ndim):
        return [(column, _cell(value, lead))]
    return [(column, value.detach() if kind is kinds.TENSOR else value)]


def _zeros(column: Any) -> list[tuple[Any, Any]]:
    """Return the writes that set rows of a column to zero, or to ``None`` for objects."""
    kind = KINDS[type(column)]
    if kind is kinds.BATCH:
        return [write for inner in column.__dict__.values() for write in _zeros(inner)]
    if kind is kinds.TENSOR:
        return [(column, 0)]
    return [(column, None if column.dtype.hasobject else np.zeros((), column.dtype))]
