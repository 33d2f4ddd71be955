"""Memory of leaves: their addresses, and which of them share elements."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core.kinds import ARRAY, KINDS, TENSOR

Span = tuple[int, int]
"""First address of a leaf, and the address after its last byte."""

_IN_MEMORY: Final = (ARRAY, TENSOR)


def known_apart(leaves: Sequence[Any], values: Sequence[Any]) -> bool:
    """Return whether a cheap check shows that no leaf shares memory with another leaf or with a value.

    The check recognizes arrays that own their memory, views of different arrays, and contiguous tensors at separate
    addresses. If it returns False, :class:`Taken` finds out whether any memory is shared.
    """
    if leaves and all(KINDS[type(leaf)] is TENSOR for leaf in leaves):
        tensors = [value for value in values if KINDS[type(value)] is TENSOR]
        try:
            if not all(tensor.is_contiguous() for tensor in (*leaves, *tensors)):
                return False
            blocks = [(leaf.data_ptr(), leaf.nbytes, True) for leaf in leaves]
            blocks += [(value.data_ptr(), value.nbytes, False) for value in tensors]
        except Exception:  # noqa: BLE001  # A traced tensor, or one of a foreign class, may raise anything.
            return False
        # Address 0 means that torch reports no memory, which proves nothing. Two values may overlap, but no leaf may.
        end = written = 1
        for start, size, is_leaf in sorted(blocks):
            if start < (end if is_leaf else written):
                return False
            end = max(end, start + size)
            written = max(written, start + size) if is_leaf else written
        return not any(KINDS[type(value)] is ARRAY for value in values)
    owners: set[int] = set()
    for leaf in leaves:
        owner = owner_of(leaf) if type(leaf) is ndarray else None
        if owner is None:
            return False
        owners.add(id(owner))
    if len(owners) < len(leaves):
        return False
    for value in values:
        if KINDS[type(value)] in _IN_MEMORY:
            owner = owner_of(value) if type(value) is ndarray else None
            if owner is None or id(owner) in owners:
                return False
    return True


def owner_of(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return the array that owns the memory of ``array``, possibly itself, or None if another object owns it."""
    base = array.base
    if base is None:
        return array
    return base if type(base) is ndarray and base.base is None else None


def span(leaf: Any) -> Span | None:
    """Return the addresses that an array or tensor spans, or None if it has no elements or no plain memory.

    Sparse, nested and meta tensors have no plain memory, nor do tensors that torch traces or maps over.
    """
    try:
        if not leaf.nbytes:
            return None
        if KINDS[type(leaf)] is ARRAY:
            start, size, steps = leaf.__array_interface__["data"][0], leaf.itemsize, leaf.strides
        else:
            size = leaf.element_size()
            start, steps = leaf.data_ptr(), [step * size for step in leaf.stride()]
        extents = [step * (count - 1) for step, count in zip(steps, leaf.shape, strict=True)]
        low = start + sum(extent for extent in extents if extent < 0)
        return (low, start + sum(extent for extent in extents if extent > 0) + size) if start else None
    except Exception:  # noqa: BLE001  # A traced tensor, or one of a foreign class, may raise anything.
        return None


class Taken:
    """The memory that some leaves occupy.

    Args:
        leaves: Arrays and tensors; anything else counts as having no memory.
    """

    def __init__(self, leaves: Sequence[Any]) -> None:
        self._leaves = leaves
        spans = ((span(leaf), i) for i, leaf in enumerate(leaves) if KINDS[type(leaf)] in _IN_MEMORY)
        self._spans = sorted((*found, i) for found, i in spans if found is not None)
        self._starts = [low for low, _, _ in self._spans]
        self._ends = [*accumulate((high for _, high, _ in self._spans), max)]
        """Largest end address among each span and the spans before it."""

    def meets(self, leaf: Any) -> bool:
        """Return whether a leaf may have elements in common with these leaves."""
        found = span(leaf) if KINDS[type(leaf)] in _IN_MEMORY else None
        before = bisect_left(self._starts, found[1]) if found is not None else 0
        return found is not None and before > 0 and found[0] < self._ends[before - 1]

    def pairs(self) -> list[tuple[int, int]]:
        """Return the positions of each pair of leaves that may have elements in common."""
        found: list[tuple[int, int]] = []
        before: list[tuple[int, int]] = []
        for low, high, i in self._spans:
            before = [(end, other) for end, other in before if low < end]
            for _, k in before:  # Their spans overlap, but two columns of one table share no elements.
                one, two = _as_array(self._leaves[i]), _as_array(self._leaves[k])
                if one is None or two is None or np.shares_memory(one, two):
                    found.append((min(i, k), max(i, k)))
            before.append((high, i))
        return sorted(found)


def _as_array(leaf: Any) -> NDArray[Any] | None:
    """Return an array on the memory of a leaf, or None if numpy cannot have one, as for a tensor on a GPU."""
    if KINDS[type(leaf)] is ARRAY:
        array: NDArray[Any] = leaf
        return array
    if leaf.device.type != "cpu" or leaf.is_conj() or leaf.is_neg():
        return None
    from typedbatch._core.tensors import as_bits

    return as_bits(leaf)


def layout(leaf: Any) -> tuple[Any, ...]:
    """Return address, shape, strides and item size, which are equal for leaves with the same elements in order."""
    if KINDS[type(leaf)] is TENSOR:
        size = leaf.element_size()
        return leaf.data_ptr(), tuple(leaf.shape), tuple(step * size for step in leaf.stride()), size
    return leaf.__array_interface__["data"][0], leaf.shape, leaf.strides, leaf.itemsize


def same_content(one: Any, two: Any) -> bool:
    """Return whether two leaves or numbers have the same shape and the same bytes."""
    if one is two:
        return True
    if not all(hasattr(value, "shape") for value in (one, two)):
        return type(one) is type(two) and bool(one == two)
    contents = []
    for value in (one, two):
        if KINDS[type(value)] is TENSOR:
            from typedbatch._core.tensors import as_bits

            value = as_bits(value)
        contents.append(value.tobytes())
    return tuple(one.shape) == tuple(two.shape) and contents[0] == contents[1]


def duplicate(leaf: Any) -> Any:
    """Return a copy of an array or tensor, within its graph."""
    return leaf.clone() if KINDS[type(leaf)] is TENSOR else leaf.copy()
