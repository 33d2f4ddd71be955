"""Where leaves lie in memory, and how to write into several that lie on the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

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
    layout = _layout_of(leaf)
    return None if layout is None else (layout.start, layout.end)


class _Layout(NamedTuple):
    """The elements of a leaf: the address of the first, their size in bytes, and how they are spaced."""

    start: int
    size: int
    dims: tuple[tuple[int, int], ...] = ()
    """Distance and number of the elements in each dimension that has several, the largest distance first.

    Without any there is one element. What has no gaps counts as one, however large."""

    @property
    def end(self) -> int:
        return self.start + self.size + sum(step * (count - 1) for step, count in self.dims)


def _layout_of(leaf: Any) -> _Layout | None:
    try:
        is_array = KINDS[type(leaf)] is ARRAY
        if not leaf.nbytes:
            return None
        start = leaf.__array_interface__["data"][0] if is_array else leaf.data_ptr()
        if leaf.flags.c_contiguous if is_array else leaf.is_contiguous():
            return _Layout(start, leaf.nbytes) if start else None
        size, steps = (leaf.itemsize, leaf.strides) if is_array else (leaf.element_size(), leaf.stride())
    except Exception:  # noqa: BLE001  # a traced tensor, or one of a foreign class, may raise anything
        return None
    dims = []
    for step, count in zip(steps, leaf.shape, strict=True):
        if count > 1:
            distance = step if is_array else step * size
            start += min(0, distance * (count - 1))
            dims.append((abs(distance), count))
    return _Layout(start, size, tuple(sorted(dims, reverse=True))) if start else None


class Taken:
    """The memory of some leaves, in clusters of those whose spans overlap."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        self._spans: list[Span] = []
        self._clusters: list[dict[int, _Layout]] = []
        layouts = ((i, _layout_of(leaf)) for i, leaf in enumerate(leaves) if KINDS[type(leaf)] in _IN_MEMORY)
        placed = [(layout.start, layout.end, i, layout) for i, layout in layouts if layout is not None]
        for low, high, i, layout in sorted(placed):
            if self._spans and low < self._spans[-1][1]:
                first, last = self._spans[-1]
                self._spans[-1] = first, max(last, high)
                self._clusters[-1][i] = layout
            else:
                self._spans.append((low, high))
                self._clusters.append({i: layout})

    def shared(self) -> set[int]:
        """The numbers of the leaves that may have elements in common with another, or twice in themselves."""
        return {i for cluster in self._clusters if not _are_apart([*cluster.values()]) for i in cluster}

    def meets(self, leaf: Any) -> bool:
        """Whether a leaf may have elements in common with these."""
        place = span(leaf) if KINDS[type(leaf)] in _IN_MEMORY else None
        if place is None or not self._spans:
            return False
        before = bisect_right(self._spans, (place[1] - 1, float("inf"))) - 1
        return before >= 0 and self._spans[before][1] > place[0]


def _are_apart(layouts: list[_Layout]) -> bool:
    """Whether no element lies on another, though the spans overlap, as those of the columns of a table do.

    The widest step repeats what lies within it, so only the places within one such step are compared; then those
    within the next, and so on.
    """
    step = max(layout.dims[0][0] if layout.dims else 0 for layout in layouts)
    if step == 0:  # elements without any space between them
        return len(layouts) == 1 and not layouts[0].dims
    low = min(layout.start for layout in layouts)
    inner = sorted(
        _Layout((start - low) % step, size, dims[1:] if dims and dims[0][0] == step else dims)
        for start, size, dims in layouts
    )
    end = 0
    group: list[_Layout] = []
    for layout in inner:
        if layout.end > step:
            return False
        if layout.start >= end:
            if group and not _are_apart(group):
                return False
            group = []
        group.append(layout)
        end = max(end, layout.end)
    return _are_apart(group)


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
    if not others:
        return StructureError("has several elements in one place of memory, for different values; copy it", change.path)
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
