"""Assignment of rows, ``batch[index] = rows``, and of columns, checked as a whole before the first write."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, Final

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core import kinds
from typedbatch._core.declaration import object_fields
from typedbatch._core.kinds import Tree, describe, is_objects, is_placeholder, kind_of, new_tree, object_array
from typedbatch._core.lengths import count_rows
from typedbatch._ops.casting import fitted, require_no_mask
from typedbatch._ops.combine import require_names, stack_fields
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.indexing import forward_slices, plain_index, take_of_tensor
from typedbatch._ops.writer import AS_MADE, INDICES, Fields, Write, leading, once_each, plain_arrays, plain_pairs, zero
from typedbatch.errors import RowAssignmentError, RowIndexError, StructureError, TypedBatchError, under

_ABSENT: Any = object()
_KINDS: Final = {bool: "b", int: "iu", float: "f"}
_NOTHING: Any = object()


def set_rows(tree: Tree, index: Any, value: object, strict: bool) -> None:
    """Write rows into ``tree`` at ``index``; see :meth:`typedbatch.Batch.set_rows`."""
    rows = value if isinstance(value, Tree) else _as_rows(value, tree)
    if type(index) not in INDICES:
        index = plain_index(index)
    plain = plain_pairs(tree.__dict__, index, rows.__dict__)
    if plain is None:
        write_rows(tree.__dict__, plain_index(index), rows.__dict__, strict)
        return
    for target, new in plain:
        target[index] = new


def _as_rows(value: Any, tree: Tree) -> Tree:
    rows: Any
    if kind_of(value) is kinds.MAPPING:
        rows = _from_dict(value, tree)
    elif kind_of(value) is kinds.SEQUENCE and value and set(map(kind_of, value)) <= {kinds.MAPPING, kinds.BATCH}:
        rows = new_tree(Tree.__plain__, stack_fields(value, 0, "pad", to_leaf, tree))
    else:
        rows = to_leaf(value)
    if not isinstance(rows, Tree):
        hint = "; Batch.from_rows() makes a Batch of a column of dicts" if is_objects(rows) else ""
        raise RowAssignmentError(
            f"rows are assigned from a dict, a Batch or a list of these, got {describe(rows)}{hint}"
        )
    return rows


def write_rows(fields: Fields, index: Any, rows: Fields, strict: bool) -> None:
    """Write rows of any kind as :func:`set_rows` does, at an index from :func:`plain_index`."""
    writes: list[Write] = []
    _plan(writes, fields, index, rows, strict, "")
    for _, target, value, where in once_each(writes):
        target[where] = value


def clear_rows(tree: Tree, index: Any) -> None:
    """Set the rows at ``index`` to zeros, ``None`` in object arrays."""
    index = plain_index(index)
    plain = (plain_arrays(tree.__dict__) or []) if type(index) in INDICES else []
    try:
        for rows in set(map(len, plain)):
            leading(index, rows)
    except (IndexError, TypeError, ValueError):  # The index is for other numbers of rows, or a field is a scalar.
        plain = []
    if not plain:
        write_rows(tree.__dict__, index, {}, strict=False)
    for target in plain:
        target[index] = zero(target.dtype)


def region_of(leaf: Any, index: Any) -> tuple[int, ...]:
    """Return the shape of ``leaf[index]``."""
    shape = tuple(leaf.shape)
    if shape and not isinstance(index, tuple):
        with suppress(IndexError, TypeError, ValueError, OverflowError):
            return leading(index, shape[0]) + shape[1:]
    try:  # Index a stand-in of the same shape, in which one byte stands for all elements.
        if kind_of(leaf) is kinds.TENSOR:
            torch = sys.modules["torch"]
            return tuple(take_of_tensor(torch.zeros((), dtype=torch.bool).expand(shape), index).shape)
        return tuple(np.shape(np.broadcast_to(np.False_, shape)[index]))
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        raise RowIndexError(f"{describe(leaf)} cannot be assigned at {index!r}: {error}") from error


def _plan(writes: list[Write], fields: Fields, index: Any, rows: Fields, strict: bool, prefix: str) -> None:
    """Append the writes to do to ``writes``, after checking that each of them will succeed."""
    if rows.keys() != fields.keys():
        if unknown := [name for name in rows if name not in fields]:
            names = ", ".join(map(repr, unknown))
            raise RowAssignmentError(f"the rows have {names}, which the batch lacks; set whole fields first")
        absent = [name for name in fields if name not in rows]
        if strict and absent:
            names = ", ".join(map(repr, absent))
            raise RowAssignmentError(f"the rows lack {names}; strict=False sets those to zeros")
        rows = {**rows, **dict.fromkeys(absent, _ABSENT)}
    for name, target in fields.items():
        try:
            _plan_field(writes, target, index, rows[name], strict, prefix + name)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__


def _plan_field(writes: list[Write], target: Any, index: Any, value: Any, strict: bool, path: str) -> None:
    absent = value is _ABSENT or is_placeholder(value)
    kind = kind_of(target)
    if kind is kinds.BATCH:
        if not absent and kind_of(value) is not kinds.BATCH:
            raise RowAssignmentError(f"{describe(target)} takes rows from a dict or a Batch, got {describe(value)}")
        rows = {} if absent else value.__dict__
        _plan(writes, target.__dict__, index, rows, strict and not absent, f"{path}.")
        return
    if kind is kinds.NONE and (absent or value is None):
        return
    if kind is kinds.RAGGED:
        raise RowAssignmentError(
            f"the rows of {describe(target)} are sequences end to end, and cannot be replaced in place; "
            "write into the arrays of .values, or make another Ragged and set the whole field"
        )
    if kind not in (kinds.ARRAY, kinds.TENSOR):
        raise RowAssignmentError(f"{describe(target)} has no rows to assign to")
    if obstacle := kinds.write_obstacle(target):
        raise RowAssignmentError(obstacle)
    where, region = index, region_of(target, index)
    if kind is kinds.TENSOR:
        value = _fitting(fitted(target, 0 if absent else value), region)
        if type(index) is not int:  # Torch refuses slices that step backward.
            where, flips = forward_slices(index, target.shape)
            value = value.expand(region).flip(flips) if flips else value
    else:
        value = _array_rows(target, region, zero(target.dtype) if absent else value)
    writes.append(Write(path, target, value, where))


def _array_rows(target: NDArray[Any], region: tuple[int, ...], value: Any) -> Any:
    if target.dtype != object:
        return _fitting(fitted(target, value), region)
    if kind_of(value) is kinds.BATCH:
        raise RowAssignmentError(f"{describe(target)} cannot hold {describe(value)}")
    if not region:  # a single cell takes any object as it is, and numbers out of their 0-d array
        return value[()] if kind_of(value) is kinds.ARRAY and not value.ndim else value
    if kind_of(value) is kinds.SEQUENCE:
        value = object_array(value) if len(region) == 1 else to_leaf(value)
    if kind_of(value) is kinds.ARRAY:
        if not kinds.is_masked(target):
            require_no_mask(value)
        return _fitting(value, region)
    cell: NDArray[Any] = np.empty((), object)
    cell[()] = value  # so that numpy does not look inside
    return cell


def _fitting(rows: Any, region: tuple[int, ...]) -> Any:
    """Return the rows without leading dimensions of size 1 that ``region``, the shape to be written, lacks."""
    shape = tuple(rows.shape)
    if shape == region:
        return rows
    while len(shape) > len(region) and shape[0] == 1:
        shape = shape[1:]
    try:
        fits = np.broadcast_shapes(shape, region) == region
    except ValueError:
        fits = False
    if not fits:
        raise RowAssignmentError(f"rows of shape {list(region)} can be assigned here, got shape {list(shape)}")
    return rows.reshape(shape) if len(shape) < rows.ndim else rows


def _from_dict(given: Any, tree: Tree) -> Tree:
    """Return ``Batch(given)``, but with values for object arrays left unconverted: ``True`` or a dict stays so."""
    require_names(given)
    rows: Tree = new_tree(Tree.__plain__, {})
    for name, value in given.items():
        target: Any = tree.__dict__.get(name)
        kind = kind_of(value)
        try:
            if kind is kinds.NUMBER and type(target) is ndarray:
                rows.__dict__[name] = value if is_objects(target) else _as_scalar(value, target.dtype)
            elif kind is kinds.MAPPING and kind_of(target) is kinds.BATCH and not is_placeholder(target):
                rows.__dict__[name] = _from_dict(value, target)
            elif is_objects(target):
                rows.__dict__[name] = value
            else:
                rows.__dict__[name] = to_leaf(value)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
    return rows


def _as_scalar(number: Any, dtype: np.dtype[Any]) -> Any:
    """Return a Python number as a scalar of ``dtype`` if it certainly fits, else as a 0-d array of numpy's choice."""
    if dtype.kind not in _KINDS.get(type(number), ""):
        return to_leaf(number)
    wide = dtype.itemsize >= 8 and dtype.kind != "u"
    if wide or (abs(number) < 128 and (number >= 0 or dtype.kind != "u")):
        try:
            return dtype.type(number)
        except OverflowError:  # The number is a Python int of more than 64 bits.
            pass
    return to_leaf(number)


