"""Arrow tables, and Parquet files of them. Needs the extra ``arrow``."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._tree.depth import require_depth
from typedbatch._tree.leaves import ARRAY, BATCH, KINDS, NONE, RAGGED, TENSOR, Tree, describe, new_tree, object_array
from typedbatch._tree.meta import as_meta, meta_of, set_meta
from typedbatch._tree.rows import equal_rows, require_bounded
from typedbatch.batch import Batch
from typedbatch.errors import (
    LeafError,
    MissingFieldError,
    SettingError,
    StorageError,
    StructureError,
    TypedBatchError,
    under,
)
from typedbatch.files.atomic import replacing
from typedbatch.files.jsonable import plain
from typedbatch.ragged import Ragged

_META: Final = b"typedbatch.meta"
"""The key of the metadata of a table under which the meta of a batch is, as JSON."""
_REFUSED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError, TypeError, OverflowError)


def to_arrow(batch: Any, *, lists: bool = False) -> pa.Table:
    """A batch as a table, one column per field, on the memory of its arrays.

    Arrays of more than one dimension become Arrow's fixed-shape tensors, nested batches structs, a ``Ragged`` a column
    of lists: of numbers where it has one field that is called like itself, else of structs. Text and numbers in object
    arrays become what Arrow finds them to be, masked values nulls. Flags, which Arrow keeps as bits, objects, and
    arrays that are not in one piece are copied, nothing else. Reserved fields are left out. Meta is kept as JSON in the
    metadata of the table, which Hugging Face's ``datasets`` does not keep.

    Args:
        batch: any batch.
        lists: arrays of more than one dimension become lists of a fixed size, for programs that know no tensors of
            Arrow: ``datasets.Dataset(to_arrow(batch, lists=True))``.

    Raises:
        LeafError: a leaf that Arrow has no type for or would change, as complex numbers, distributions, or objects of
            several kinds, or a name that is not Unicode; the error names it.
        StructureError: fields of different lengths, or batches that are nested more than 100 deep.
        NoLengthError: a field is a scalar.
        StorageError: a value of the meta that JSON cannot hold.
    """
    tree = require_bounded(batch, "to_arrow()")
    rows = equal_rows(tree.__dict__)
    columns = _columns(tree, rows, lists)
    table: pa.Table = pa.table(list(columns.values()), names=list(columns))
    meta = {}
    for key, value in meta_of(tree).items():
        with under(f"meta.{key}"):
            meta[key] = plain(value)
    return table.replace_schema_metadata({_META: json.dumps(meta)}) if meta else table


def from_arrow(table: pa.Table, *, ragged: Sequence[str] = ()) -> Batch:
    """A table as a batch, one field per column, on the memory of the table, which is read-only.

    Structs become nested batches, tensors and lists of a fixed size arrays, text and other things object arrays; so do
    lists, whatever their lengths.
    Columns in several chunks, flags and object arrays are copied. Where a value is null, it is NaN among floats, NaT
    among times, ``None`` in an object array otherwise.

    Args:
        table: what to read.
        ragged: columns of lists that become a ``Ragged``, on the memory of the table: lists of structs one of their
            fields, others one of a single field, which is called as the column is.

    Raises:
        LeafError: ``table`` is something else, or a column in ``ragged`` not one of lists.
        MissingFieldError: a column in ``ragged`` that there is not.
        StructureError: a struct is null in some rows, a column's type is unknown, two columns have one name, or a name
            is not Unicode, or structs are nested more than 100 deep.
    """
    if not isinstance(table, pa.Table):
        raise LeafError(f"from_arrow() takes a Table of Arrow, got {describe(table)}")
    require_depth(table.schema, _parts)
    names = _names(table.schema)
    if missing := [name for name in ragged if name not in names]:
        raise MissingFieldError("the table", missing[0], names)
    batch = _batch(
        names, [one.chunk(0) if one.num_chunks == 1 else one.combine_chunks() for one in table.columns], ragged
    )
    if meta := (table.schema.metadata or {}).get(_META):
        set_meta(batch, _meta(meta))
    return batch


def _meta(text: bytes) -> dict[str, Any]:
    try:
        return as_meta(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise StructureError(f"the meta of the table is damaged: {error}") from error


def write_parquet(batch: Any, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a batch as a Parquet file, which is there whole or not at all.

    Args:
        batch: what to write; see :func:`to_arrow`.
        path: the file.
        **options: of ``pyarrow.parquet.write_table``, as ``compression="zstd"``.

    Raises:
        StorageError: the file cannot be written.
        LeafError: a leaf that Arrow has no type for.
        SettingError: an option that Parquet refuses.
    """
    table = to_arrow(batch)
    with replacing(path) as unfinished:
        try:
            pq.write_table(table, unfinished.name, **options)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise SettingError(f"Parquet refuses {options}: {error}" if options else f"Parquet: {error}") from error


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


