"""Rows by their numbers, with zeros where a number says that there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._ops.casting import fitted
from typedbatch._ops.conversion import torch_side
from typedbatch._tree.leaves import (
    ARRAY,
    KINDS,
    NONE,
    RAGGED,
    TENSOR,
    Tree,
    blank,
    describe,
    is_objects,
    leading_shape,
    new_tree,
)
from typedbatch._tree.meta import keep_meta
from typedbatch._tree.rows import leaves
from typedbatch.errors import RowAssignmentError, RowIndexError, StructureError, TypedBatchError, did_you_mean, under

T = TypeVar("T", bound=Tree)

NO_ROW: Final = -1
"""The number of a row that is not there."""


def take_or_zeros(tree: T, rows: NDArray[np.intp]) -> T:
    """A new tree with ``rows.shape`` in place of the rows: row ``rows[i, j]`` at ``[i, j]``, zeros where that is -1.

    Objects are filled with ``None``. ``None`` and reserved fields stay. Everything else is copied.

    Raises:
        RowIndexError: a field has no such row, or cannot be filled with zeros, as a distribution.
    """
    absent = rows < 0
    return _take_or_zeros(tree, rows, absent if absent.any() else None)


def _take_or_zeros(tree: T, rows: NDArray[np.intp], absent: NDArray[np.bool_] | None) -> T:
    out = object.__new__(type(tree))
    if type(tree.__dict__) is not dict:
        keep_meta(tree, out)
    name = ""
    try:
        for name, value in tree.__dict__.items():
            if isinstance(value, Tree):
                out.__dict__[name] = _take_or_zeros(value, rows, absent)
            else:
                out.__dict__[name] = take_leaf_or_zeros(value, rows, absent)
    except TypedBatchError as error:
        raise error.under(name) from error.__cause__
    except IndexError as error:
        raise RowIndexError(f"{describe(tree.__dict__[name])} lacks rows that are asked for", name) from error
    return out


def take_leaf_or_zeros(value: Any, rows: NDArray[np.intp], absent: NDArray[np.bool_] | None) -> Any:
    """:func:`take_or_zeros` for one leaf; ``absent`` is where ``rows`` is -1, None if it is so nowhere."""
    kind = KINDS[type(value)]
    if kind is NONE:
        return None
    if kind is ARRAY and value.ndim:
        if absent is None:
            return value.take(rows, 0)
        return _filled(value, rows, absent)
    if kind is TENSOR and value.dim():
        return _take_tensor_or_zeros(value, rows, absent)
    if not leading_shape(value):
        raise RowIndexError(f"a scalar ({describe(value)}) has no rows")
    if kind is RAGGED:
        from typedbatch._ops.ragged import take_sequences

        return take_sequences(value, rows)
    if absent is not None:
        raise RowIndexError(f"{describe(value)} cannot be filled with zeros")
    from typedbatch._tree.distributions import get_sliced_dist

    return get_sliced_dist(value, rows)


def _filled(value: NDArray[Any], rows: NDArray[np.intp], absent: NDArray[np.bool_]) -> NDArray[Any]:
    there = ~absent
    out: NDArray[Any] = blank(value, (*rows.shape, *value.shape[1:]))
    out[there] = value.take(rows[there], 0)
    return out


def _take_tensor_or_zeros(value: Any, rows: NDArray[np.intp], absent: NDArray[np.bool_] | None) -> Any:
    torch = torch_side().torch
    index = torch.from_numpy(rows.astype(np.int64))
    if absent is None:
        return value[index]
    out = value.new_zeros((*rows.shape, *value.shape[1:]))
    there = torch.from_numpy(~absent)
    out[there.to(value.device)] = value[index[there]]
    return out


def after_zeros(tree: T, zeros: int, rows: int) -> T:
    """The first rows of a tree behind so many of zeros; for arrays quicker than :func:`take_or_zeros`."""
    out = object.__new__(type(tree))
    if type(tree.__dict__) is not dict:
        keep_meta(tree, out)
    others: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        out.__dict__[name] = None  # its place in the order
        if type(value) is ndarray and value.shape and len(value) >= rows and not value.dtype.hasobject:
            filled = np.zeros((zeros + rows, *value.shape[1:]), value.dtype)
            filled[zeros:] = value[:rows]
            out.__dict__[name] = filled
        else:
            others[name] = value
    if others:
        numbers = np.concatenate([np.full(zeros, NO_ROW), np.arange(rows)])
        out.__dict__.update(take_or_zeros(new_tree(type(tree), others), numbers).__dict__)
    return out


def fill_absent(tree: Tree, absent: NDArray[np.bool_], value: float | Mapping[str, float]) -> None:
    """Write into a tree of :func:`take_or_zeros` what stands in place of its zeros.

    Args:
        tree: the tree, which nobody else has yet.
        absent: where the zeros are.
        value: a number for all leaves of numbers, or by the dotted names of leaves.

    Raises:
        StructureError: a name that there is not.
        RowAssignmentError: the dtype of a leaf cannot hold the number.
    """
    if isinstance(value, Mapping):
        numbers: dict[str, Any] = dict(value)
        found = dict(leaves(tree.__dict__))
        if unknown := [name for name in numbers if name not in found]:
            raise StructureError(
                f"value= names {unknown[0]!r}, and the fields are {', '.join(found)}{did_you_mean(unknown[0], found)}"
            )
    elif value:
        found = {path: leaf for path, leaf in leaves(tree.__dict__) if KINDS[type(leaf)] in (ARRAY, TENSOR)}
        numbers = {path: value for path, leaf in found.items() if not is_objects(leaf)}
    else:  # they are zeros already
        return
    for path, number in numbers.items():
        with under(path):
            _fill_leaf(found[path], absent, number)


def _fill_leaf(leaf: Any, absent: NDArray[np.bool_], number: Any) -> None:
    if KINDS[type(leaf)] not in (ARRAY, TENSOR):
        raise RowAssignmentError(f"{describe(leaf)} cannot be filled with {number!r}")
    wanted = number if is_objects(leaf) else fitted(leaf, np.asarray(number))
    leaf[torch_side().torch.from_numpy(absent).to(leaf.device) if KINDS[type(leaf)] is TENSOR else absent] = wanted