def set_column(tree: Tree, values: Any, key: str, index: Any, default: float | None) -> None:
    """Set a field, or its rows at ``index``; see :meth:`typedbatch.Batch.set_array_at_key`."""
    known = tree.__dict__.get(key)
    is_column = kind_of(values) is kinds.SEQUENCE and (is_objects(known) or key in object_fields[type(tree)])
    values = object_array(values) if is_column else to_leaf(values)
    if set_directly(known, index, values):
        return
    require_names({key: values})
    if not kinds.leading_shape(values):
        raise StructureError(f"one value for each row is expected, got {describe(values)}", key)
    if kind_of(known) is kinds.BATCH and not is_placeholder(known):
        raise StructureError(f"{describe(known)} is a batch; set the fields in it, or delete it first", key)
    if index is None:
        whole = count_rows(tree.__dict__)
        if whole is not None and whole != len(values):
            raise StructureError(f"got {len(values)} values for {whole} rows", key)
        tree.__dict__[key] = values
        return
    if kind_of(values) not in (kinds.ARRAY, kinds.TENSOR):
        raise StructureError(f"{describe(values)} can only be set as a whole; leave out index=", key)
    index = plain_index(index)
    column: Any = known
    if key not in tree.__dict__ or is_placeholder(known):
        rows = count_rows(tree.__dict__) or 0
        column = kinds.blank(values, (rows, *values.shape[1:]))
        with under(key):
            fill(column, default)
            if default is None:
                require_all(values, rows, index)
    if kind_of(column) in (kinds.ARRAY, kinds.TENSOR):
        with under(key):
            region = region_of(column, index)
        wanted = region[0] if region else 1
        if wanted != len(values):
            raise StructureError(f"got {len(values)} values for {wanted} rows", key)
    write_rows({key: column}, index, {key: values}, strict=True)
    tree.__dict__[key] = column


