"""Writes into the memory of a batch: all are planned, then checked for shared memory, then made, so none is half done.

Each step of an environment writes rows, so :func:`plain_pairs` plans the common case in one pass. Where it does not
apply, :mod:`typedbatch._ops.assignment` and :mod:`typedbatch._ops.arithmetic` plan each write, and :func:`once_each`
checks their memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core.kinds import KINDS, SCALAR, Tree
from typedbatch._core.memory import Taken, duplicate, known_apart, layout, same_content
from typedbatch.errors import StructureError

Fields = dict[str, Any]
AS_MADE: Final = np.empty(2).flags, np.empty((2, 2)).flags
"""Flags of a new array, which is writable and owns its memory, in one and in more dimensions."""

_SCALARS: Final = {np.dtype(code).type: np.dtype(code) for code in "?bhilqBHILQefdgFDG"}
"""Classes of numpy scalars that have one dtype each; those of dates have a dtype for each unit."""

INDICES: Final = frozenset({int, slice, ndarray})
"""Classes of indices that are written at without a conversion."""
_ODD: Final = (LookupError, TypeError, ValueError)
"""Errors that the checks raise for other names, rows out of range, and leaves without rows."""


def plain_pairs(fields: Fields, index: Any, rows: Fields) -> list[tuple[NDArray[Any], Any]] | None:
    """Return the arrays that ``batch[index] = rows`` writes to, each with its new rows.

    Args:
        fields: Fields to be written.
        index: Rows to be written; ``...`` for all of every field.
        rows: Fields that the new values come from.

    Returns:
        Pairs of array and rows, or None if arrays share memory or the rows have other names, dtypes or shapes.
    """
    pairs: list[tuple[NDArray[Any], Any]] = []
    written: set[int] = set()
    read: list[Any] = []
    try:
        count = _pair(fields, index, rows, pairs, written, read) if index is ... or type(index) in INDICES else None
    except _ODD:
        return None
    return pairs if count and len(written) == count and written.isdisjoint(map(id, read)) else None


def _pair(
    fields: Fields, index: Any, rows: Fields, pairs: list[tuple[Any, Any]], written: set[int], read: list[Any]
) -> int | None:
    """Collect arrays with their new rows, the ids of fields and bases of views, and the arrays whose memory is read.

    Returns:
        The number of ids added to ``written``, counting duplicates; so two fields share memory if the set has fewer.
        None if a field cannot be written directly.
    """
    if len(fields) != len(rows):
        return None
    where, count, length = type(index), len(fields), -1
    lead: tuple[int, ...] = ()
    for name, target in fields.items():
        value = rows[name]
        if type(target) is not ndarray:
            is_nested = isinstance(target, Tree) and isinstance(value, Tree)
            inner = _pair(target.__dict__, index, value.__dict__, pairs, written, read) if is_nested else None
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
            dtype = value.dtype
            if dtype is not target.dtype or (where is int and dtype.kind == "O"):
                return None
            if where is int or where is slice:
                region = target[index].shape
            elif where is not ndarray:
                region = target.shape
            else:  # Indexing by an array would copy the rows, so their shape is computed.
                if len(target) != length:
                    length = len(target)
                    lead = leading(index, length)
                region = lead if target.ndim == 1 else lead + target.shape[1:]
            owner = value if value.base is None else value.base
            if value.shape != region or type(owner) is not ndarray or owner.base is not None:
                return None
            if owner is not base:  # numpy handles memory of the field itself, as in b[3] = b[5].
                read.append(owner)
        elif target.dtype is not _SCALARS[type(value)]:
            return None
        elif len(target) != length:
            length = len(target)
            lead = leading(index, length)
        pairs.append((target, value))
    written.update(map(id, fields.values()))
    return count


def plain_arrays(fields: Fields) -> list[NDArray[Any]] | None:
    """Return all leaves of a batch as arrays; None if a leaf is something else, or two of them share memory."""
    arrays: list[NDArray[Any]] = []
    written: set[int] = set()
    count = _collect(fields, arrays, written)
    return arrays if count and len(written) == count else None


def _collect(fields: Fields, arrays: list[NDArray[Any]], written: set[int]) -> int | None:
    """Collect arrays, and the ids of fields and bases of views, as :func:`_pair` does."""
    count = len(fields)
    for leaf in fields.values():
        if type(leaf) is not ndarray:
            inner = _collect(leaf.__dict__, arrays, written) if isinstance(leaf, Tree) else None
            if inner is None:
                return None
            count += inner
            continue
        if leaf.flags not in AS_MADE:
            if (base := base_of_view(leaf)) is None:
                return None
            written.add(id(base))
            count += 1
        arrays.append(leaf)
    written.update(map(id, fields.values()))
    return count


def base_of_view(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return the array that owns the memory of a writable view; None for anything else."""
    base = array.base
    return base if array.flags.writeable and type(base) is ndarray and base.base is None else None


def leading(index: Any, rows: int) -> tuple[int, ...]:
    """Return the dimensions that take the place of the rows in ``array[index]``, for an array of ``rows`` rows."""
    if type(index) is int and -rows <= index < rows:
        return ()
    shape: tuple[int, ...] = np.empty(rows, bool)[index].shape
    return shape


@lru_cache(maxsize=64)
def zero(dtype: np.dtype[Any]) -> Any:
    """Return the value that clears a row of ``dtype``: ``None`` for objects, else zero."""
    return None if dtype.kind == "O" else np.zeros((), dtype)


class Write(NamedTuple):
    """A pending write, which is known to succeed.

    Attributes:
        path: Path of the field.
        leaf: Array, tensor or scalar that changes.
        value: Rows or operand that the new values come from.
        where: Where it is written: an index of the leaf, or the fields that hold it, and its name.
    """

    path: str
    leaf: Any
    value: Any
    where: Any


def once_each(writes: list[Write], may_be_itself: bool = False) -> list[Write]:
    """Return the writes of each piece of memory once, with values on memory of their own.

    Args:
        writes: Writes, each of which is known to succeed.
        may_be_itself: Whether a leaf can be its own value, as in ``b += b``.
    """
    leaves = [write.leaf for write in writes if KINDS[type(write.leaf)] is not SCALAR]
    read = [None if may_be_itself and write.value is write.leaf else write.value for write in writes]
    if known_apart(leaves, read):
        return writes
    taken = Taken([write.leaf for write in writes])
    left_out: set[int] = set()
    for i, k in taken.pairs():
        one, two = writes[i], writes[k]
        if layout(one.leaf) != layout(two.leaf) or not same_content(one.value, two.value):
            raise StructureError(
                f"shares memory with {two.path!r}, so neither is written; copy() one of them", one.path
            )
        left_out.add(k)
    return [  # Values on memory that is written too are copied first, as in b[1:] = b[:-1] and b += b.a.
        write._replace(value=duplicate(write.value)) if taken.meets(read[i]) else write
        for i, write in enumerate(writes)
        if i not in left_out
    ]
