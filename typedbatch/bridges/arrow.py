"""Conversion of Arrow tables, and reading and writing of Parquet files. Needs the extra ``arrow``."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import prod
from typing import Any, Final, TypeAlias, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import TypeForm

from typedbatch._core.depth import require_depth
from typedbatch._core.kinds import ARRAY, BATCH, KINDS, NONE, RAGGED, TENSOR, Tree, describe, new_tree, object_array
from typedbatch._core.lengths import equal_rows, require_bounded
from typedbatch._core.meta import as_meta, meta_of, set_meta
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._validation.convert import convert
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
from typedbatch.files.document import plain
from typedbatch.files.regular import atomic_write
from typedbatch.ragged import Ragged
from typedbatch.schema import schema_of
from typedbatch.schema.dims import Sort
from typedbatch.schema.fields import Field, Schema

T = TypeVar("T")
Meta: TypeAlias = Mapping[str, Any]
_META: Final = b"typedbatch.meta"
"""Key of a batch's meta, as JSON, in the metadata of a table."""
_REFUSED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError, TypeError, OverflowError)


def to_arrow(batch: Any, *, lists: bool = False) -> pa.Table:
    """Convert a batch to a table with one column per field, on the memory of its arrays.

    Arrays of more than one dimension become Arrow's fixed-shape tensors, and nested batches become structs. A
    ``Ragged`` becomes a column of lists: lists of numbers if its only field has the same name as the column, or else
    lists of structs. Arrow infers the type of text and numbers in object arrays. Masked values become nulls. Only
    booleans (which Arrow stores as bits), objects, and arrays that are not contiguous are copied. Reserved fields are
    left out. The meta is stored as JSON in the metadata of the table, which Hugging Face's ``datasets`` drops.

    Args:
        batch: Any batch.
        lists: Whether arrays of more than one dimension become lists of a fixed size, for programs that do not support
            Arrow's tensors: ``datasets.Dataset(to_arrow(batch, lists=True))``.

    Raises:
        LeafError: Arrow has no type for a leaf or would change it, such as complex numbers, distributions, or objects
            of several kinds, or a name is not Unicode; the error names it.
        StructureError: fields have different lengths, or batches are nested more than 100 deep.
        NoLengthError: a field is a scalar.
        StorageError: JSON cannot hold a value of the meta.
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


@overload
def from_arrow(
    table: pa.Table, into: None = None, *, ragged: Sequence[str] = (), meta: Meta | None = None
) -> Batch: ...
@overload
def from_arrow(table: pa.Table, into: TypeForm[T], *, ragged: Sequence[str] = (), meta: Meta | None = None) -> T: ...
@overload  # for jedi, which does not support TypeForm; checkers never reach this one
def from_arrow(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
    table: pa.Table, into: type[T], *, ragged: Sequence[str] = (), meta: Meta | None = None
) -> T: ...
def from_arrow(table: pa.Table, into: Any = None, *, ragged: Sequence[str] = (), meta: Meta | None = None) -> Any:
    """Convert a table to a batch with one field per column, on the memory of the table, which is read-only.

    Structs become nested batches. Tensors and lists of a fixed size become arrays. Everything else that is not a
    number, such as text and other lists, becomes an object array. Columns in several chunks, booleans and object arrays
    are copied. Nulls become NaN in floats, NaT in times, and ``None`` in an object array otherwise.

    A table does not say what was a tensor or a ``Ragged``. A record or protocol in ``into`` does: its tensors are
    copied, as the memory of a table is read-only. Where it declares numbers, lists of equal lengths become an array,
    and integers become floats, with NaN for nulls, where it declares floats.

    Args:
        table: The table.
        into: Record or protocol that the batch must match, or None for a Batch of arrays without a check. Declared
            tensors become tensors, and columns that it declares as a ``Ragged`` become one.
        ragged: Names of columns of lists that become a ``Ragged``, on the memory of the table. Lists of structs get the
            fields of the struct. Other lists get one field with the name of the column.
        meta: Values to add to the meta, as for tables that typedbatch has not written. They replace the table's values
            of the same keys.

    Raises:
        LeafError: ``table`` is not a table, or a column in ``ragged`` does not have lists.
        MissingFieldError: the table lacks a column in ``ragged``.
        StructureError: a struct is null in some rows, the type of a column is not supported, two columns have the same
            name, a name is not Unicode, or structs are nested more than 100 deep.
        SchemaError: the batch does not match ``into``.
    """
    if not isinstance(table, pa.Table):
        raise LeafError(f"from_arrow() takes an Arrow Table, got {describe(table)}")
    require_depth(table.schema, _parts)
    names, schema = _names(table.schema), None if into is None else schema_of(into)
    if schema is not None:
        ragged = [*ragged, *(field.name for field in schema if RAGGED in (field.kinds or ()) and field.name in names)]
    if missing := [name for name in ragged if name not in names]:
        raise MissingFieldError("the table", missing[0], names)
    columns = [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in table.columns]
    batch = _batch(names, columns, schema, ragged)
    kept = (table.schema.metadata or {}).get(_META) or b"{}"
    try:
        found = as_meta(json.loads(kept))
    except (ValueError, RecursionError) as error:
        raise StructureError(f"the meta of the table is damaged: {error}") from error
    if found or meta:
        set_meta(batch, {**found, **as_meta(meta or {})})
    return batch if into is None else convert(deepcopy(batch), into)


def write_parquet(batch: Any, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a batch to a Parquet file. The file is written completely or not at all.

    Args:
        batch: The batch; see :func:`to_arrow`.
        path: Path of the file.
        **options: Options of ``pyarrow.parquet.write_table``, such as ``compression="zstd"``.

    Raises:
        StorageError: the file cannot be written.
        LeafError: Arrow has no type for a leaf.
        SettingError: Parquet refuses an option.
    """
    table = to_arrow(batch)
    with atomic_write(path) as unfinished:
        try:
            pq.write_table(table, unfinished.name, **options)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise SettingError(f"Parquet refuses {options}: {error}" if options else f"Parquet: {error}") from error


