"""Where leaves lie in memory, and how to write into several that lie on the same."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._tree.leaves import ARRAY, KINDS, TENSOR
from typedbatch.errors import StructureError

Span = tuple[int, int]
"""The first address of a leaf, and the one behind its last."""

_IN_MEMORY: Final = (ARRAY, TENSOR)


class Change(NamedTuple):
    """A leaf that is about to be written, and a copy of it as it is to be."""

    path: str
    leaf: Any
    result: Any


def known_apart(leaves: Sequence[Any], values: Sequence[Any]) -> bool:
    """Whether it is plain that no leaf shares memory with another, nor with a value.

    That is so for arrays with memory of their own, for views of different ones, and for tensors without gaps that lie
    apart, and costs little to find out. If it is not, :class:`Taken` tells whether any do share some.
    """
    if leaves and all(KINDS[type(leaf)] is TENSOR for leaf in leaves):
        return _tensors_apart(leaves, values)
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
    """The array that the memory of another belongs to, which may be itself; None if it belongs to something else."""
    base = array.base
    if base is None:
        return array
    return base if type(base) is ndarray and base.base is None else None


def _tensors_apart(leaves: Sequence[Any], values: Sequence[Any]) -> bool:
    tensors = [value for value in values if KINDS[type(value)] is TENSOR]
    try:
        if not all(tensor.is_contiguous() for tensor in (*leaves, *tensors)):
            return False
        places = [(leaf.data_ptr(), leaf.nbytes, True) for leaf in leaves]
        places += [(value.data_ptr(), value.nbytes, False) for value in tensors]
    except Exception:  # noqa: BLE001  # a traced tensor, or one of a foreign class, may raise anything
        return False
    end = written = 1  # so that what has no memory, at address 0, is not plain
    for start, size, is_leaf in sorted(places):
        if start < (end if is_leaf else written):
            return False
        end = max(end, start + size)
        written = max(written, start + size) if is_leaf else written
    return not any(KINDS[type(value)] is ARRAY for value in values)


def span(leaf: Any) -> Span | None:
    """Where an array or tensor lies; None if it has no elements, or no plain memory of its own.

    Sparse, nested and meta tensors have none, nor have those that torch traces or maps over.
    """
    try:
        if not leaf.nbytes:
            return None
        if KINDS[type(leaf)] is ARRAY:
            start, size, steps = leaf.__array_interface__["data"][0], leaf.itemsize, leaf.strides
        else:
            size = leaf.element_size()
            start, steps = leaf.data_ptr(), [step * size for step in leaf.stride()]
        ways = [step * (count - 1) for step, count in zip(steps, leaf.shape, strict=True)]
        low = start + sum(way for way in ways if way < 0)
        return (low, start + sum(way for way in ways if way > 0) + size) if start else None
    except Exception:  # noqa: BLE001  # a traced tensor, or one of a foreign class, may raise anything
        return None


class Taken:
    """The memory of some leaves."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        self._leaves = leaves
        spans = ((span(leaf), i) for i, leaf in enumerate(leaves) if KINDS[type(leaf)] in _IN_MEMORY)
        self._spans = sorted((*place, i) for place, i in spans if place is not None)
        self._starts = [low for low, _, _ in self._spans]
        self._ends = [*accumulate((high for _, high, _ in self._spans), max)]
        """The largest end of each span and those before it."""

    def shared(self) -> set[int]:
        """The numbers of the leaves that may have elements in common with another."""
        found: set[int] = set()
        before: list[tuple[int, int]] = []
        for low, high, i in self._spans:
            before = [(end, other) for end, other in before if low < end]
            for _, other in before:
                if not {i, other} <= found and _may_share(self._leaves[i], self._leaves[other]):
                    found |= {i, other}
            before.append((high, i))
        return found

    def meets(self, leaf: Any) -> bool:
        """Whether a leaf may have elements in common with these."""
        place = span(leaf) if KINDS[type(leaf)] in _IN_MEMORY else None
        before = bisect_left(self._starts, place[1]) if place is not None else 0
        return place is not None and before > 0 and place[0] < self._ends[before - 1]


def _may_share(one: Any, two: Any) -> bool:
    """Whether two leaves whose spans overlap share elements, as columns of one table do not; tensors always may."""
    return not KINDS[type(one)] is KINDS[type(two)] is ARRAY or np.shares_memory(one, two)


def write_together(changes: Sequence[Change]) -> None:
    """Write leaves that have elements in common, if each can then be what it is to be.

    Raises:
        StructureError: they cannot, as one place would have to hold two values; nothing has changed.
    """
    before = [duplicate(change.leaf) for change in changes]
    for change in changes:
        change.leaf[...] = change.result
    for change in changes:
        if _bytes(change.leaf) != _bytes(change.result):
            for other, old in zip(changes, before, strict=True):
                other.leaf[...] = old
            raise _conflict(change, changes)


def _conflict(change: Change, changes: Sequence[Change]) -> StructureError:
    own = Taken([change.leaf])
    others = [other.path for other in changes if other is not change and own.meets(other.leaf)]
    return StructureError(
        f"is on the same memory as {', '.join(map(repr, others))}, and cannot be written without changing that; "
        "copy one of them",
        change.path,
    )


def duplicate(leaf: Any) -> Any:
    """A copy of an array or tensor, within its graph."""
    return leaf.clone() if KINDS[type(leaf)] is TENSOR else leaf.copy()


def _bytes(leaf: Any) -> bytes:
    if KINDS[type(leaf)] is TENSOR:
        from typedbatch._tree.tensors import as_bits

        leaf = as_bits(leaf)
    found: bytes = leaf.tobytes()
    return found
