"""Where leaves lie in memory, and how to write into several that lie on the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from typedbatch.errors import StructureError
from typedbatch.leaves import ARRAY, KINDS, TENSOR

Span = tuple[int, int]
"""The first address of a leaf, and the one behind its last."""

_NEIGHBOURS = 8
"""How many that lie behind a leaf it is compared with: the columns of a wide table all lie between one another."""


class Change(NamedTuple):
    """A leaf that is about to be written, and a copy of it as it is to be."""

    path: str
    leaf: Any
    result: Any


def span(leaf: Any) -> Span | None:
    """Where an array or tensor lies; None if it has no elements, or no plain memory of its own.

    Sparse, nested and meta tensors have none, nor have those that torch traces or maps over.
    """
    try:
        start, size, strides = _layout(leaf)
    except Exception:  # noqa: BLE001  # a traced tensor, or one of a foreign class, may raise anything
        return None
    low = high = start
    for step, count in zip(strides, leaf.shape, strict=True):
        if count == 0:
            return None
        low, high = min(low, low + step * (count - 1)), max(high, high + step * (count - 1))
    return (low, high + size) if start else None


def _layout(leaf: Any) -> tuple[int, int, Sequence[int]]:
    if KINDS[type(leaf)] is ARRAY:
        return leaf.__array_interface__["data"][0], leaf.itemsize, leaf.strides
    size = leaf.element_size()
    return leaf.data_ptr(), size, [step * size for step in leaf.stride()]


class Taken:
    """The memory of some leaves."""

    def __init__(self, leaves: Iterable[Any]) -> None:
        found = [span(leaf) for leaf in leaves if KINDS[type(leaf)] in (ARRAY, TENSOR)]
        self.count: int = len(found)
        self.crowded: bool = False  # one lies where another does, or may
        self.spans: list[Span] = []
        for low, high in sorted(one for one in found if one is not None):
            if self.spans and low < self.spans[-1][1]:
                self.crowded = True
                first, last = self.spans.pop()
                low, high = first, max(last, high)
            self.spans.append((low, high))

    def shared(self, leaves: Sequence[Any]) -> set[int]:
        """The numbers of those among these leaves that have elements in common; one may be there twice."""
        return _shared(leaves) if self.crowded or len(leaves) > self.count else set()

    def meets(self, leaf: Any) -> bool:
        """Whether a leaf may have elements in common with these."""
        place = span(leaf) if KINDS[type(leaf)] in (ARRAY, TENSOR) else None
        if place is None or not self.spans:
            return False
        before = bisect_right(self.spans, (place[1] - 1, float("inf"))) - 1
        return before >= 0 and self.spans[before][1] > place[0]


def _shared(leaves: Sequence[Any]) -> set[int]:
    placed = sorted((place, i) for i, leaf in enumerate(leaves) if (place := span(leaf)) is not None)
    found: set[int] = set()
    for at, ((_, end), i) in enumerate(placed):
        for (low, _), k in placed[at + 1 : at + 1 + _NEIGHBOURS]:
            if low >= end:
                break
            if leaves[i] is leaves[k] or _overlap(leaves[i], leaves[k]):
                found |= {i, k}
    return found


def _overlap(one: Any, two: Any) -> bool:
    a, b = (leaf if KINDS[type(leaf)] is ARRAY else np.asarray(_Place(leaf)) for leaf in (one, two))
    try:
        return np.shares_memory(a, b, max_work=1000)  # type: ignore[arg-type]  # numpy takes any number
    except RuntimeError:  # strides so odd that numpy gave up: then they are treated as if they did
        return True


class _Place:
    """Tells numpy where a tensor is, on a GPU too. Nobody reads elements there."""

    def __init__(self, tensor: Any) -> None:
        start, size, strides = _layout(tensor)
        self.__array_interface__ = {
            "shape": tuple(tensor.shape),
            "strides": tuple(strides),
            "typestr": f"|V{size}",
            "data": (start, True),
            "version": 3,
        }


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
            others = ", ".join(repr(other.path) for other in changes if other is not change)
            raise StructureError(
                f"is on the same memory as {others}, and cannot be written without changing that; copy one of them",
                change.path,
            )


def duplicate(leaf: Any) -> Any:
    """A copy of an array or tensor, within its graph."""
    return leaf.clone() if KINDS[type(leaf)] is TENSOR else leaf.copy()


def _bytes(leaf: Any) -> bytes:
    if KINDS[type(leaf)] is TENSOR:
        from typedbatch.tensors import as_bits

        leaf = as_bits(leaf)
    found: bytes = leaf.tobytes()
    return found