@overload
def read_parquet(
    path: str | os.PathLike[str], columns: list[str] | None = None, *, into: None = None, meta: Meta | None = None
) -> Batch: ...
@overload
def read_parquet(
    path: str | os.PathLike[str], columns: list[str] | None = None, *, into: TypeForm[T], meta: Meta | None = None
) -> T: ...
@overload  # for jedi, as above
def read_parquet(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
    path: str | os.PathLike[str], columns: list[str] | None = None, *, into: type[T], meta: Meta | None = None
) -> T: ...
def read_parquet(
    path: str | os.PathLike[str], columns: list[str] | None = None, *, into: Any = None, meta: Meta | None = None
) -> Any:
    """Read a Parquet file as a batch; see :func:`from_arrow`.

    Args:
        path: Path of the file.
        columns: Names of the columns to read, or None for all.
        into: Record or protocol that the batch must match, or None for a Batch of arrays without a check.
        meta: Values to add to the meta. They replace the file's values of the same keys.

    Raises:
        StorageError: the file cannot be read.
        SchemaError: the batch does not match ``into``.
    """
    try:
        table = pq.read_table(path, columns=columns, partitioning=None)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    return from_arrow(table, into, meta=meta)


def _columns(tree: Tree, rows: int, lists: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        try:
            name.encode()
            if KINDS[type(value)] is RAGGED:
                # Lists of numbers if its only field has the column's name, or else of structs.
                inner = _columns(value.values, int(value.sizes.sum()), lists)
                items = inner[name] if [*inner] == [name] else pa.StructArray.from_arrays([*inner.values()], [*inner])
                is_small = len(items) < 2**31
                offsets = pa.array(value.offsets, pa.int32() if is_small else pa.int64())
                column = (pa.ListArray if is_small else pa.LargeListArray).from_arrays(offsets, items)
            else:
                column = _column(value, rows, lists)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except _REFUSED as error:
            raise LeafError(f"{describe(value)} cannot be a column of Arrow: {error}", name) from error
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
        raise LeafError(f"{describe(value)} cannot be a column of Arrow")
    array = leaf_to_numpy(value)
    if array.dtype.kind in "mM":
        array = _times(array)
    if isinstance(array, np.ma.MaskedArray):
        if array.ndim != 1:
            raise LeafError(f"{describe(array)}: Arrow's tensors have no masks; store the mask as a field")
        data = array.data.astype(array.dtype.newbyteorder("="), copy=False)
        return pa.array(data, mask=np.ma.getmaskarray(array))
    if array.dtype.kind == "c":
        raise LeafError(
            f"{describe(value)}: Arrow has no complex numbers; store it as two fields, its real and its imaginary part"
        )
    if array.dtype == object and array.ndim == 1:
        return _objects(array.tolist())
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    if array.ndim == 1:
        return pa.array(array)
    if not prod(array.shape[1:]) or array.dtype.hasobject:
        raise LeafError(f"{describe(value)}: Arrow's tensors must have at least one number in every row")
    numbers = pa.array(array.reshape(-1))
    if lists:
        for size in reversed(array.shape[1:]):
            numbers = pa.FixedSizeListArray.from_arrays(numbers, size)
        return numbers
    flat = pa.FixedSizeListArray.from_arrays(numbers, prod(array.shape[1:]))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type.value_type, array.shape[1:]), flat)


