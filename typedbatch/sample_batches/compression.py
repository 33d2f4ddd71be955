"""Compression of columns with LZ4. It stores the bytes of arrays and never pickles. Needs the extra ``lz4``."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import ARRAY, BATCH, KINDS, TENSOR, Tree, describe, new_tree, object_array
from typedbatch._ops.combine import stack_trees
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import torch_side
from typedbatch._ops.padding import NO_ROW, take_or_zeros
from typedbatch.errors import LeafError, MissingDependencyError, for_each

ONLY_NUMBERS = "cannot be compressed; only plain columns of numbers can"
Forms: TypeAlias = "Form | dict[str, Forms]"


class Form(NamedTuple):
    """Shape and dtype of a compressed leaf."""

    shape: tuple[int, ...]
    dtype: str
    torch_dtype: str | None


@dataclass(slots=True, unsafe_hash=True, repr=False)  # dicts of forms have no hash
class Compressed:
    """A column, or one row of it, as compressed bytes, with the shapes and dtypes of its leaves."""

    data: bytes
    forms: Forms = field(hash=False)
    rows: int = field(compare=False)
    """Number of rows."""

    def __repr__(self) -> str:
        return f"Compressed(rows={self.rows}, bytes={len(self.data)})"

    def restore(self) -> Any:
        """Return the array, tensor or Batch that was compressed."""
        try:
            return _restore(memoryview(_lz4().decompress(self.data)), self.forms)[0]
        except (RuntimeError, ValueError) as error:
            raise LeafError(f"the compressed bytes are damaged: {error}") from error


@cache
def _lz4() -> Any:
    try:
        from lz4 import frame
    except ModuleNotFoundError as error:
        raise MissingDependencyError("compression needs lz4; pip install 'typedbatch[lz4]'") from error
    return frame


def compress_column(column: Any, bulk: bool) -> Any:
    """Return the column compressed as a whole if ``bulk``, or else as an object array with one item per row.

    A compressed column is returned as it is.
    """
    if is_compressed(column):
        return column
    arrays: list[NDArray[Any]] = []
    forms = _forms(column, arrays)
    rows = len(arrays[0])
    if any(len(array) != rows for array in arrays):
        raise LeafError(f"fields must have the same length to be compressed, got {describe(column)}")
    compress = _lz4().compress
    if bulk:
        return Compressed(compress(b"".join(map(_bytes, arrays))), forms, rows)
    if not rows:
        return column  # without a row, the shape and dtype of rows would be lost
    row_forms = _of_one_row(forms)
    pieces = zip(*([_bytes(row) for row in array] for array in arrays), strict=True)
    return object_array([Compressed(compress(b"".join(parts)), row_forms, 1) for parts in pieces])


def decompress_column(column: Any) -> Any:
    """Return the original of a column from ``compress_column``. Any other column is returned as it is."""
    if not is_compressed(column):
        return column
    if type(column) is Compressed:
        return column.restore()
    pieces = column.ravel()
    present = np.array([piece is not None for piece in pieces])
    rows = stack_trees([{"": piece.restore()} for piece in pieces[present]], 0, "error", to_leaf)
    numbers = np.where(present, np.cumsum(present) - 1, NO_ROW).reshape(column.shape)
    return take_or_zeros(rows, numbers).__dict__[""]


def is_compressed(column: Any) -> bool:
    """Return whether a column comes from ``compress_column``, also if some rows have been replaced by ``None``."""
    if type(column) is not np.ndarray or column.dtype != object:
        return type(column) is Compressed
    types = set(map(type, column.ravel()))
    return Compressed in types and types <= {Compressed, type(None)}


def _forms(value: Any, arrays: list[NDArray[Any]]) -> Forms:
    """Return the forms of a value's leaves, and append their arrays to the list."""
    kind = KINDS[type(value)]
    if kind is BATCH and value.__dict__:
        return for_each(value.__dict__, partial(_forms, arrays=arrays))
    array, torch_dtype = value, None
    if kind is TENSOR:
        try:
            array, torch_dtype = torch_side().as_bits(value), str(value.dtype)
        except (TypeError, RuntimeError) as error:
            raise LeafError(f"{describe(value)} {ONLY_NUMBERS}: {error}") from error
    numeric = KINDS[type(array)] is ARRAY and array.dtype.kind in "biufcmM" and not isinstance(array, np.ma.MaskedArray)
    if not numeric or not array.ndim:
        raise LeafError(f"{describe(value)} {ONLY_NUMBERS}")
    arrays.append(array)
    return Form(array.shape, array.dtype.str, torch_dtype)


def _of_one_row(forms: Forms) -> Forms:
    if isinstance(forms, dict):
        return {name: _of_one_row(form) for name, form in forms.items()}
    return Form(forms.shape[1:], forms.dtype, forms.torch_dtype)


def _bytes(array: NDArray[Any]) -> memoryview | bytes:
    has_buffer = array.flags.c_contiguous and array.size and array.dtype.kind not in "mM"
    return array.data.cast("B") if has_buffer else array.tobytes()


def _restore(data: memoryview, forms: Forms) -> tuple[Any, memoryview]:
    """Return the value, and the remaining bytes."""
    if isinstance(forms, dict):
        fields = {}
        for name, form in forms.items():
            fields[name], data = _restore(data, form)
        return new_tree(Tree.__plain__, fields), data
    dtype = np.dtype(forms.dtype)
    size = dtype.itemsize * prod(forms.shape)
    array = np.frombuffer(data[:size], dtype).reshape(forms.shape).copy()
    if forms.torch_dtype is None:
        return array, data[size:]
    side = torch_side()
    return side.from_bits(array, getattr(side.torch, forms.torch_dtype.removeprefix("torch."))), data[size:]
