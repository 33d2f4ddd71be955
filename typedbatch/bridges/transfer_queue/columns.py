"""Columns of rows as TransferQueue stores them, and batches of the rows that it gives back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from tensordict import NonTensorStack, TensorDict

from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, describe, is_masked, is_objects, new_tree, object_array
from typedbatch._ops.conversion import leaf_to_device
from typedbatch._ops.widths import Widths
from typedbatch.batch import Batch, cat
from typedbatch.errors import LeafError, StreamError, under

_PLAIN: Final = (str, int, float, bool, bytes, type(None))


def to_columns(batch: Batch, names: Collection[str]) -> TensorDict:
    """Return fields of a batch as columns; tensors are shared and arrays become tensors on the same memory.

    Raises:
        LeafError: A field is of a kind that does not come back as it was: nested batches, ``Ragged``, distributions,
            sparse tensors, dates, and objects other than text, numbers, ``None``, and lists and dicts of these.
    """
    columns: dict[str, Any] = {}
    for name in names:
        with under(name):
            columns[name] = _column(batch[name])
    return TensorDict(columns, batch_size=[len(batch)])


def _column(leaf: Any) -> Any:
    kind = KINDS[type(leaf)]
    if is_objects(leaf) and leaf.ndim == 1:
        values = leaf.tolist()
        if wrong := [value for value in values if not is_plain(value)]:
            raise LeafError(f"a queue takes text, numbers, None, lists and dicts of these, got {wrong[0]!r:.60}")
        return NonTensorStack(*values)
    if kind is TENSOR and leaf.layout is torch.strided and not leaf.is_nested:
        return leaf.detach()
    if kind is ARRAY and leaf.dtype.kind in "biufc" and not is_masked(leaf):
        return leaf_to_device("cpu", None)(leaf)
    raise LeafError(f"a queue takes tensors, arrays of numbers and columns of objects, got {describe(leaf)}")


def is_plain(value: Any) -> bool:
    """Return whether a value comes back from the queue as it was."""
    if type(value) is list:
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and is_plain(inner) for key, inner in value.items())
    return type(value) in _PLAIN


def from_columns(
    found: Mapping[str, Any],
    names: Sequence[str],
    rows: int,
    declared: type[Batch],
    widths: Widths,
    pad_token_id: int | None,
) -> Batch:
    """Return the rows that the queue has given, padded to one width as declared where workers have put different ones.

    Raises:
        StreamError: Columns or rows are missing, as after a :meth:`Stream.clear` in another process.
        SettingError: Ids are padded without ``pad_token_id``.
    """
    if missing := [name for name in names if name not in found]:
        raise StreamError("rows of the queue lack this column; they may have been cleared meanwhile", missing[0])
    columns = {name: _rows_of(found[name]) for name in names}
    if short := [name for name, values in columns.items() if len(values) != rows]:
        raise StreamError(f"the queue gives {len(columns[short[0]])} of {rows} rows", short[0])
    parts = [
        new_tree(declared, {name: _joined(values[run]) for name, values in columns.items()})
        for run in _runs([column for column in columns.values() if isinstance(column[0], torch.Tensor)], rows)
    ]
    return Batch(cat(parts, widths=widths, pad_token_id=pad_token_id) if len(parts) > 1 else parts[0])


def _rows_of(column: Any) -> list[Any]:
    return [*column.unbind()] if isinstance(column, torch.Tensor) else column.tolist()


def _runs(columns: Sequence[list[Any]], rows: int) -> Iterator[slice]:
    """Yield runs of rows in which the tensors of each column have the same shape."""
    first = 0
    for row in range(1, rows + 1):
        if row == rows or any(column[row].shape != column[first].shape for column in columns):
            yield slice(first, row)
            first = row


def _joined(values: list[Any]) -> Any:
    return torch.stack(values) if isinstance(values[0], torch.Tensor) else object_array(values)