def _times(array: Any) -> Any:
    """Return dates in units of one step, as Arrow would read 25 s as 1 s; it has no days beyond 32 bits."""
    unit, steps = np.datetime_data(array.dtype)
    if steps != 1:
        array = array.astype(f"{array.dtype.kind}8[{unit}]")
    if unit == "D" and np.any(~np.isnat(array) & (np.abs(array.view(np.int64)) >= 2**31)):
        raise LeafError(f"{describe(array)}: Arrow only has days below 2**31; convert it to another unit")
    return array


def _objects(values: list[Any]) -> Any:
    # text if there is nothing to infer a type from, because a null column would be read back as None
    column = pa.array(values, pa.string() if all(value is None for value in values) else None)
    if pa.types.is_struct(column.type) and column.null_count:
        raise LeafError(
            "a column cannot have both dicts and None: it would be read as a nested batch, whose rows all have values"
        )
    for value, stored in zip(values, column.to_pylist(), strict=True):
        given = value.tolist() if isinstance(value, np.ndarray) else value
        if isinstance(given, (tuple, set)):
            given = [*given]
        if not (given == stored or (given != given and stored != stored)):  # NaN differs from itself
            raise LeafError(f"objects of several kinds: Arrow would turn {value!r:.40} into {stored!r:.40}")
    return column


def _parts(kind: Any) -> Mapping[str, Any] | None:
    """Return the types of the columns of a table or the fields of a struct, or None for any other type."""
    if not isinstance(kind, pa.Schema) and not pa.types.is_struct(kind):
        return None
    try:
        return {field.name: field.type for field in kind}
    except UnicodeDecodeError:  # _names() raises an error for it
        return {}


def _names(schema: Any) -> list[str]:
    try:
        names: list[str] = [field.name for field in schema]
    except UnicodeDecodeError as error:
        raise StructureError(f"the name of a column is not Unicode: {error}") from error
    for name, times in Counter(names).items():
        if times > 1:
            raise StructureError("several columns have this name; rename them", name)
    return names


def _batch(names: list[str], columns: list[Any], schema: Schema | None, ragged: Sequence[str] = ()) -> Batch:
    """Return the fields of a table or struct as a batch; ``schema`` is what the caller has declared, or None."""
    fields: dict[str, Any] = {}
    declared = {field.name: field for field in schema or ()}
    for name, column in zip(names, columns, strict=True):
        try:
            if name not in ragged:
                fields[name] = _leaf(column, declared.get(name))
                continue
            if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
                raise LeafError(f"a Ragged needs a column of lists of any length, got {column.type}")
            if column.null_count:
                raise StructureError("the list is null in some rows; replace the nulls by fill_null([])")
            rows = column.flatten()
            inner = _schema_in(declared.get(name), RAGGED)
            is_struct = pa.types.is_struct(rows.type)
            values = _batch(_names(rows.type) if is_struct else [name], rows.flatten() if is_struct else [rows], inner)
            fields[name] = Ragged(values, column.value_lengths().to_numpy(zero_copy_only=False))
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except _REFUSED as error:
            raise StructureError(f"{column.type} cannot be a field of a batch: {error}", name) from error
    return new_tree(Batch, fields)


