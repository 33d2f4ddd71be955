"""Tags of results: how operations pass on rows, columns and fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from typedbatch.audit.operations import (
    COPYING,
    LABELLING,
    MOVING,
    PICKING,
    PRODUCTS,
    REDUCING,
    SCATTERING,
    dim_of,
)
from typedbatch.audit.tags import Columns, Rows, Tag

_LONGEST_PATH = 6
_CALL = tuple[str, tuple[Any, ...], dict[str, Any]]


def tag_after(call: _CALL, tags: list[Tag], tensors: list[Any], out: Any, step: int) -> Tag:
    """Return the tag of the result of an operation.

    Args:
        call: Name of the operation, its arguments and keyword arguments.
        tags: Tags of its tensors, in order.
        tensors: Its tensors.
        out: Its result, a tensor or array.
        step: Number of optimizer steps so far.
    """
    name, args, kwargs = call
    first = tags[0]
    fields, models = first.fields, first.models
    is_scaled, is_of_labels = first.is_scaled, first.is_of_labels
    for tag in tags[1:]:
        if tag.fields is not fields:
            fields = fields | tag.fields
        if tag.models is not models and name not in PICKING:
            models = models | tag.models
        is_scaled, is_of_labels = is_scaled or tag.is_scaled, is_of_labels or tag.is_of_labels
    if name in PRODUCTS and len(tensors) == 1:
        is_scaled = True
    elif name in LABELLING:
        is_of_labels = True
    is_copy = name in COPYING
    column = first.column if is_copy else None
    if column is not None and name in ("cat", "concat", "stack") and any(tag.column != column for tag in tags):
        column = None
    path: tuple[str, ...] = ()
    if not models:
        path = first.path if is_copy or len(first.path) > _LONGEST_PATH else (*first.path, name.strip("_"))
    return Tag(
        fields=fields,
        rows=_rows_after(name, args, kwargs, out, tags),
        column=column,
        models=models,
        columns=_columns_after(call, tags, tensors, out),
        table=_table_after(name, first, tensors[0], out),
        made_by=first.made_by if is_copy or name in ("neg", "__neg__") else name,
        path=path,
        step=max(step if models else 0, *(tag.step for tag in tags)) if step else 0,
        is_scaled=is_scaled,
        is_of_labels=is_of_labels,
        is_negated=name in _LOSSES_OF_LABELS if name in LABELLING else first.is_negated != _negates(call, first),
        of_rows=not out.ndim and (first.of_rows or (name in REDUCING and first.rows is not None)),
    )


_LOSSES_OF_LABELS = frozenset({"cross_entropy", "nll_loss"})


def _negates(call: _CALL, first: Tag) -> bool:
    """Return True if an operation changes the sign of log-probabilities of labels."""
    name, args, _ = call
    if not first.is_of_labels:
        return False
    if name in ("neg", "__neg__"):
        return True
    numbers = [value for value in args if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return name in PRODUCTS and any(number < 0 for number in numbers)


def part_of(tag: Tag, dim: int, begin: int, end: int) -> Tag:
    """Return the tag of a part of a value that was split along a dimension."""
    rows, columns = tag.rows, tag.columns
    if dim == 0:
        return replace(tag, rows=rows and Rows(rows.origin, rows.ids[begin:end]))
    return replace(tag, columns=columns and Columns(columns.frame, columns.offset + begin) if dim == 1 else columns)


def _rows_after(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, tags: list[Tag]) -> Rows | None:
    """Return the rows of the result, or None if they are not known."""
    first = next((tag.rows for tag in tags if tag.rows is not None), None)
    if first is None or not out.ndim:
        return None
    if name in ("__getitem__", "index_select"):
        index = args[1] if name == "__getitem__" else _selected(args, kwargs)
        return _indexed(first, index, out) if tags[0].rows is not None else None
    if name.rstrip("_") in SCATTERING or (name == "gather" and dim_of(args, kwargs) in (0, -args[0].ndim)):
        return None
    if (name in MOVING and not _keeps_first(name, args, kwargs)) or (
        name in REDUCING and dim_of(args, kwargs) in (0, -args[0].ndim)
    ):
        return None
    if name in ("cat", "concat") and dim_of(args, kwargs, 0) == 0:
        return _joined([tag.rows for tag in tags], out)
    return first if len(first.ids) == out.shape[0] else None


def _keeps_first(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if an operation that moves dimensions or values leaves the first dimension as it is."""
    dims = [value for value in (*args[1:], *kwargs.values()) if type(value) is int]
    if name in ("transpose", "swapaxes", "swapdims"):
        return 0 not in dims and -args[0].ndim not in dims
    if name == "permute":
        order = args[1] if len(args) > 1 and isinstance(args[1], (tuple, list)) else args[1:]
        return bool(order) and order[0] == 0
    is_along = name in ("stack", "unbind", "flip", "roll", "sort", "argsort", "topk")
    return name == "mT" or (is_along and bool(dims) and dims[-1] not in (0, -_ndim(args)))