def set_directly(column: Any, index: Any, values: Any) -> bool:
    """Do ``column[index] = values`` for row numbers, if nothing has to be converted; else return False."""
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


def fill(column: Any, default: Any) -> None:
    """Fill a new column with the default, or for None with the null of its dtype, if it has one."""
    if default is not None:
        column[...] = default if is_objects(column) else fitted(column, np.asarray(default))
    elif (null := _null_of(column)) is not _NOTHING:
        column[...] = null


def require_all(values: Any, rows: int, index: Any, counted: Any = ...) -> None:
    """Raise an error unless each row of a new column gets a value, or its dtype has a null.

    Args:
        values: Values that are written into the column.
        rows: Number of rows of the column.
        index: Rows that get ``values``.
        counted: Index of the rows that have to get a value; by default all.
    """
    if _null_of(values) is not _NOTHING:
        return
    written: NDArray[np.bool_] = np.zeros((rows, *values.shape[1:]), bool)
    region_of(written, index)
    written[index] = True
    complete: NDArray[np.bool_] = np.asarray(written.all(tuple(range(1, written.ndim))))
    complete = complete[counted]
    lacking = int((~complete).sum())
    if lacking:
        raise RowAssignmentError(
            f"{lacking} of {len(complete)} rows get no value, and {values.dtype} has no null; "
            "give default_value=, or values of a float dtype, which has NaN"
        )


def _null_of(leaf: Any) -> Any:
    if kind_of(leaf) is kinds.TENSOR:
        return float("nan") if leaf.is_floating_point() or leaf.is_complex() else _NOTHING
    if kinds.is_masked(leaf):
        return np.ma.masked
    kind = leaf.dtype.kind
    if kind in "fc":
        return np.nan
    if kind in "mM":
        return np.array("NaT", leaf.dtype)
    return None if kind == "O" else getattr(leaf.dtype, "na_object", _NOTHING)
