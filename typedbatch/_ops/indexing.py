"""Selection of rows by anything that numpy and torch accept as an index."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core import kinds
from typedbatch._core.compiling import is_compiling
from typedbatch._core.kinds import KINDS, Tree, describe, kind_of, leading_shape
from typedbatch._core.meta import keep_meta
from typedbatch.errors import RowIndexError, TypedBatchError

T = TypeVar("T", bound=Tree)
new: Final = object.__new__
_PLAIN: Final = frozenset({int, slice})
_INTP: Final = np.dtype(np.intp)
_LARGE: Final = 4096
"""Number of elements from which ``index_select`` saves more time than the check of its conditions costs."""
_LAST_ROW: Final = int(np.iinfo(np.intp).max)


def take(tree: T, index: Any) -> T:
    """Return ``tree[index]``: a new tree of the same class with every leaf indexed.

    Integers and slices give views, arrays and masks give copies, as in numpy and torch. Reserved fields and ``None``
    stay unchanged.
    """
    if not tree.__dict__:
        raise RowIndexError(f"{type(tree).__name__}() has no fields, and so no rows to take")
    if kind_of(index) is kinds.TENSOR and (index.device.type != "cpu" or is_compiling()):
        try:  # The index moves to the CPU only if there is a numpy leaf beside the tensors.
            return take_basic(tree, index)
        except RowIndexError:
            index = index.cpu()
    index = plain_index(index)
    if type(index) is not np.ndarray or index.ndim != 1:
        return take_basic(tree, index)
    if index.dtype.kind == "b":
        return take_rows(tree, np.flatnonzero(index), len(index))
    if index.dtype.kind not in "iu":
        raise RowIndexError(no_rows(index))
    return take_rows(tree, index, None)


def no_rows(index: NDArray[Any]) -> str:
    """Return the error text for an index array that is not of integers or booleans."""
    text = f"rows are selected by integers, or by a mask of booleans, got {describe(index)}"
    return f"{text}; rows.project(batch, protocol) selects fields" if index.dtype.kind in "US" else text


def plain_index(index: Any) -> Any:
    """Return an index with lists, ranges and tensors as arrays, converted once instead of once per leaf."""
    if type(index) in _PLAIN or (type(index) is ndarray and index.ndim and index.dtype is _INTP):
        return index
    if not isinstance(index, tuple):
        return _plain(index)
    # numpy broadcasts integers with the arrays beside them, but torch would index by them first, and rows of both must
    # agree: such integers become arrays.
    parts = tuple(map(_plain, index))
    arrays = [part.nonzero()[0] if part.dtype.kind == "b" else part for part in parts if isinstance(part, ndarray)]
    if not arrays or not any(type(part) is int for part in parts):
        return parts
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return tuple(np.full(shape, part) if type(part) is int else part for part in parts)


def _plain(part: Any) -> Any:
    if isinstance(part, (list, range)):
        try:
            part = np.asarray(part, dtype=None if len(part) else np.intp)
        except ValueError as error:
            raise RowIndexError(f"a list of row numbers, or of booleans, cannot be nested unevenly: {error}") from error
    if kind_of(part) is kinds.TENSOR:
        part = part.detach().cpu().numpy()
    if kind_of(part) in (kinds.ARRAY, kinds.SCALAR) and part.dtype.kind in "iu":
        if part.dtype == np.uint64 and part.size and int(part.max()) > _LAST_ROW:  # a cast would make it negative
            raise RowIndexError(f"row number {part.max()} is out of range")
        # torch would take uint8 for a mask, and refuses other dtypes than int64.
        return part.astype(np.intp, copy=False) if part.ndim else int(part)
    return part


def take_basic(tree: T, index: Any) -> T:
    """Return ``tree[index]`` for an index that needs no preparation."""
    # This is the hot loop of rollouts, so an array costs only one type check.
    cls = type(tree)
    if cls._row_guard is not None:  # The name is private because a public one could be a field.
        cls._row_guard(tree)
    out = new(cls)
    fields = out.__dict__
    given = tree.__dict__
    if type(given) is not dict:
        fields = keep_meta(tree, out)
    name = ""
    try:
        for name, value in given.items():
            if type(value) is ndarray:
                fields[name] = value[index]
            elif isinstance(value, Tree):
                fields[name] = take_basic(value, index)
            else:
                fields[name] = take_of_leaf(value, index)
    except TypedBatchError as error:
        raise error.under(name) from error.__cause__
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        raise _cannot_index(tree.__dict__[name], index, error).under(name) from error
    return out


def take_of_leaf(value: Any, index: Any) -> Any:
    """Return ``value[index]`` for a leaf that is not a Batch."""
    kind = KINDS[type(value)]
    if kind is kinds.TENSOR:
        try:
            return take_of_tensor(value, index)
        except RuntimeError as error:
            from typedbatch._ops.ragged_rows import take_jagged

            return take_jagged(value, index, error)
    if kind is kinds.ARRAY:
        return value[index]
    if kind is kinds.DISTRIBUTION:
        from typedbatch._core.distributions import get_sliced_dist

        return get_sliced_dist(value, index)
    if kind is kinds.NONE:
        return None
    if kind is kinds.RAGGED:
        from typedbatch._ops.ragged_rows import take_sequences

        return take_sequences(value, index)
    raise RowIndexError(f"a scalar ({describe(value)}) has no rows, so it cannot be indexed by {index!r}")


def take_of_tensor(tensor: Any, index: Any) -> Any:
    """Return ``tensor[index]``, also for slices that step backward, which torch refuses; for these it is a copy."""
    if type(index) is int:
        return tensor[index]
    forward, flips = forward_slices(index, tensor.shape)
    if type(forward) is slice or type(forward) is tuple:
        forward = _short_steps(forward, tensor.shape)
    return tensor[forward].flip(flips) if flips else tensor[forward]


def _short_steps(index: Any, shape: Sequence[int]) -> Any:
    """Return an index with steps of at most the size of a dimension, as torch multiplies strides and may overflow."""
    parts = list(index) if type(index) is tuple else [index]
    for at, (part, size) in enumerate(zip(parts, shape, strict=False)):
        if type(part) is slice and part.step is not None and part.step > max(size, 1):
            parts[at] = slice(part.start, part.stop, max(size, 1))
        elif type(part) is not slice and type(part) is not int:  # Another part may take no dimension, or several.
            break
    return tuple(parts) if type(index) is tuple else parts[0]


def forward_slices(index: Any, shape: Sequence[int]) -> tuple[Any, list[int]]:
    """Return an index without backward slices, and the dimensions of its result to flip for the same rows."""
    parts = index if isinstance(index, tuple) else (index,)
    are_backward = [isinstance(part, slice) and part.step is not None and part.step < 0 for part in parts]
    if True not in are_backward:
        return index, []
    if any(isinstance(part, ndarray) for part in parts):
        raise IndexError("a slice that steps backward cannot stand beside an array for tensors")
    skipped = len(shape) - sum(part is not None and part is not Ellipsis for part in parts)
    forward, flips, axis, out_axis = [], [], 0, 0  # Dimensions of the tensor and of the result, up to this part.
    for part, is_backward in zip(parts, are_backward, strict=True):
        if is_backward:
            flips.append(out_axis)
            rows = range(*part.indices(shape[axis]))[::-1]
            part = slice(rows.start, rows.stop, rows.step)
        forward.append(part)
        axis += skipped if part is Ellipsis else part is not None
        out_axis += skipped if part is Ellipsis else part is None or isinstance(part, slice)
    return tuple(forward), flips


def take_rows(tree: T, rows: NDArray[Any], mask_size: int | None) -> T:
    """Return ``tree[rows]`` for row numbers; if they come from a mask, ``mask_size`` is the length of that mask."""
    # ``take`` along the rows is faster than ``array[rows]``.
    cls = type(tree)
    if cls._row_guard is not None:  # The name is private because a public one could be a field.
        cls._row_guard(tree)
    out = new(cls)
    fields = out.__dict__
    given = tree.__dict__
    if type(given) is not dict:
        fields = keep_meta(tree, out)
    name = ""
    try:
        for name, value in given.items():
            if type(value) is ndarray and value.shape and (mask_size is None or mask_size == len(value)):
                fields[name] = value.take(rows, 0)
            elif isinstance(value, Tree):
                fields[name] = take_rows(value, rows, mask_size)
            else:
                fields[name] = _take_rows_of_leaf(value, rows, mask_size)
    except TypedBatchError as error:
        raise error.under(name) from error.__cause__
    except (IndexError, TypeError, ValueError) as error:
        raise _cannot_index(tree.__dict__[name], rows, error).under(name) from error
    return out


def _take_rows_of_leaf(value: Any, rows: NDArray[Any], mask_size: int | None) -> Any:
    kind = KINDS[type(value)]
    if mask_size is not None and leading_shape(value)[:1] not in ((), (mask_size,)):
        raise RowIndexError(f"{leading_shape(value)[0]} rows, but the mask has {mask_size}")
    if kind is kinds.TENSOR:
        try:
            # For large tensors index_select is faster, but it refuses negative numbers.
            torch = sys.modules["torch"]
            index = torch.from_numpy(rows.copy())  # torch refuses memory that is read-only or has negative strides.
            if value.is_nested or value.numel() < _LARGE or not value.is_cpu or rows.min(initial=0) < 0:
                return value[index]
            return value.index_select(0, index) if value.ndim and value.layout is torch.strided else value[index]
        except RuntimeError as error:
            from typedbatch._ops.ragged_rows import take_jagged

            return take_jagged(value, rows, error)
    return take_of_leaf(value, rows)


def _cannot_index(value: Any, index: Any, error: Exception) -> RowIndexError:
    shown = describe(index) if kind_of(index) in (kinds.ARRAY, kinds.TENSOR) else repr(index)
    return RowIndexError(f"{describe(value)} cannot be indexed by {shown}: {error}")
