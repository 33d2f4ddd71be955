"""Arrow tables, and Parquet files of them. Needs the extra ``arrow``."""

from __future__ import annotations

import os
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from typedbatch.batch import Batch
from typedbatch.conversion import leaf_to_numpy
from typedbatch.errors import LeafError, StorageError, StructureError, TypedBatchError
from typedbatch.files.atomic import replacing
from typedbatch.leaves import ARRAY, BATCH, KINDS, NONE, TENSOR, Tree, describe, new_tree, object_array
from typedbatch.rows import equal_rows, require_tree

_REFUSED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError, TypeError, OverflowError)


def to_arrow(batch: Any) -> pa.Table:
    """A batch as a table, one column per field, on the memory of its arrays.

    Arrays of more than one dimension become Arrow's fixed-shape tensors, nested batches structs, text and numbers in
    object arrays what Arrow finds them to be. Flags, which Arrow keeps as bits, objects, and arrays that are not in one
    piece are copied, nothing else. Reserved fields are left out.

    Raises:
        LeafError: a leaf that Arrow has no type for, as complex numbers, distributions, or objects of several kinds;
            the error names it.
        StructureError: fields of different lengths.
        NoLengthError: a field is a scalar.
    """
    tree = require_tree(batch, "to_arrow()")
    rows = equal_rows(tree.__dict__)
    table: pa.Table = pa.table(_columns(tree, rows))
    return table


def from_arrow(table: pa.Table) -> Batch:
    """A table as a batch, one field per column, on the memory of the table, which is read-only.

    Structs become nested batches, tensors and lists of a fixed size arrays, text and other things object arrays.
    Columns in several chunks, flags and object arrays are copied. Where a value is null, it is NaN among floats,
    ``None`` in an object array otherwise.

    Raises:
        LeafError: ``table`` is something else.
        StructureError: a struct is null in some rows, or a column's type is unknown.
    """
    if not isinstance(table, pa.Table):
        raise LeafError(f"from_arrow() takes a Table of Arrow, got {describe(table)}")
    fields: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in fields:
            raise StructureError("there are several columns of that name", name)
        try:
            fields[name] = _leaf(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except _REFUSED as error:
            raise StructureError(f"{column.type} is no field of a batch: {error}", name) from error
    batch: Batch = new_tree(Batch, fields)
    return batch


def write_parquet(batch: Any, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a batch as a Parquet file, which is there whole or not at all.

    Args:
        batch: what to write; see :func:`to_arrow`.
        path: the file.
        **options: of ``pyarrow.parquet.write_table``, as ``compression="zstd"``.

    Raises:
        StorageError: the file cannot be written.
        LeafError: a leaf that Arrow has no type for.
    """
    table = to_arrow(batch)
    with replacing(path) as unfinished:
        pq.write_table(table, unfinished, **options)


def read_parquet(path: str | os.PathLike[str], columns: list[str] | None = None) -> Batch:
    """Read a Parquet file as a batch; see :func:`from_arrow`.

    Args:
        path: the file.
        columns: the columns to read; None for all.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        table = pq.read_table(path, columns=columns, partitioning=None)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    return from_arrow(table)


def _columns(tree: Tree, rows: int) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        try:
            column = _column(value, rows)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except _REFUSED as error:
            raise LeafError(f"{describe(value)} is no column for Arrow: {error}", name) from error
        if column is not None:
            columns[name] = column
    return columns


def _column(value: Any, rows: int) -> Any:
    kind = KINDS[type(value)]
    if kind is BATCH:
        inner = _columns(value, rows)
        return pa.StructArray.from_arrays(list(inner.values()), list(inner)) if inner else None
    if kind is NONE:
        return pa.nulls(rows)
    if kind not in (ARRAY, TENSOR):
        raise LeafError(f"{describe(value)} is no column for Arrow")
    array = leaf_to_numpy(value)
    if array.dtype.kind == "c":
        raise LeafError(f"{describe(value)}: Arrow has no complex numbers; make it two columns, real and imag")
    if array.dtype.hasobject and array.ndim == 1:
        return pa.array(array.tolist())
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    if array.ndim == 1:
        return pa.array(array)
    if not prod(array.shape[1:]) or array.dtype.hasobject:
        raise LeafError(f"{describe(value)}: Arrow's tensors have numbers in every row")
    flat = pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), prod(array.shape[1:]))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type.value_type, array.shape[1:]), flat)


def _leaf(column: Any) -> Any:
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        return _tensor(column.storage, tuple(kind.shape), kind.permutation)
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf(column.storage)
    if pa.types.is_fixed_size_list(kind) and not column.null_count and pa.types.is_primitive(kind.value_type):
        return _tensor(column, (kind.list_size,), None)
    if pa.types.is_struct(kind):
        if column.null_count:
            raise StructureError("a struct that is null in some rows; fill_null() it first")
        return new_tree(Batch, {kind.field(i).name: _leaf(part) for i, part in enumerate(column.flatten())})
    if pa.types.is_dictionary(kind):
        return _leaf(column.dictionary_decode())
    if pa.types.is_null(kind):
        return None
    if pa.types.is_primitive(kind) and (not column.null_count or pa.types.is_floating(kind)):
        return column.to_numpy(zero_copy_only=False)
    return object_array(column.to_pylist())


def _tensor(storage: Any, shape: tuple[int, ...], permutation: Any) -> Any:
    if storage.null_count:
        raise StructureError("a tensor that is null in some rows; fill_null() it first")
    flat = _leaf(storage.flatten())
    array = flat.reshape(len(storage), *shape)
    return array if permutation is None else array.transpose(0, *(i + 1 for i in permutation))