def _schema_in(field: Field | None, kind: object) -> Schema | None:
    """Return the first schema that a field declares for nested batches, or for the values of a ``Ragged``."""
    schemas = () if field is None else [option.schema for option in field.options if option.kind is kind]
    return next(iter(filter(None, schemas)), None)


def _leaf(column: Any, field: Field | None = None) -> Any:
    sizes: Any = getattr(column.type, "shape", (None,))  # that of an Array2D of Hugging Face's datasets, for example
    if field is not None and field.takes_numbers():
        dims = field.options[0].shape.dims[1:]
        column = _regular(column, [dim.size for dim in dims if dim.sort is Sort.FIXED])
        if pa.types.is_integer(column.type) or (pa.types.is_null(column.type) and not field.takes_none()):
            column = _as_declared(column, field)
    elif None not in sizes:
        column = _regular(column, sizes)
    kind, numbers = column.type, column
    if isinstance(kind, pa.FixedShapeTensorType):
        return _tensor(column.storage, tuple(kind.shape), kind.permutation, field)
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf(column.storage, field)
    while pa.types.is_fixed_size_list(numbers.type) and not numbers.null_count:
        numbers = numbers.flatten()
    if pa.types.is_fixed_size_list(kind) and pa.types.is_primitive(numbers.type):
        return _tensor(column, (kind.list_size,), None, field)
    if pa.types.is_struct(kind):
        if column.null_count:
            raise StructureError("the struct is null in some rows; replace the nulls by fill_null()")
        return _batch(_names(kind), column.flatten(), _schema_in(field, BATCH))
    if pa.types.is_dictionary(kind):
        return _leaf(column.dictionary_decode(), field)
    if pa.types.is_null(kind):
        return None
    # numpy represents these nulls by NaN and NaT
    has_null = pa.types.is_floating(kind) or (pa.types.is_temporal(kind) and not pa.types.is_time(kind))
    if pa.types.is_primitive(kind) and (not column.null_count or has_null):
        return column.to_numpy(zero_copy_only=False)
    return object_array(column.to_pylist())


def _regular(column: Any, sizes: Sequence[int]) -> Any:
    """Return a column of lists of equal lengths, or without rows and of these sizes, as lists of a fixed size."""
    lists = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)) or lists.null_count:
        return column
    lengths = [*{*lists.value_lengths().unique().to_pylist()}] or [*sizes[:1]]
    if len(lengths) != 1 or not lengths[0]:
        return column
    return pa.FixedSizeListArray.from_arrays(_regular(lists.flatten(), sizes[1:]), lengths[0])


def _as_declared(column: Any, field: Field) -> Any:
    """Return a column of integers or of nothing but nulls as floats if the field takes floats, and not its values."""
    dtypes = [option.dtypes for option in field.options if option.dtypes is not None]
    taken = [name for name in ("float64", "float32", "float16") if any(each[np.dtype(name)] for each in dtypes)]
    if not taken or (not column.null_count and any(each[np.dtype(column.type.to_pandas_dtype())] for each in dtypes)):
        return column
    return column.cast(pa.from_numpy_dtype(taken[0]))


def _tensor(storage: Any, shape: tuple[int, ...], permutation: Any, field: Field | None) -> Any:
    if storage.null_count:
        raise StructureError("the tensor is null in some rows; replace the nulls by fill_null()")
    flat = _leaf(storage.flatten(), field)
    array = flat.reshape(len(storage), *shape, *flat.shape[1:])
    return array if permutation is None else array.transpose(0, *(i + 1 for i in permutation))
