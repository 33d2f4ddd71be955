"""Row assignment: ``batch[index] = rows``, checked as a whole before the first write."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typedbatch.combine import check_names
from typedbatch.construct import to_leaf
from typedbatch.conversion import leaf_to_numpy, map_leaves, torch_side
from typedbatch.errors import RowAssignmentError, RowIndexError, StructureError, TypedBatchError
from typedbatch.indexing import forward_slices, plain_index, select_tensor
from typedbatch.leaves import (
    ARRAY,
    BATCH,
    MAPPING,
    NONE,
    NUMBER,
    SCALAR,
    TENSOR,
    Tree,
    blank,
    describe,
    is_objects,
    is_reserved,
    kind_of,
    leading_shape,
    new_tree,
    write_obstacle,
)
from typedbatch.memory import Change, Taken, duplicate, write_together
from typedbatch.rows import count_rows, leaves

_ABSENT: Any = object()


class _Write(NamedTuple):
    """What is to be done to one leaf, which can take it."""

    path: str
    target: Any
    index: Any
    rows: Any

    def change(self) -> Change:
        result = duplicate(self.target)
        result[self.index] = self.rows
        return Change(self.path, self.target, result)


def set_rows(tree: Tree, index: Any, rows: Tree, strict: bool) -> None:
    """Write ``rows`` into ``tree`` at ``index``; see :meth:`typedbatch.Batch.set_rows`."""
    taken = Taken(leaf for _, leaf in leaves(tree.__dict__, once=True))
    rows = map_leaves(rows, lambda leaf: duplicate(leaf) if taken.meets(leaf) else leaf)  # as in b[1:] = b[:-1]
    writes = list(_plan(tree, plain_index(index), rows, strict, ""))
    together = taken.shared([write.target for write in writes])
    write_together([writes[i].change() for i in sorted(together)])
    for i, write in enumerate(writes):
        if i not in together:
            write.target[write.index] = write.rows


def set_column(tree: Tree, values: Any, key: str, index: Any, default: float | None) -> None:
    """Set one field, or the rows of it at ``index``; see :meth:`typedbatch.Batch.set_array_at_key`."""
    check_names({key: values})
    if not leading_shape(values):
        raise StructureError(f"takes one value for each row, got {describe(values)}", key)
    rows = count_rows(tree.__dict__)
    known = _ABSENT if is_reserved(tree.__dict__.get(key)) else tree.__dict__.get(key, _ABSENT)
    if kind_of(known) is BATCH:
        raise StructureError(f"{describe(known)} is a batch; set the fields in it, or delete it first", key)
    if index is None:
        if rows is not None and rows != len(values):
            raise StructureError(f"got {len(values)} values for {rows} rows", key)
        tree.__dict__[key] = values
        return
    if kind_of(values) not in (ARRAY, TENSOR):
        raise StructureError(f"{describe(values)} can be set as a whole, without an index", key)
    column = blank(values, (rows or 0, *values.shape[1:])) if known is _ABSENT else known
    alone: Tree = new_tree(Tree.plain, {key: column})
    if known is _ABSENT and default is not None:
        set_rows(alone, ..., new_tree(Tree.plain, {key: np.asarray(default)}), strict=True)
    _require_a_value_per_row(column, index, values, key)
    set_rows(alone, index, new_tree(Tree.plain, {key: values}), strict=True)
    tree.__dict__[key] = column


def _require_a_value_per_row(column: Any, index: Any, values: Any, key: str) -> None:
    if kind_of(column) not in (ARRAY, TENSOR):
        return  # which has no rows, as setting them will say
    try:
        region = _region(column, np.broadcast_to(np.False_, tuple(column.shape)), plain_index(index))
    except RowIndexError as error:
        raise error.under(key) from error.__cause__
    places = region[0] if region else 1
    if places != len(values):
        raise StructureError(f"got {len(values)} values for {places} rows", key)


def clear_rows(tree: Tree, index: Any) -> None:
    """Set the rows at ``index`` to zeros, ``None`` in object arrays."""
    set_rows(tree, index, Tree.plain(), strict=False)


def _plan(tree: Tree, index: Any, rows: Tree, strict: bool, prefix: str) -> Iterator[_Write]:
    """The writes to do, each already known to succeed."""
    unknown = [name for name in rows.__dict__ if name not in tree.__dict__]
    if unknown:
        raise RowAssignmentError(f"the rows have {_quoted(unknown)}, which the batch lacks; set whole fields first")
    absent = [name for name in tree.__dict__ if name not in rows.__dict__]
    if strict and absent:
        raise RowAssignmentError(f"the rows lack {_quoted(absent)}; strict=False sets those to zeros")
    for name, target in tree.__dict__.items():
        try:
            yield from _plan_field(target, index, rows.__dict__.get(name, _ABSENT), strict, prefix + name)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__


def _plan_field(target: Any, index: Any, value: Any, strict: bool, path: str) -> Iterator[_Write]:
    absent = value is _ABSENT or is_reserved(value)
    kind = kind_of(target)
    if kind in (ARRAY, TENSOR) and write_obstacle(target):
        raise RowAssignmentError(write_obstacle(target))
    if kind is BATCH:
        if not absent and kind_of(value) is not BATCH:
            raise RowAssignmentError(f"{describe(target)} takes rows from a dict or a Batch, got {describe(value)}")
        yield from _plan(target, index, Tree.plain() if absent else value, strict and not absent, f"{path}.")
    elif kind is ARRAY:
        yield _Write(path, target, index, _array_rows(target, index, _zero(target) if absent else value))
    elif kind is TENSOR:
        yield _Write(path, target, *_tensor_rows(target, index, 0 if absent else value))
    elif not (kind is NONE and (absent or value is None)):
        raise RowAssignmentError(f"{describe(target)} has no rows to assign to")


def _zero(target: NDArray[Any]) -> Any:
    return None if target.dtype == object else np.zeros((), target.dtype)


def _array_rows(target: NDArray[Any], index: Any, value: Any) -> Any:
    region = _region(target, np.broadcast_to(np.False_, target.shape), index)
    if target.dtype != object:
        return _cast(_fitting(_as_rows(value, target), region), target.dtype)
    if kind_of(value) is BATCH:
        raise RowAssignmentError(f"{describe(target)} cannot hold {describe(value)}")
    if not region:  # a single cell takes any object as it is, and numbers out of their 0-d array
        return value[()] if kind_of(value) is ARRAY and not value.ndim else value
    if kind_of(value) is ARRAY:
        return _fitting(value, region)
    cell: NDArray[Any] = np.empty((), object)
    cell[()] = value  # so that numpy does not look inside
    return cell


def fitted(target: Any, value: Any) -> Any:
    """A leaf as an array or tensor is: of its kind, its dtype, on its device.

    Raises:
        RowAssignmentError: that would change values beyond rounding, or the value is no numeric leaf at all.
    """
    return _fitted_tensor(target, value) if kind_of(target) is TENSOR else _cast(_as_rows(value, target), target.dtype)


def _as_rows(value: Any, target: Any) -> NDArray[Any]:
    rows = np.asarray(leaf_to_numpy(value))
    if rows.dtype.kind not in "biufcmMV":
        raise RowAssignmentError(f"{describe(target)} cannot hold {describe(value)}")
    return rows


def _cast(rows: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """``rows`` as ``dtype``; refused when that would change a value beyond rounding, as 2.7 to 2."""
    if np.can_cast(rows.dtype, dtype, "safe"):
        return rows
    if rows.dtype.kind == "c" and dtype.kind != "c":
        if np.imag(rows).any():
            raise _lossy(rows.dtype, dtype)
        rows = np.real(rows)
    with np.errstate(all="ignore"):
        cast: NDArray[Any] = rows.astype(dtype)
    rounds = dtype.kind in "fc" and np.can_cast(rows.dtype, dtype, "same_kind")
    if not (np.array_equal(np.isfinite(cast), np.isfinite(rows)) if rounds else np.array_equal(cast, rows)):
        raise _lossy(rows.dtype, dtype)
    return cast


def _lossy(given: Any, dtype: Any) -> RowAssignmentError:
    return RowAssignmentError(f"{dtype} cannot hold these {given} values unchanged; convert the field first")


def _tensor_rows(target: Any, index: Any, value: Any) -> tuple[Any, Any]:
    """The index as torch takes it, and the rows for it."""
    rows = _fitted_tensor(target, value)
    probe = sys.modules["torch"].zeros((), dtype=sys.modules["torch"].bool).expand(target.shape)
    region = _region(target, probe, index)
    rows = _fitting(rows, region)
    forward, flips = forward_slices(index, target.shape)
    return forward, rows.expand(region).flip(flips) if flips else rows


def _fitted_tensor(target: Any, value: Any) -> Any:
    if kind_of(value) is not TENSOR:
        value = sys.modules["torch"].from_numpy(_cast(_as_rows(value, target), _numpy_dtype(target)).copy())
        if torch_side().in_numpy(target):
            return value.to(target.device, target.dtype)
    given = value.dtype
    if value.is_complex() and not target.is_complex():
        if value.imag.any():
            raise _lossy(given, target.dtype)
        value = value.real
    if value.layout is not target.layout or value.is_nested:
        raise RowAssignmentError(f"{describe(target)} cannot hold {describe(value)}; to_dense() first")
    if value.dtype != target.dtype and not _holds(target.dtype, value):
        raise _lossy(given, target.dtype)
    return value.to(target.device, target.dtype)


def _numpy_dtype(tensor: Any) -> np.dtype[Any]:
    """The dtype by which values for a tensor are judged; bfloat16 and float8, which numpy lacks, count as float32."""
    array: NDArray[Any] = leaf_to_numpy(tensor.new_zeros(()))
    return array.dtype


def _holds(dtype: Any, value: Any) -> bool:
    torch = sys.modules["torch"]
    if dtype.is_floating_point or dtype.is_complex:
        # within rounding, and not only finite: a float8 without infinities takes its largest number for all beyond
        given, kept = (torch.view_as_real(t.resolve_conj().to(torch.complex128)) for t in (value, value.to(dtype)))
        limits = torch.finfo(dtype)
        near = (kept - given).abs() <= limits.eps * given.abs() + limits.tiny
        return bool(((near & given.isfinite()) | (kept == given) | (kept.isnan() & given.isnan())).all())
    cast = value.to(dtype)
    return bool(torch.equal(cast.to(value.dtype), value)) and bool(((cast < 0) == (value < 0)).all())


def _region(target: Any, probe: Any, index: Any) -> tuple[int, ...]:
    """The shape of ``target[index]``, found on ``probe``: the same shape, but one byte stands for all elements."""
    try:
        return tuple(np.shape(select_tensor(probe, index) if kind_of(probe) is TENSOR else probe[index]))
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        raise RowIndexError(f"{describe(target)} cannot be assigned at {index!r}: {error}") from error


def _fitting(rows: Any, region: tuple[int, ...]) -> Any:
    """The rows without leading dimensions of size 1 beyond those of the place for them."""
    shape = tuple(rows.shape)
    while len(shape) > len(region) and shape[0] == 1:
        shape = shape[1:]
    try:
        fits = np.broadcast_shapes(shape, region) == region
    except ValueError:
        fits = False
    if not fits:
        raise RowAssignmentError(f"the rows have shape {list(shape)}, the place for them {list(region)}")
    return rows.reshape(shape) if len(shape) < rows.ndim else rows


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names))


def as_rows(value: object, tree: Tree) -> Tree:
    """What may stand on the right of ``tree[index] = ...``: a dict, a Batch, or a list of these."""
    if kind_of(value) is MAPPING:
        return _from_dict(value, tree)
    rows = to_leaf(value)
    if not isinstance(rows, Tree):
        raise RowAssignmentError(f"rows are assigned from a dict, a Batch or a list of these, got {describe(rows)}")
    return rows


def _from_dict(given: Any, tree: Tree) -> Tree:
    """As ``Batch(given)``, but what goes into a cell of an object array stays what it is: ``True``, a dict."""
    check_names(given)
    rows: Tree = new_tree(Tree.plain, {})
    for name, value in given.items():
        target: Any = tree.__dict__.get(name)
        kind = kind_of(value)
        try:
            if kind is MAPPING and kind_of(target) is BATCH and not is_reserved(target):
                rows.__dict__[name] = _from_dict(value, target)
            elif kind in (MAPPING, NUMBER, SCALAR) and is_objects(target):
                rows.__dict__[name] = value
            else:
                rows.__dict__[name] = to_leaf(value)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
    return rows
