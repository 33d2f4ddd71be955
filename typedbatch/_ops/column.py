"""Assignment to a single field, as a whole or in some of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._declaration import object_fields
from typedbatch._ops.assignment import region_of, write_rows
from typedbatch._ops.casting import fitted
from typedbatch._ops.combine import require_names
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.fast_assign import set_directly
from typedbatch._ops.indexing import plain_index
from typedbatch._tree.kinds import (
    ARRAY,
    BATCH,
    SEQUENCE,
    TENSOR,
    Tree,
    blank,
    describe,
    is_masked,
    is_objects,
    is_placeholder,
    kind_of,
    leading_shape,
    object_array,
)
from typedbatch._tree.lengths import count_rows
from typedbatch.errors import RowAssignmentError, StructureError, under


def set_column(tree: Tree, values: Any, key: str, index: Any, default: float | None) -> None:
    """Set a field, or its rows at ``index``; see :meth:`typedbatch.Batch.set_array_at_key`."""
    known = tree.__dict__.get(key)
    is_column = kind_of(values) is SEQUENCE and (is_objects(known) or key in object_fields[type(tree)])
    values = object_array(values) if is_column else to_leaf(values)
    if set_directly(known, index, values):
        return
    require_names({key: values})
    if not leading_shape(values):
        raise StructureError(f"one value for each row is expected, got {describe(values)}", key)
    if kind_of(known) is BATCH and not is_placeholder(known):
        raise StructureError(f"{describe(known)} is a batch; set the fields in it, or delete it first", key)
    if index is None:
        whole = count_rows(tree.__dict__)
        if whole is not None and whole != len(values):
            raise StructureError(f"got {len(values)} values for {whole} rows", key)
        tree.__dict__[key] = values
        return
    if kind_of(values) not in (ARRAY, TENSOR):
        raise StructureError(f"{describe(values)} can only be set as a whole; leave out index=", key)
    index = plain_index(index)
    column: Any = known
    if key not in tree.__dict__ or is_placeholder(known):
        rows = count_rows(tree.__dict__) or 0
        column = blank(values, (rows, *values.shape[1:]))
        with under(key):
            fill(column, default)
            if default is None:
                require_all(values, rows, index)
    if kind_of(column) in (ARRAY, TENSOR):
        with under(key):
            region = region_of(column, index)
        wanted = region[0] if region else 1
        if wanted != len(values):
            raise StructureError(f"got {len(values)} values for {wanted} rows", key)
    write_rows({key: column}, index, {key: values}, strict=True)
    tree.__dict__[key] = column


_NOTHING: Any = object()


def fill(column: Any, default: Any) -> None:
    """Fill a new column with the default, or for None with the null of its dtype, if it has one.

    Raises:
        RowAssignmentError: The default does not fit the dtype.
    """
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

    Raises:
        RowAssignmentError: Some rows get no value, and the dtype has no null to show that.
        RowIndexError: The column cannot be indexed so.
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
    if kind_of(leaf) is TENSOR:
        return float("nan") if leaf.is_floating_point() or leaf.is_complex() else _NOTHING
    if is_masked(leaf):
        return np.ma.masked
    kind = leaf.dtype.kind
    if kind in "fc":
        return np.nan
    if kind in "mM":
        return np.array("NaT", leaf.dtype)
    return None if kind == "O" else getattr(leaf.dtype, "na_object", _NOTHING)
