"""Which rows go together: parts of about equal length, bins of at most so many tokens, and the rows back in order."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.indexing import take
from typedbatch._tree.leaves import leading_shape, mask_obstacle
from typedbatch._tree.rows import at_least, equal_rows, require_tree
from typedbatch.batch import Batch
from typedbatch.episodes import groups as rows_of_groups
from typedbatch.errors import SizeError, StructureError
from typedbatch.sequences import Lengths, as_lengths, whole_numbers

if TYPE_CHECKING:
    from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound="BatchProtocol")


class _Part(NamedTuple):
    """Items that go together; parts are in the order of their totals."""

    total: int
    size: int
    """How many items."""
    place: int
    """Where their numbers are kept."""


_Partition: TypeAlias = list[_Part]
"""Parts in rising order; those that are empty are not in it."""


def balance(lengths: Lengths, parts: int, *, equal: bool = True, groups: object = None) -> list[NDArray[np.intp]]:
    """The numbers of the rows for each of so many parts, whose lengths sum up to about the same.

    By the largest differencing method of Karmarkar and Karp, as verl's ``get_seqlen_balanced_partitions``. Equal input
    gives equal output. ``[batch[rows] for rows in balance(...)]`` are the parts, :func:`restore` is the way back.

    Args:
        lengths: ``(N,)``, the tokens of each row.
        parts: the number of parts.
        equal: as many rows in each part, as for the ranks of data parallelism.
        groups: ``(N,)``, a key for each row, as ``batch.uid``; rows of the same key stay in one part.

    Returns:
        One array of row numbers for each part, in rising order.

    Raises:
        SizeError: lengths that are no whole numbers from 0 up, ``parts`` below 1, fewer rows or groups than parts, or
            with ``equal`` a number of rows or groups that ``parts`` does not divide, or groups of different sizes.
        StructureError: ``groups`` has not one key for each row, or they cannot be told apart.
    """
    sizes, parts = as_lengths(lengths), at_least(1, parts, "the number of parts")
    items = [np.array([row]) for row in range(len(sizes))] if groups is None else _grouped(groups, len(sizes))
    what = "rows" if groups is None else "groups"
    if len(items) < parts:
        raise SizeError(f"{len(items)} {what} cannot be cut into {parts} parts")
    if equal and len(items) % parts:
        raise SizeError(f"{len(items)} {what} cannot be cut into {parts} equal parts; give equal=False, or pad_rows()")
    if equal and len({len(rows) for rows in items}) > 1:
        raise SizeError("groups of different sizes cannot be cut into equal parts; give equal=False")
    totals = sizes.tolist() if groups is None else [int(sizes[rows].sum()) for rows in items]
    found = _differenced(totals, parts, parts if equal else 1)
    return [np.sort(np.concatenate([items[item] for item in part])) for part in found]


def _grouped(groups: Any, rows: int) -> list[NDArray[np.intp]]:
    keys = leaf_to_numpy(to_leaf(groups))
    if leading_shape(keys) != (rows,):
        raise StructureError(f"groups= has one key for each of {rows} rows, got shape {list(leading_shape(keys))}")
    if obstacle := mask_obstacle(keys):
        raise StructureError(f"groups= has a key for each row: {obstacle}")
    return rows_of_groups(keys, "groups")


def _differenced(totals: Sequence[int], parts: int, together: int) -> list[list[int]]:
    """Partitions of few items each, merged until one is left: the two that differ most, large parts with small ones.

    ``together`` items, which go to different parts, are in each at the start: 1, or as many as there are parts.
    """
    items = [[item] for item in range(len(totals))]
    order = sorted(range(len(totals)), key=lambda item: -totals[item])
    heap: list[tuple[int, int, _Partition]] = []
    for number, start in enumerate(range(0, len(order), together)):
        chosen = sorted(_Part(totals[item], 1, item) for item in order[start : start + together])
        heap.append((-_difference(chosen, parts), number, chosen))
    heapify(heap)
    while len(heap) > 1:
        (_, number, one), (_, _, two) = heappop(heap), heappop(heap)
        merged = _merged(one, two, parts, items)
        heappush(heap, (-_difference(merged, parts), number, merged))
    return [items[part.place] for part in reversed(heap[0][2])]


def _difference(partition: _Partition, parts: int) -> int:
    """Between the largest and the smallest part, which may be an empty one."""
    return partition[-1].total - (partition[0].total if len(partition) == parts else 0)


def _merged(one: _Partition, two: _Partition, parts: int, items: list[list[int]]) -> _Partition:
    """Two partitions as one: the largest part of each goes with the smallest of the other.

    Only as many parts are touched as the shorter one has, so that all mergers together take about as many steps as
    there are items. ``one`` and ``two`` are used up.
    """
    if len(one) < len(two):
        one, two = two, one
    falling, empty = two[::-1], parts - len(one)
    joined = [_joined(small, large, items) for small, large in zip(one, falling[empty:], strict=False)]
    del one[: len(joined)]
    for part in (*falling[:empty], *joined):
        insort(one, part)
    return one


def _joined(one: _Part, two: _Part, items: list[list[int]]) -> _Part:
    if one.size < two.size:
        one, two = two, one
    items[one.place] += items[two.place]
    return _Part(one.total + two.total, one.size + two.size, one.place)


def bins(lengths: Lengths, tokens: int, *, multiple: int = 1) -> list[NDArray[np.intp]]:
    """The numbers of the rows for each of as few batches as first fit decreasing finds, of at most so many tokens.

    Args:
        lengths: ``(N,)``, the tokens of each row.
        tokens: the most tokens of a batch.
        multiple: what the number of batches is a multiple of, as each rank has to make the same number of steps; those
            with most tokens are halved until it is.

    Returns:
        One array of row numbers for each batch, in rising order; none is empty. :func:`restore` is the way back.

    Raises:
        SizeError: lengths that are no whole numbers from 0 up, a row of more than ``tokens``, ``multiple`` below 1, or
            too few rows for so many batches.
    """
    sizes = as_lengths(lengths)
    tokens = min(at_least(1, tokens, "tokens"), int(sizes.sum()) or 1)  # which all rows fit into
    multiple = at_least(1, multiple, "multiple")
    if len(too_long := np.flatnonzero(sizes > tokens)):
        row = int(too_long[0])
        raise SizeError(f"row {row} has {sizes[row]} tokens, which fit in no bin of {tokens}")
    found = _first_fit(sizes, tokens)
    wanted = -(-len(found) // multiple) * multiple
    if wanted > len(sizes):
        raise SizeError(f"{len(sizes)} rows cannot fill {wanted} bins, a multiple of {multiple}; pad_rows() adds rows")
    while len(found) < wanted:
        several = [rows for rows in found if len(rows) > 1]
        largest = max(several, key=lambda rows: int(sizes[rows].sum()))
        halves = [largest[half] for half in balance(sizes[largest], 2, equal=False)]
        found = [half for rows in found for half in (halves if rows is largest else [rows])]
    return found


def _first_fit(sizes: NDArray[np.intp], tokens: int) -> list[NDArray[np.intp]]:
    room = np.full(len(sizes), tokens)
    chosen = np.zeros(len(sizes), np.intp)
    for row in np.argsort(-sizes, kind="stable").tolist():
        chosen[row] = np.argmax(room >= sizes[row])
        room[chosen[row]] -= sizes[row]
    return [np.flatnonzero(chosen == number) for number in range(chosen.max(initial=-1) + 1)]


def restore(parts: Sequence[B], rows: Sequence[Any]) -> B:
    """The parts as one batch, its rows in the order before :func:`balance` or :func:`bins`. Data is copied.

    ``restore([batch[i] for i in rows], rows)`` is ``batch``, and so it is for what was computed of each part.

    Args:
        parts: the batches.
        rows: for each the numbers of its rows.

    Raises:
        SizeError: other numbers than those from 0 up, each once; or another count of them than of rows in a part.
        StructureError: the parts do not fit together.
    """
    numbers = [whole_numbers(part, "row numbers") for part in rows]
    if len(parts) != len(numbers):
        raise SizeError(f"restore() takes row numbers for each part, got {len(numbers)} for {len(parts)} parts")
    for place, (part, own) in enumerate(zip(parts, numbers, strict=True)):
        if equal_rows(require_tree(part, "restore()").__dict__) != len(own):
            raise SizeError(f"part {place} has {equal_rows(part.__dict__)} rows, and {len(own)} row numbers")
    order = np.concatenate([np.zeros(0, np.intp), *numbers])
    if not np.array_equal(np.sort(order), np.arange(len(order))):
        raise SizeError(f"the row numbers of the parts are those from 0 to {len(order) - 1}, each once; they are not")
    joined: Any = Batch.cat(list(parts))
    restored: B = take(joined, np.argsort(order)) if joined.__dict__ else joined
    return restored
