"""Selection of rows by their numbers, with zeros for the number -1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core import kinds
from typedbatch._core.kinds import KINDS, Tree, blank, describe, is_objects, leading_shape, new_tree
from typedbatch._core.lengths import leaves
from typedbatch._core.meta import keep_meta
from typedbatch._ops.casting import fitted
from typedbatch._ops.combine import spread
from typedbatch._ops.conversion import torch_side
from typedbatch._ops.indexing import take_of_leaf
from typedbatch.errors import RowAssignmentError, RowIndexError, StructureError, TypedBatchError, did_you_mean, under

T = TypeVar("T", bound=Tree)

NO_ROW: Final = -1
"""Number that stands for a missing row."""


def take_or_zeros(tree: T, rows: NDArray[np.intp]) -> T:
    """Return a new tree with ``rows.shape`` in place of the rows: row ``rows[i, j]`` at ``[i, j]``, zeros for -1.

    Objects are filled with ``None``, and a ``Ragged`` with empty sequences; it has one dimension of rows. ``None`` and
    reserved fields stay unchanged. Everything else is copied. A row number that is out of range, or a field that cannot
    be filled with zeros, as a distribution, is a ``RowIndexError``.
    """
    absent = np.flatnonzero(rows < 0)
    return RowNumbers(rows, absent if len(absent) else None).of_tree(tree)


class RowNumbers:
    """Row numbers to take from many leaves, moved to each device once.

    Args:
        rows: Row numbers of any shape.
        absent: Positions, in the flattened array, of rows that are zeros instead.
    """

    def __init__(self, rows: NDArray[np.intp], absent: NDArray[np.intp] | None = None) -> None:
        self._rows, self._absent = rows, absent
        self._numbers = rows.ravel() if absent is None else np.maximum(rows, 0).ravel()
        self._on: dict[Any, tuple[Any, Any]] = {}

    def of_tree(self, tree: T) -> T:
        """Return these rows of every leaf of a tree."""
        out = object.__new__(type(tree))
        if type(tree.__dict__) is not dict:
            keep_meta(tree, out)
        name = ""
        try:
            for name, value in tree.__dict__.items():
                out.__dict__[name] = self.of_tree(value) if isinstance(value, Tree) else self.of_leaf(value)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except IndexError as error:
            raise RowIndexError(f"{describe(tree.__dict__[name])} lacks some of these rows: {error}", name) from error
        return out

    def of_leaf(self, value: Any) -> Any:
        """Return these rows of a leaf."""
        kind = KINDS[type(value)]
        if kind is kinds.NONE:
            return None
        if (kind is kinds.ARRAY and value.ndim) or (kind is kinds.TENSOR and value.ndim and not value.is_nested):
            shape = (*self._rows.shape, *value.shape[1:])
            if self._absent is not None and not value.shape[0] and len(self._absent) == len(self._numbers):
                return blank(value, shape)  # a leaf without rows has none to take in place of the absent ones
            taken = self._of_array(value) if kind is kinds.ARRAY else self._of_tensor(value)
            return taken if self._rows.ndim == 1 else taken.reshape(shape)
        if not leading_shape(value):
            raise RowIndexError(f"a scalar ({describe(value)}) has no rows")
        if self._absent is None or (kind is kinds.RAGGED and self._rows.ndim != 1):
            return take_of_leaf(value, self._rows)
        if kind is not kinds.RAGGED:
            raise RowIndexError(f"{describe(value)} cannot be filled with zeros")
        there = self._rows >= 0
        return spread(take_of_leaf(value, self._rows[there]), there)

    def _of_array(self, value: NDArray[Any]) -> NDArray[Any]:
        taken: NDArray[Any] = value.take(self._numbers, 0) if type(value) is ndarray else value[self._numbers]
        if self._absent is not None:
            taken[self._absent] = blank(value, (1, *value.shape[1:]))
        return taken

    def _of_tensor(self, value: Any) -> Any:
        if value.device not in self._on:
            to_tensor = torch_side().to_tensor
            absent = None if self._absent is None else to_tensor(self._absent).to(value.device)
            self._on[value.device] = to_tensor(self._numbers).to(value.device), absent
        numbers, absent = self._on[value.device]
        # Zeros at the numbers take a third of the time of zeros at a mask.
        taken = value.index_select(0, numbers)
        if absent is not None:
            taken[absent] = 0
        return taken


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
    """
    if isinstance(value, Mapping):
        numbers: dict[str, Any] = dict(value)
        found = dict(leaves(tree.__dict__))
        if unknown := [name for name in numbers if name not in found]:
            raise StructureError(
                f"value= must name fields ({', '.join(found)}), got {unknown[0]!r}{did_you_mean(unknown[0], found)}"
            )
    elif value:
        found = {path: leaf for path, leaf in leaves(tree.__dict__) if KINDS[type(leaf)] in (kinds.ARRAY, kinds.TENSOR)}
        numbers = {path: value for path, leaf in found.items() if not is_objects(leaf)}
    else:
        return  # The rows are zeros already.
    for path, number in numbers.items():
        leaf = found[path]
        with under(path):
            if KINDS[type(leaf)] not in (kinds.ARRAY, kinds.TENSOR):
                raise RowAssignmentError(f"{describe(leaf)} cannot be filled with {number!r}")
            wanted = number if is_objects(leaf) else fitted(leaf, np.asarray(number))
            leaf[_mask_for(leaf, absent)] = wanted


def zero_absent(fields: Mapping[str, Any], absent: NDArray[np.bool_]) -> None:
    """Set arrays and tensors to zeros where a mask of their leading dimensions is true, and objects to ``None``."""
    if not absent.any():
        return
    for _, leaf in leaves(fields):
        if KINDS[type(leaf)] is kinds.TENSOR:
            leaf[_mask_for(leaf, absent)] = 0
        elif KINDS[type(leaf)] is kinds.ARRAY:
            leaf[absent] = blank(leaf, (1, *leaf.shape[absent.ndim :]))


def _mask_for(leaf: Any, absent: NDArray[np.bool_]) -> Any:
    """Return a mask that a leaf can be indexed by: of its device for a tensor."""
    return torch_side().torch.from_numpy(absent).to(leaf.device) if KINDS[type(leaf)] is kinds.TENSOR else absent
