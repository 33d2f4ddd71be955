"""How many rows a batch has, and which shape its fields share."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from numpy import iinfo, intp, ndarray

from typedbatch._tree.depth import DEEPEST, require_depth
from typedbatch._tree.leaves import (
    ARRAY,
    BATCH,
    DISTRIBUTION,
    KINDS,
    NONE,
    TENSOR,
    Tree,
    contradiction,
    describe,
    leading_shape,
)
from typedbatch.errors import LeafError, NoLengthError, SizeError, StructureError

MOST_BYTES: Final = int(iinfo(intp).max)
"""The memory that one array can describe; numpy computes with sizes beyond it as if they were small."""
MOST_ROWS: Final = MOST_BYTES // intp(0).itemsize
"""As many row numbers as one array can have."""


def at_least(least: int, value: Any, name: str) -> int:
    """A whole number, not below another.

    Raises:
        SizeError: it is something else.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise SizeError(f"{name} is a whole number, got {value!r}") from None
    if number < least:
        raise SizeError(f"{name} is {least} or more, got {value!r}")
    return number


def at_most(most: int, value: int, name: str) -> int:
    """A whole number, not above another; what is more has no place in memory.

    Raises:
        SizeError: it is more.
    """
    if value > most:
        raise SizeError(f"{name} is {most} at most, for what an array can hold, got {value}")
    return value


def require_tree(batch: Any, who: str) -> Any:
    """The batch itself.

    Raises:
        LeafError: it is not a Batch.
    """
    if not isinstance(batch, Tree):
        raise LeafError(f"{who} takes a Batch, got {describe(batch)}")
    return batch


def require_bounded(batch: Any, who: str) -> Any:
    """The batch itself.

    Raises:
        LeafError: it is not a Batch.
        StructureError: batches are nested more than 100 deep.
    """
    tree = require_tree(batch, who)
    require_depth(tree)
    return tree


def count_rows(fields: Mapping[str, Any]) -> int | None:
    """The rows of the shortest field; None when nothing has rows (reserved fields and ``None`` do not count).

    Raises:
        NoLengthError: a leaf is a scalar, which has no rows.
    """
    if set(map(type, fields.values())) == _ARRAYS:
        with suppress(TypeError):  # of an array without dimensions, which is named below
            return min(map(len, fields.values()))
    shortest: int | None = None
    for name, value in fields.items():
        if type(value) is ndarray and value.shape:
            rows: int | None = value.shape[0]
        else:
            rows = _count_leaf(name, value)
        if rows is not None and (shortest is None or rows < shortest):
            shortest = rows
    return shortest


_ARRAYS: Final = {ndarray}


def _count_leaf(name: str, value: Any) -> int | None:
    kind = KINDS[type(value)]
    if kind is NONE:
        return None
    if kind is BATCH:
        try:
            return count_rows(value.__dict__)
        except NoLengthError as error:
            raise error.under(name) from None
    shape = leading_shape(value)
    if not shape:
        scalar = f"a scalar ({describe(value)}) has no rows"
        raise NoLengthError(f"{scalar}, so the batch has no length; is_empty() tells whether it has fields", name)
    return shape[0]


def leaves(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its dotted path, depth first; reserved fields come as the empty batch that they are."""
    for name, value in fields.items():
        if isinstance(value, Tree) and value.__dict__:
            yield from leaves(value.__dict__, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def rows_of(value: Any, rows: int | None, depth: int) -> int | Literal[False] | None:
    """The rows that the leaves of a batch share with those known so far; False if they differ, or lie too deep.

    Scalars, objects and ``None`` have no rows and do not count. ``depth`` is how many batches the value is in.
    """
    if KINDS[type(value)] is not BATCH:
        return _shared(value, rows)
    if depth > DEEPEST:
        return False
    for leaf in value.__dict__.values():
        rows = rows_of(leaf, rows, depth + 1) if KINDS[type(leaf)] is BATCH else _shared(leaf, rows)
        if rows is False:
            return False
    return rows


def _shared(leaf: Any, rows: int | None) -> int | Literal[False] | None:
    shape = leading_shape(leaf)
    if not shape:
        return rows
    if type(leaf) is not ndarray and contradiction(leaf):
        return False
    return shape[0] if rows is None or rows == shape[0] else False


def rows_to_take(tree: Tree) -> int:
    """How many rows a batch has, before some of them are taken.

    Raises:
        RowIndexError: its record declares different first dimensions, so its fields have no rows in common.
        StructureError: the fields have different lengths.
        NoLengthError: a leaf is a scalar.
    """
    cls: Any = type(tree)
    if cls._row_guard is not None:  # public names are fields
        cls._row_guard(tree)
    return equal_rows(tree.__dict__)


def equal_rows(fields: Mapping[str, Any]) -> int:
    """The one length that all fields share; for operations that would lose rows otherwise.

    Raises:
        StructureError: the fields have different lengths.
        NoLengthError: a leaf is a scalar.
    """
    rows = _equal_arrays(fields)
    if rows is not None:
        return rows
    rows = count_rows(fields) or 0
    if longer := longer_fields(fields, rows):
        raise StructureError(f"the fields have different lengths: {longer}, others {rows}; rows would be lost")
    return rows


def longer_fields(fields: Mapping[str, Any], rows: int) -> str:
    """Return the fields that have more rows than the shortest one, as ``"a has 3, c.d has 4"``; empty if none has."""
    sizes = [(path, leading_shape(leaf)[:1]) for path, leaf in leaves(fields)]
    return ", ".join(f"{path} has {size[0]}" for path, size in sizes if size not in ((), (rows,)))


def _equal_arrays(fields: Mapping[str, Any]) -> int | None:
    """The rows, where all fields are arrays or tensors with as many of them, or nested: the usual and fast case."""
    rows = None
    for value in fields.values():
        if type(value) is ndarray and value.shape:
            size: int | None = len(value)
        else:
            size = _equal_arrays(value.__dict__) if isinstance(value, Tree) else _tensor_rows(value)
        if size is None or (rows is not None and rows != size):
            return None
        rows = size
    return rows


def require_rows(values: Tree, rows: int) -> None:
    """Raise an error unless every leaf has so many rows; ``None`` and reserved fields need none.

    Raises:
        StructureError: one has not.
    """
    for path, leaf in leaves(values.__dict__):
        shape = leading_shape(leaf)
        if shape[:1] != (rows,) and KINDS[type(leaf)] is not NONE and not isinstance(leaf, Tree):
            has = f"{shape[0]} rows" if shape else "no rows"
            raise StructureError(f"{describe(leaf)} has {has}, and the lengths sum up to {rows}", path)


def _tensor_rows(value: Any) -> int | None:
    if KINDS[type(value)] is not TENSOR or value.is_nested or not value.ndim:
        return None
    rows: int = value.size(0)  # quicker than its shape
    return rows


def shape_of(fields: Mapping[str, Any]) -> list[int]:
    """Element-wise minimum over the leaves' shapes; ``[]`` as soon as a leaf is a scalar or a field is reserved."""
    shapes = [
        shape_of(value.__dict__) if KINDS[type(value)] is BATCH else leading_shape(value)
        for value in fields.values()
        if value is not None
    ]
    return [min(sizes) for sizes in zip(*shapes, strict=False)]


def shared_dims(fields: Mapping[str, Any]) -> int:
    """How many leading dimensions the numeric leaves have in common; reserved fields do not count."""
    ndims = [
        len(leading_shape(leaf)) for _, leaf in leaves(fields) if KINDS[type(leaf)] in (ARRAY, TENSOR, DISTRIBUTION)
    ]
    return min(ndims, default=0)
