"""Rows: the length of a batch, and the shape that its fields share."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from numpy import iinfo, intp, ndarray

from typedbatch._core import kinds
from typedbatch._core.depth import DEEPEST, require_depth
from typedbatch._core.kinds import KINDS, Tree, contradiction, describe, leading_shape
from typedbatch.errors import LeafError, NoLengthError, SizeError, StructureError

MOST_BYTES: Final = int(iinfo(intp).max)
"""Largest number of bytes in one array; in numpy's arithmetic, larger sizes wrap around to small ones."""
MOST_ROWS: Final = MOST_BYTES // intp(0).itemsize
"""Largest number of row numbers in one array."""
_ARRAYS: Final = {ndarray}


def require_at_least(least: int, value: Any, name: str) -> int:
    """Return ``value`` as an int, after checking that it is a whole number of at least ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise SizeError(f"{name} is a whole number, got {value!r}") from None
    if number < least:
        raise SizeError(f"{name} is {least} or more, got {value!r}")
    return number


def require_at_most(most: int, value: int, name: str) -> int:
    """Return ``value``, after checking that it is at most ``most``, a limit of what memory can hold."""
    if value > most:
        raise SizeError(f"{name} must be {most} or less, the most that an array can hold, got {value}")
    return value


def require_tree(batch: Any, who: str) -> Any:
    """Return ``batch``, after checking that it is a Batch; ``who`` is the caller's name for the error.

    Raises:
        LeafError: ``batch`` is not a Batch.
    """
    if not isinstance(batch, Tree):
        raise LeafError(f"{who} takes a Batch, got {describe(batch)}")
    return batch


def require_bounded(batch: Any, who: str) -> Any:
    """Return ``batch``, after checking that it is a Batch that is not nested too deep."""
    tree = require_tree(batch, who)
    require_depth(tree)
    return tree


def count_rows(fields: Mapping[str, Any]) -> int | None:
    """Return the length of the shortest field, or None if nothing has rows.

    Reserved fields and ``None`` do not count.
    """
    if set(map(type, fields.values())) == _ARRAYS:
        with suppress(TypeError):  # An array without dimensions raises it; the error below names the field.
            return min(map(len, fields.values()))
    shortest: int | None = None
    for name, value in fields.items():
        rows: int | None = None
        if type(value) is ndarray and value.shape:
            rows = value.shape[0]
        elif KINDS[type(value)] is kinds.BATCH:
            try:
                rows = count_rows(value.__dict__)
            except NoLengthError as error:
                raise error.under(name) from None
        elif value is not None:
            shape = leading_shape(value)
            if not shape:
                scalar = f"a scalar ({describe(value)}) has no rows"
                text = f"{scalar}, so the batch has no length; is_empty() tells whether it has fields"
                raise NoLengthError(text, name)
            rows = shape[0]
        if rows is not None and (shortest is None or rows < shortest):
            shortest = rows
    return shortest


def leaves(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its dotted path, depth first; reserved fields are yielded as empty batches."""
    for name, value in fields.items():
        if isinstance(value, Tree) and value.__dict__:
            yield from leaves(value.__dict__, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def rows_of(value: Any, rows: int | None, depth: int) -> int | Literal[False] | None:
    """Return the number of rows that the leaves of a value have, if all agree with each other and with ``rows``.

    The result is False if they differ or are nested too deep. ``rows`` is the number known so far, or None. Scalars,
    objects and ``None`` have no rows and do not count. ``depth`` is the number of batches that the value is in.
    """
    if KINDS[type(value)] is not kinds.BATCH:
        return _shared(value, rows)
    if depth > DEEPEST:
        return False
    for leaf in value.__dict__.values():
        rows = rows_of(leaf, rows, depth + 1) if KINDS[type(leaf)] is kinds.BATCH else _shared(leaf, rows)
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
    """Return the number of rows of a batch, after checking that its rows may be taken."""
    cls: Any = type(tree)
    if cls._row_guard is not None:  # The name is private because a public one could be a field.
        cls._row_guard(tree)
    return equal_rows(tree.__dict__)


def equal_rows(fields: Mapping[str, Any]) -> int:
    """Return the length that all fields share; for operations that would lose rows otherwise."""
    rows = _equal_arrays(fields)
    if rows is not None:
        return rows
    if unequal := unequal_fields(fields):
        raise StructureError(f"the fields have different lengths: {unequal}; rows would be lost")
    return count_rows(fields) or 0


def unequal_fields(fields: Mapping[str, Any]) -> str:
    """Return the fields that are longer than others, as ``"a has 3, others 2"``, or ``""`` if all lengths are equal."""
    if _equal_arrays(fields) is not None:
        return ""
    rows = count_rows(fields) or 0
    longer = longer_fields(fields, rows)
    return f"{longer}, others {rows}" if longer else ""


def longer_fields(fields: Mapping[str, Any], rows: int) -> str:
    """Return the fields longer than the shortest, which has ``rows``, as ``"a has 3, c.d has 4"``, or ``""``."""
    sizes = [(path, leading_shape(leaf)[:1]) for path, leaf in leaves(fields)]
    return ", ".join(f"{path} has {size[0]}" for path, size in sizes if size not in ((), (rows,)))


def _equal_arrays(fields: Mapping[str, Any]) -> int | None:
    """Return the number of rows if all fields, nested ones too, are arrays or tensors of the same length, else None.

    This is the common case, and faster than the general one.
    """
    rows = None
    for value in fields.values():
        if type(value) is ndarray and value.shape:
            size: int | None = len(value)
        elif value is None or (isinstance(value, Tree) and not value.__dict__):
            continue
        elif isinstance(value, Tree):
            size = _equal_arrays(value.__dict__)
        else:  # ``size`` is faster than reading the shape.
            tensor: Any = value if KINDS[type(value)] is kinds.TENSOR else None
            size = tensor.size(0) if tensor is not None and not tensor.is_nested and tensor.ndim else None
        if size is None or (rows is not None and rows != size):
            return None
        rows = size
    return rows


def require_rows(values: Tree, rows: int) -> None:
    """Raise an error unless every leaf has ``rows`` rows; ``None`` and reserved fields do not count."""
    for path, leaf in leaves(values.__dict__):
        shape = leading_shape(leaf)
        if shape[:1] != (rows,) and KINDS[type(leaf)] is not kinds.NONE and not isinstance(leaf, Tree):
            has = f"{shape[0]} rows" if shape else "no rows"
            raise StructureError(f"{describe(leaf)} has {has}, and the lengths sum up to {rows}", path)


def shape_of(fields: Mapping[str, Any]) -> list[int]:
    """Return the element-wise minimum of the leaves' shapes, or ``[]`` if a leaf is a scalar or a field is reserved."""
    shapes = [
        shape_of(value.__dict__) if KINDS[type(value)] is kinds.BATCH else leading_shape(value)
        for value in fields.values()
        if value is not None
    ]
    return [min(sizes) for sizes in zip(*shapes, strict=False)]


def shared_dims(fields: Mapping[str, Any]) -> int:
    """Return the number of leading dimensions that all numeric leaves have; reserved fields do not count."""
    numeric = (kinds.ARRAY, kinds.TENSOR, kinds.DISTRIBUTION)
    return min((len(leading_shape(leaf)) for _, leaf in leaves(fields) if KINDS[type(leaf)] in numeric), default=0)
