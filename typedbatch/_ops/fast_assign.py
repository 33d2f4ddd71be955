"""Fast row assignment: into arrays that share no memory, from rows of the same dtypes and shapes.

Every step of an environment does this, so the checks cost little more than the writing. Everything is checked before
anything is written, as in the general case. The general case is in :mod:`typedbatch._ops.assignment`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core.kinds import Tree

Fields = dict[str, Any]

AS_MADE: Final = np.empty(2).flags, np.empty((2, 2)).flags
"""Flags of a new array, which is writable and owns its memory, in one and in more dimensions."""

_NUMBERS: Final = frozenset(np.dtype(code).type for code in "?bhilqBHILQefdgFDG")
"""Classes of numpy scalars that have one dtype each; those of dates have a dtype for each unit."""

_WHERE: Final = frozenset({int, slice, ndarray})
_ODD: Final = (LookupError, TypeError, ValueError)
"""Errors that the checks raise for other names, rows out of range, and leaves without rows."""


def written_directly(fields: Fields, index: Any, rows: Fields) -> bool:
    """Do ``batch[index] = rows`` if nothing has to be converted; else write nothing, and return False.

    That is so if the rows have the fields of the batch, with their dtypes and shapes, and the index is an int, a slice
    or an array.
    """
    writes: list[tuple[Any, Any]] = []
    written: set[int] = set()
    read: list[Any] = []
    try:
        count = _matching(fields, index, rows, writes, written, read) if type(index) in _WHERE else None
    except _ODD:
        return False
    if not count or len(written) < count or not written.isdisjoint(map(id, read)):
        return False
    for target, value in writes:
        target[index] = value
    return True


def _matching(
    fields: Fields, index: Any, rows: Fields, writes: list[tuple[Any, Any]], written: set[int], read: list[Any]
) -> int | None:
    """Check that all fields can be written directly, and collect the writes and the memory that they touch.

    Args:
        fields: Fields to be written.
        index: Rows to be written.
        rows: Fields that the new values come from.
        writes: List to which the arrays and their new rows are appended.
        written: Set to which the ids of the fields, nested ones too, and of the bases of views are added.
        read: List to which the arrays whose memory is read are appended.

    Returns:
        The number of ids added to ``written``, counting duplicates, or None if a field cannot be written directly. So
        two fields share memory if ``written`` has fewer elements.
    """
    if len(fields) != len(rows):
        return None
    where, count, length = type(index), len(fields), -1
    lead: tuple[int, ...] = ()
    for name, target in fields.items():
        value = rows[name]
        if type(target) is not ndarray:
            is_nested = isinstance(target, Tree) and isinstance(value, Tree)
            inner = _matching(target.__dict__, index, value.__dict__, writes, written, read) if is_nested else None
            if inner is None:
                return None
            count += inner
            continue
        base: NDArray[Any] | None = target
        if target.flags not in AS_MADE:
            if (base := base_of_view(target)) is None:
                return None
            written.add(id(base))
            count += 1
        if type(value) is ndarray:
            if value.dtype is not target.dtype or (where is int and value.dtype.kind == "O"):
                return None
            if where is not ndarray:
                region = target[index].shape
            else:  # Indexing by an array would copy the rows, so their shape is computed.
                if len(target) != length:
                    length = len(target)
                    lead = leading(index, length)
                region = lead if target.ndim == 1 else lead + target.shape[1:]
            owner = value if value.base is None else value.base
            if value.shape != region or type(owner) is not ndarray or owner.base is not None:
                return None
            if owner is not base:  # numpy handles a row of the field itself, as in b[3] = b[5].
                read.append(owner)
        elif type(value) is not type(target[index]) or type(value) not in _NUMBERS:
            return None
        writes.append((target, value))
    written.update(map(id, fields.values()))
    return count


def base_of_view(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return the array that owns the memory of a writable view; None for anything else."""
    base = array.base
    return base if array.flags.writeable and type(base) is ndarray and base.base is None else None


def leading(index: Any, rows: int) -> tuple[int, ...]:
    """Return the dimensions that take the place of the rows in ``array[index]``, for an array of ``rows`` rows.

    Raises:
        IndexError: The index is out of range.
    """
    if type(index) is int and -rows <= index < rows:
        return ()
    shape: tuple[int, ...] = np.empty(rows, bool)[index].shape
    return shape


def set_directly(column: Any, index: Any, values: Any) -> bool:
    """Do ``column[index] = values`` under the conditions of :func:`written_directly`, or return False."""
    if type(column) is not ndarray or type(values) is not ndarray or type(index) is not ndarray:
        return False
    if values.dtype is not column.dtype or index.dtype.kind not in "iu" or values.base is not None:
        return False
    if not column.ndim or values.shape != index.shape + column.shape[1:]:
        return False
    if column.flags not in AS_MADE or values is column:
        return False
    try:
        column[index] = values  # numpy checks all row numbers before it writes.
    except IndexError:
        return False
    return True


def cleared_directly(fields: Fields, index: Any) -> bool:
    """Set the rows at ``index`` to zeros under the conditions of :func:`written_directly`, or return False."""
    targets: list[NDArray[Any]] = []
    written: set[int] = set()
    try:
        count = _clearable(fields, index, targets, written) if type(index) in _WHERE else None
    except _ODD:
        return False
    if not count or len(written) < count:
        return False
    for target in targets:
        target[index] = zero(target.dtype)
    return True


def _clearable(fields: Fields, index: Any, targets: list[NDArray[Any]], written: set[int]) -> int | None:
    """Check that all fields can be cleared directly, and collect them, as :func:`_matching` does for writing."""
    length, count = -1, len(fields)
    for target in fields.values():
        if type(target) is not ndarray:
            inner = _clearable(target.__dict__, index, targets, written) if isinstance(target, Tree) else None
            if inner is None:
                return None
            count += inner
            continue
        if target.flags not in AS_MADE:
            if (base := base_of_view(target)) is None:
                return None
            written.add(id(base))
            count += 1
        if len(target) != length:
            length = len(target)
            leading(index, length)
        targets.append(target)
    written.update(map(id, fields.values()))
    return count


@lru_cache(maxsize=64)
def zero(dtype: np.dtype[Any]) -> Any:
    """Return the value that clears a row of ``dtype``: ``None`` for objects, else zero."""
    return None if dtype.kind == "O" else np.zeros((), dtype)