def _columns(tree: Tree, rows: int, lists: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        try:
            name.encode()
            column = _lists(name, value, lists) if KINDS[type(value)] is RAGGED else _column(value, rows, lists)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except _REFUSED as error:
            raise LeafError(f"{describe(value)} is not a column for Arrow: {error}", name) from error
        if column is not None:
            columns[name] = column
    return columns


def _column(value: Any, rows: int, lists: bool) -> Any:
    kind = KINDS[type(value)]
    if kind is BATCH:
        inner = _columns(value, rows, lists)
        return pa.StructArray.from_arrays(list(inner.values()), list(inner)) if inner else None
    if kind is NONE:
        return pa.nulls(rows)
    if kind not in (ARRAY, TENSOR):
        raise LeafError(f"{describe(value)} is not a column for Arrow")
    array = leaf_to_numpy(value)
    if array.dtype.kind in "mM":
        array = _times(array)
    if isinstance(array, np.ma.MaskedArray):
        return _masked(array)
    if array.dtype.kind == "c":
        raise LeafError(f"{describe(value)}: Arrow has no complex numbers; make it two columns, real and imag")
    if array.dtype == object and array.ndim == 1:
        return _objects(array.tolist())
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    if array.ndim == 1:
        return pa.array(array)
    if not prod(array.shape[1:]) or array.dtype.hasobject:
        raise LeafError(f"{describe(value)}: Arrow's tensors have numbers in every row")
    numbers = pa.array(array.reshape(-1))
    if lists:
        for size in reversed(array.shape[1:]):
            numbers = pa.FixedSizeListArray.from_arrays(numbers, size)
        return numbers
    flat = pa.FixedSizeListArray.from_arrays(numbers, prod(array.shape[1:]))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type.value_type, array.shape[1:]), flat)


def _lists(name: str, ragged: Any, lists: bool) -> Any:
    """The sequences as lists: of numbers where there is one field, called like the column, else of structs."""
    inner = _columns(ragged.values, int(ragged.sizes.sum()), lists)
    rows = inner[name] if [*inner] == [name] else pa.StructArray.from_arrays(list(inner.values()), list(inner))
    if len(rows) < 2**31:
        return pa.ListArray.from_arrays(pa.array(ragged.offsets, pa.int32()), rows)
    return pa.LargeListArray.from_arrays(pa.array(ragged.offsets, pa.int64()), rows)


def _masked(array: np.ma.MaskedArray[Any, Any]) -> Any:
    if array.ndim != 1:
        raise LeafError(f"{describe(array)}: Arrow's tensors have no masks; keep it as a field")
    data = array.data.astype(array.dtype.newbyteorder("="), copy=False)
    return pa.array(data, mask=np.ma.getmaskarray(array))


def _times(array: Any) -> Any:
    """Dates in steps of Arrow's: it would take one of 25 s for one of 1 s, and days beyond 32 bits for others."""
    unit, steps = np.datetime_data(array.dtype)
    if steps != 1:
        array = array.astype(f"{array.dtype.kind}8[{unit}]")
    if unit == "D" and np.any(~np.isnat(array) & (np.abs(array.view(np.int64)) >= 2**31)):
        raise LeafError(f"{describe(array)}: Arrow's days end at 2**31")
    return array