def _ndim(args: tuple[Any, ...]) -> int:
    """Return the number of dimensions of the first tensor among the arguments."""
    first = args[0][0] if isinstance(args[0], (tuple, list)) else args[0]
    return int(first.ndim)


def _selected(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the index of ``index_select`` along the rows; a full slice for other dimensions."""
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return kwargs.get("index", args[2] if len(args) > 2 else None) if dim == 0 else slice(None)


def _indexed(rows: Rows, index: Any, out: Any) -> Rows | None:
    """Return the rows that an index takes."""
    if isinstance(index, tuple):
        if any(isinstance(part, (Tensor, np.ndarray, list)) for part in index[1:]):
            one = index[0] if index else None
            is_each = isinstance(one, (Tensor, np.ndarray)) and one.ndim == 1 and len(one) == len(rows.ids)
            return rows if is_each and out.ndim and out.shape[0] == len(rows.ids) and _is_arange(one) else None
        index = index[0] if index else slice(None)
    if index is Ellipsis:
        return rows if len(rows.ids) == out.shape[0] else None
    if isinstance(index, slice):
        taken = rows if index == slice(None) else Rows(rows.origin, rows.ids[index])
    elif isinstance(index, (Tensor, np.ndarray, list)):
        array = index.detach().cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
        if array.ndim != 1 or not array.size:
            return None
        taken = Rows(rows.origin, rows.ids[array])
    else:
        return None
    return taken if len(taken.ids) == out.shape[0] else None


def _is_arange(index: Any) -> bool:
    array = index.detach().cpu().numpy() if isinstance(index, Tensor) else index
    return array.dtype.kind in "iu" and bool((array == np.arange(len(array))).all())


def _joined(rows: list[Rows | None], out: Any) -> Rows | None:
    known = [row for row in rows if row is not None]
    if len(known) < len(rows) or len({row.origin for row in known}) > 1:
        return None
    ids = np.concatenate([row.ids for row in known])
    return Rows(known[0].origin, ids) if len(ids) == out.shape[0] else None


def _columns_after(call: _CALL, tags: list[Tag], tensors: list[Any], out: Any) -> Columns | None:
    """Return the columns of the result, or None if they are not known."""
    name, args, kwargs = call
    if name in ("cat", "concat") and dim_of(args, kwargs, 0) in (1, -1) and out.ndim == 2:
        return Columns(("cat", *(tensor.shape[1] for tensor in args[0])), 0)
    which = 1 if name in LABELLING and len(tags) > 1 and tags[1].columns is not None else 0
    columns = tags[which].columns if which < len(tags) else None
    if columns is None:
        columns = next((tag.columns for tag in tags if tag.columns is not None), None)
    if columns is None or name in MOVING or not out.ndim:
        return None
    if out.ndim == 1:  # Tokens of all rows, end to end.
        is_flat = tensors[which].ndim == 1 or (
            tensors[which].ndim == 2 and name in ("flatten", "reshape", "view", "ravel")
        )
        return columns if is_flat and tensors[which].numel() == out.numel() else None
    if name == "__getitem__":
        index = args[1]
        if isinstance(index, tuple) and len(index) > 1:
            second = index[1]
            if not isinstance(second, slice) or not isinstance(index[0], slice) or second.step not in (None, 1):
                return None
            return Columns(columns.frame, columns.offset + second.indices(tensors[0].shape[1])[0])
        return columns if out.ndim >= 2 else None
    width = tensors[which].shape[1] if tensors[which].ndim >= 2 else None
    return columns if width == out.shape[1] else None


def _table_after(name: str, first: Tag, tensor: Any, out: Any) -> Rows | None:
    """Return the rows of a table that the values of rows are viewed as."""
    if first.table is not None:
        return first.table if first.table.ids.shape == tuple(out.shape) else None
    if name not in ("view", "reshape", "unflatten") or first.rows is None or tensor.ndim != 1 or out.ndim != 2:
        return None
    if 1 in out.shape or out.shape[0] * out.shape[1] != len(first.rows.ids):
        return None
    return Rows(first.rows.origin, first.rows.ids.reshape(tuple(out.shape)))
