"""Rows written the short way: into arrays that share no memory, from rows that are just what these hold.

That is what every step of an environment does, so it costs little more than the writing. Here, too, everything is
looked at before anything is written. What is not as usual is left to :mod:`typedbatch._ops.assignment`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._tree.leaves import Tree

Fields = dict[str, Any]

AS_MADE: Final = np.empty(2).flags, np.empty((2, 2)).flags
"""The flags of an array as it was made: it may be written, and its memory is its own."""

_NUMBERS: Final = frozenset(np.dtype(code).type for code in "?bhilqBHILQefdgFDG")
"""The numpy scalars that have one dtype each; those of dates have units."""

_OBJECT: Final = np.dtype(object)
_WHERE: Final = frozenset({int, slice, ndarray})
_ODD: Final = (LookupError, TypeError, ValueError)
"""What looking at fields raises that are not as usual: other names, rows out of range, leaves without rows."""


def written_directly(fields: Fields, index: Any, rows: Fields) -> bool:
    """``batch[index] = rows`` if there is nothing to convert; else False, and nothing has been written.

    The rows have the fields of the batch, with their dtypes and shapes, and the index is an int, a slice or an array.
    """
    written: set[int] = set()
    read: list[Any] = []
    try:
        count = _matching(fields, index, rows, written, read) if type(index) in _WHERE else None
    except _ODD:
        return False
    if not count or len(written) < count or not written.isdisjoint(map(id, read)):
        return False
    _write(fields, index, rows)
    return True


def _matching(fields: Fields, index: Any, rows: Fields, written: set[int], read: list[Any]) -> int | None:
    """The number of ids that ``written`` gets if no memory is in two places, if all can be written directly; else None.

    Args:
        fields: what is written.
        index: where.
        rows: what is read.
        written: gets the ids of the fields, nested ones too, and of the arrays that views are on.
        read: gets the arrays whose memory is read.
    """
    if len(fields) != len(rows):
        return None
    where, count, length = type(index), len(fields), -1
    lead: tuple[int, ...] = ()
    for name, target in fields.items():
        value = rows[name]
        if type(target) is not ndarray:
            is_nested = isinstance(target, Tree) and isinstance(value, Tree)
            inner = _matching(target.__dict__, index, value.__dict__, written, read) if is_nested else None
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
            if value.dtype is not target.dtype or (value.dtype is _OBJECT and where is int):
                return None
            if where is not ndarray:
                region = target[index].shape
            else:  # what is there would be a copy
                if len(target) != length:
                    length = len(target)
                    lead = leading(index, length)
                region = lead if target.ndim == 1 else lead + target.shape[1:]
            owner = value if value.base is None else value.base
            if value.shape != region or type(owner) is not ndarray or owner.base is not None:
                return None
            if owner is not base:  # a row of the field itself, as in b[3] = b[5], numpy takes care of
                read.append(owner)
        elif type(value) is not type(target[index]) or type(value) not in _NUMBERS:
            return None
    written.update(map(id, fields.values()))
    return count


def base_of_view(array: NDArray[Any]) -> NDArray[Any] | None:
    """The array on whose memory a view lies that may be written; None for anything else."""
    base = array.base
    return base if array.flags.writeable and type(base) is ndarray and base.base is None else None


def leading(index: Any, rows: int) -> tuple[int, ...]:
    """The dimensions that ``array[index]`` has in place of its rows.

    Raises:
        IndexError: there are no such rows.
    """
    if type(index) is int and -rows <= index < rows:
        return ()
    shape: tuple[int, ...] = np.empty(rows, bool)[index].shape
    return shape


def _write(fields: Fields, index: Any, rows: Fields) -> None:
    for name, target in fields.items():
        value = rows[name]
        if type(target) is ndarray:
            target[index] = value
        else:
            _write(target.__dict__, index, value.__dict__)


def set_directly(column: Any, index: Any, values: Any) -> bool:
    """``column[index] = values`` for a single column, as :func:`written_directly` writes it; else False."""
    if type(column) is not ndarray or type(values) is not ndarray or type(index) is not ndarray:
        return False
    if values.dtype is not column.dtype or index.dtype.kind not in "iu" or values.base is not None:
        return False
    if not column.ndim or values.shape != index.shape + column.shape[1:]:
        return False
    if column.flags not in AS_MADE or values is column:
        return False
    try:
        column[index] = values  # numpy looks at all row numbers before it writes
    except IndexError:
        return False
    return True


def cleared_directly(fields: Fields, index: Any) -> bool:
    """Set the rows at ``index`` to zeros, as :func:`written_directly` writes them; else False."""
    written: set[int] = set()
    try:
        count = _clearable(fields, index, written) if type(index) in _WHERE else None
    except _ODD:
        return False
    if not count or len(written) < count:
        return False
    _clear(fields, index)
    return True


def _clearable(fields: Fields, index: Any, written: set[int]) -> int | None:
    """As :func:`_matching`, where nothing is read."""
    length, count = -1, len(fields)
    for target in fields.values():
        if type(target) is not ndarray:
            inner = _clearable(target.__dict__, index, written) if isinstance(target, Tree) else None
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
    written.update(map(id, fields.values()))
    return count


def _clear(fields: Fields, index: Any) -> None:
    for target in fields.values():
        if type(target) is ndarray:
            target[index] = zero(target.dtype)
        else:
            _clear(target.__dict__, index)


@lru_cache(maxsize=64)
def zero(dtype: np.dtype[Any]) -> Any:
    """What a row is cleared to: ``None`` among objects."""
    return None if dtype is _OBJECT else np.zeros((), dtype)
