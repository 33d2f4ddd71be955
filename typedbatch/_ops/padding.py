"""Selection of rows by their numbers, with zeros for the number -1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._ops.casting import fitted
from typedbatch._ops.conversion import torch_side
from typedbatch._tree.kinds import (
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
from typedbatch._tree.lengths import leaves
from typedbatch._tree.meta import keep_meta
from typedbatch.errors import RowAssignmentError, RowIndexError, StructureError, TypedBatchError, did_you_mean, under

T = TypeVar("T", bound=Tree)

NO_ROW: Final = -1
"""Number that stands for a missing row."""


def take_or_zeros(tree: T, rows: NDArray[np.intp]) -> T:
    """Return a new tree with ``rows.shape`` in place of the rows: row ``rows[i, j]`` at ``[i, j]``, zeros for -1.

    Objects are filled with ``None``. ``None`` and reserved fields stay unchanged. Everything else is copied.

    Raises:
        RowIndexError: A row number is out of range, or a field cannot be filled with zeros, as a distribution.
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
        raise RowIndexError(f"{describe(tree.__dict__[name])} lacks some of these rows: {error}", name) from error
    return out


def take_leaf_or_zeros(value: Any, rows: NDArray[np.intp], absent: NDArray[np.bool_] | None) -> Any:
    """Do :func:`take_or_zeros` for one leaf; ``absent`` is True where ``rows`` is -1, or None if no row is missing."""
    kind = KINDS[type(value)]
    if kind is NONE:
        return None
    if kind is ARRAY and value.ndim:
        if absent is None:
            return value.take(rows, 0)
        there = ~absent
        out: NDArray[Any] = blank(value, (*rows.shape, *value.shape[1:]))
        out[there] = value.take(rows[there], 0)
        return out
    if kind is TENSOR and value.dim():
        torch = torch_side().torch
        index = torch.from_numpy(rows.astype(np.int64))
        if absent is None:
            return value[index]
        out = value.new_zeros((*rows.shape, *value.shape[1:]))
        there = torch.from_numpy(~absent)
        out[there.to(value.device)] = value[index[there]]
        return out
    if not leading_shape(value):
        raise RowIndexError(f"a scalar ({describe(value)}) has no rows")
    if kind is RAGGED:
        from typedbatch._ops.ragged_rows import take_sequences

        return take_sequences(value, rows)
    if absent is not None:
        raise RowIndexError(f"{describe(value)} cannot be filled with zeros")
    from typedbatch._tree.distributions import get_sliced_dist

    return get_sliced_dist(value, rows)


def after_zeros(tree: T, zeros: int, rows: int) -> T:
    """Return the first ``rows`` rows of a tree after ``zeros`` rows of zeros; faster than :func:`take_or_zeros`."""
    out = object.__new__(type(tree))
    if type(tree.__dict__) is not dict:
        keep_meta(tree, out)
    others: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        out.__dict__[name] = None  # This sets its position in the order of the fields.
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
    """Replace the zeros in a tree from :func:`take_or_zeros`.

    Args:
        tree: New tree, which is changed.
        absent: Array that is True where the zeros are.
        value: Number for all leaves of numbers, or numbers by the dotted names of leaves.

    Raises:
        StructureError: A name in ``value`` is not that of a leaf.
        RowAssignmentError: The dtype of a leaf cannot hold the number.
    """
    if isinstance(value, Mapping):
        numbers: dict[str, Any] = dict(value)
        found = dict(leaves(tree.__dict__))
        if unknown := [name for name in numbers if name not in found]:
            raise StructureError(
                f"value= must name fields ({', '.join(found)}), got {unknown[0]!r}{did_you_mean(unknown[0], found)}"
            )
    elif value:
        found = {path: leaf for path, leaf in leaves(tree.__dict__) if KINDS[type(leaf)] in (ARRAY, TENSOR)}
        numbers = {path: value for path, leaf in found.items() if not is_objects(leaf)}
    else:
        return  # The rows are zeros already.
    for path, number in numbers.items():
        leaf = found[path]
        with under(path):
            if KINDS[type(leaf)] not in (ARRAY, TENSOR):
                raise RowAssignmentError(f"{describe(leaf)} cannot be filled with {number!r}")
            wanted = number if is_objects(leaf) else fitted(leaf, np.asarray(number))
            is_tensor = KINDS[type(leaf)] is TENSOR
            leaf[torch_side().torch.from_numpy(absent).to(leaf.device) if is_tensor else absent] = wanted