def _objects(values: list[Any]) -> Any:
    # where there is nothing to find a type by, text: a null column would come back as None
    column = pa.array(values, pa.string() if all(one is None for one in values) else None)
    if pa.types.is_struct(column.type) and column.null_count:
        raise LeafError("dicts beside None: a struct of Arrow becomes a nested batch, which has no rows without values")
    for value, kept in zip(values, column.to_pylist(), strict=True):
        if not _is_kept(value, kept):
            raise LeafError(f"objects of several kinds: Arrow would make {kept!r:.40} of {value!r:.40}")
    return column


def _is_kept(value: Any, kept: Any) -> bool:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (tuple, set)):
        value = [*value]
    return bool(value == kept or (value != value and kept != kept))  # NaN


def _parts(kind: Any) -> Mapping[str, Any] | None:
    """The types of the columns of a table, and of the fields of a struct."""
    if not isinstance(kind, pa.Schema) and not pa.types.is_struct(kind):
        return None
    try:
        return {field.name: field.type for field in kind}
    except UnicodeDecodeError:  # which is said later
        return {}


def _names(schema: Any) -> list[str]:
    try:
        names: list[str] = [field.name for field in schema]
    except UnicodeDecodeError as error:
        raise StructureError(f"the name of a column is not Unicode: {error}") from error
    for name, times in Counter(names).items():
        if times > 1:
            raise StructureError("there are several columns of that name", name)
    return names


def _batch(names: list[str], columns: list[Any], ragged: Sequence[str] = ()) -> Batch:
    """The fields of a table or struct."""
    fields: dict[str, Any] = {}
    for name, column in zip(names, columns, strict=True):
        try:
            fields[name] = _ragged(name, column) if name in ragged else _leaf(column)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except _REFUSED as error:
            raise StructureError(f"{column.type} is not a field of a batch: {error}", name) from error
    batch: Batch = new_tree(Batch, fields)
    return batch


def _leaf(column: Any) -> Any:
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        return _tensor(column.storage, tuple(kind.shape), kind.permutation)
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf(column.storage)
    if pa.types.is_fixed_size_list(kind) and _is_tensor(column):
        return _tensor(column, (kind.list_size,), None)
    if pa.types.is_struct(kind):
        if column.null_count:
            raise StructureError("a struct that is null in some rows; fill_null() it first")
        return _batch(_names(kind), column.flatten())
    if pa.types.is_dictionary(kind):
        return _leaf(column.dictionary_decode())
    if pa.types.is_null(kind):
        return None
    # numpy has NaN and NaT for what is not there
    has_null = pa.types.is_floating(kind) or (pa.types.is_temporal(kind) and not pa.types.is_time(kind))
    if pa.types.is_primitive(kind) and (not column.null_count or has_null):
        return column.to_numpy(zero_copy_only=False)
    return object_array(column.to_pylist())


def _ragged(name: str, column: Any) -> Ragged[Batch]:
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise LeafError(f"a Ragged is made of lists of different lengths, and the column is {kind}")
    if column.null_count:
        raise StructureError("a list that is null in some rows; fill_null([]) it first")
    rows = column.flatten()
    return Ragged(
        _batch(_names(rows.type), rows.flatten()) if pa.types.is_struct(rows.type) else Batch({name: _leaf(rows)}),
        column.value_lengths().to_numpy(zero_copy_only=False),
    )


def _is_tensor(column: Any) -> bool:
    """True for numbers in lists of a fixed size, or such lists in them, none of which is null."""
    while pa.types.is_fixed_size_list(column.type) and not column.null_count:
        column = column.flatten()
    return bool(pa.types.is_primitive(column.type))


def _tensor(storage: Any, shape: tuple[int, ...], permutation: Any) -> Any:
    if storage.null_count:
        raise StructureError("a tensor that is null in some rows; fill_null() it first")
    flat = _leaf(storage.flatten())
    array = flat.reshape(len(storage), *shape, *flat.shape[1:])
    return array if permutation is None else array.transpose(0, *(i + 1 for i in permutation))
