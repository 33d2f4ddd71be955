"""Partitions of rows by length: parts of about equal length, bins with a token limit, and the way back."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import leading_shape, mask_obstacle
from typedbatch._core.lengths import equal_rows, require_at_least, require_tree
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.indexing import take
from typedbatch._ops.joined_meta import MetaRule
from typedbatch.batch import Batch
from typedbatch.episodes import groups as rows_of_groups
from typedbatch.episodes import rows_by_number
from typedbatch.errors import SizeError, StructureError
from typedbatch.protocols import BatchProtocol
from typedbatch.sequences import Lengths, as_lengths, whole_numbers

B = TypeVar("B", bound="BatchProtocol")


class _Part(NamedTuple):
    """A set of items that go together; parts sort by their total length."""

    total: int
    size: int
    """Number of items."""
    slot: int
    """Position of the part's item numbers in the list of all parts' items."""


_Partition: TypeAlias = list[_Part]
"""The parts of a partition in ascending order, without the empty ones."""


def balance(lengths: Lengths, parts: int, *, equal: bool = True, groups: object = None) -> list[NDArray[np.intp]]:
    """Split rows into ``parts`` parts whose lengths sum up to about the same.

    The method is Karmarkar and Karp's largest differencing, as in verl's ``get_seqlen_balanced_partitions``. It is
    deterministic. Get the parts by ``[batch[rows] for rows in balance(...)]``; :func:`restore` is the inverse.

    Args:
        lengths: Number of tokens of each row, ``(N,)``.
        parts: Number of parts.
        equal: Whether all parts get the same number of rows, as the ranks of data parallelism need it.
        groups: A key for each row, ``(N,)``, such as ``batch.uid``. Rows with the same key stay in one part.

    Returns:
        One array of row numbers for each part, in ascending order.

    Raises:
        SizeError: ``lengths`` are not whole numbers from 0 up, ``parts`` is below 1, or there are fewer rows or groups
            than parts. With ``equal`` also if ``parts`` does not divide the number of rows or groups, or if groups
            have different sizes.
        StructureError: ``groups`` does not have one key for each row, or its keys are not hashable.
    """
    sizes, parts = as_lengths(lengths), require_at_least(1, parts, "the number of parts")
    items, what = [np.array([row]) for row in range(len(sizes))], "rows"
    if groups is not None:
        keys, what = leaf_to_numpy(to_leaf(groups)), "groups"
        if leading_shape(keys) != (len(sizes),):
            shape = list(leading_shape(keys))
            raise StructureError(f"groups= must have one key for each of {len(sizes)} rows, got shape {shape}")
        if obstacle := mask_obstacle(keys):
            raise StructureError(f"groups= must have one key for each row: {obstacle}")
        items = rows_of_groups(keys, "groups")
    if len(items) < parts:
        raise SizeError(f"{len(items)} {what} cannot be cut into {parts} parts")
    if equal and len(items) % parts:
        raise SizeError(f"{len(items)} {what} cannot be cut into {parts} equal parts; give equal=False, or pad_rows()")
    if equal and len({len(rows) for rows in items}) > 1:
        raise SizeError("groups of different sizes cannot be cut into equal parts; give equal=False")
    totals = sizes.tolist() if groups is None else [int(sizes[rows].sum()) for rows in items]
    partition = _largest_differencing(totals, parts, parts if equal else 1)
    return [np.sort(np.concatenate([items[item] for item in part])) for part in partition]


def _largest_differencing(totals: Sequence[int], parts: int, together: int) -> list[list[int]]:
    """Return the item numbers of each part, by the largest differencing method.

    It begins with many small partitions and merges the two that differ most until one is left. A merge puts the large
    parts of one partition together with the small parts of the other. Each partition begins with ``together`` items,
    which go to different parts: one item, or as many as there are parts if all parts are to have equally many.
    """
    items = [[item] for item in range(len(totals))]
    order = sorted(range(len(totals)), key=lambda item: -totals[item])
    heap: list[tuple[int, int, _Partition]] = []
    for number, start in enumerate(range(0, len(order), together)):
        chosen = sorted(_Part(totals[item], 1, item) for item in order[start : start + together])
        heap.append((-_difference(chosen, parts), number, chosen))
    heapify(heap)
    while len(heap) > 1:
        (_, number, longer), (_, _, shorter) = heappop(heap), heappop(heap)
        if len(longer) < len(shorter):
            longer, shorter = shorter, longer
        # A merge touches only as many parts as the shorter partition has, so all merges together take about as many
        # steps as there are items.
        descending, empty = shorter[::-1], parts - len(longer)
        joined = []
        for part, other in zip(longer, descending[empty:], strict=False):
            large, small = (other, part) if part.size < other.size else (part, other)
            items[large.slot] += items[small.slot]
            joined.append(_Part(large.total + small.total, large.size + small.size, large.slot))
        del longer[: len(joined)]
        for part in (*descending[:empty], *joined):
            insort(longer, part)
        heappush(heap, (-_difference(longer, parts), number, longer))
    return [items[part.slot] for part in reversed(heap[0][2])]


def _difference(partition: _Partition, parts: int) -> int:
    """Return the difference between the largest and the smallest part, which is 0 long if a part is empty."""
    return partition[-1].total - (partition[0].total if len(partition) == parts else 0)


def bins(lengths: Lengths, tokens: int, *, multiple: int = 1) -> list[NDArray[np.intp]]:
    """Split rows into few bins of at most ``tokens`` tokens each, by first fit decreasing.

    Args:
        lengths: Number of tokens of each row, ``(N,)``.
        tokens: Maximum number of tokens in a bin.
        multiple: Divisor of the number of bins, for ranks that must all make the same number of steps. The bins with
            the most tokens are halved until it divides their number.

    Returns:
        One array of row numbers for each bin, in ascending order. No bin is empty. :func:`restore` is the inverse.

    Raises:
        SizeError: ``lengths`` are not whole numbers from 0 up, a row has more than ``tokens`` tokens, ``multiple`` is
            below 1, or there are fewer rows than bins.
    """
    sizes = as_lengths(lengths)
    tokens = require_at_least(1, tokens, "tokens")
    tokens = min(tokens, int(sizes.sum()) or 1)  # a larger number need not fit into an array
    multiple = require_at_least(1, multiple, "multiple")
    if len(too_long := np.flatnonzero(sizes > tokens)):
        row = int(too_long[0])
        raise SizeError(f"row {row} has {sizes[row]} tokens, more than a bin of {tokens} can hold")
    found = _first_fit(sizes, tokens)
    wanted = -(-len(found) // multiple) * multiple
    if wanted > len(sizes):
        raise SizeError(f"{len(sizes)} rows cannot fill {wanted} bins, a multiple of {multiple}; pad_rows() adds rows")
    while len(found) < wanted:
        divisible = [rows for rows in found if len(rows) > 1]
        largest = max(divisible, key=lambda rows: int(sizes[rows].sum()))
        halves = [largest[half] for half in balance(sizes[largest], 2, equal=False)]
        found = [half for rows in found for half in (halves if rows is largest else [rows])]
    return found


def _first_fit(sizes: NDArray[np.intp], room: int) -> list[NDArray[np.intp]]:
    """Return the rows of each bin: from the longest row on, each goes to the first bin with room for it.

    The first such bin is found in a binary tree over the room of all bins, in which a node has the maximum of the two
    below it.
    """
    order = np.argsort(-sizes, kind="stable")
    leaves = 1 << max(len(sizes) - 1, 0).bit_length()
    tree = [room] * (2 * leaves)
    chosen = np.empty(len(sizes), np.intp)
    for row, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        node = 1
        while node < leaves:
            node *= 2
            if tree[node] < size:
                node += 1
        chosen[row] = node - leaves
        tree[node] -= size
        while node > 1:
            node //= 2
            most = max(tree[2 * node], tree[2 * node + 1])
            if tree[node] == most:
                break
            tree[node] = most
    return rows_by_number(chosen)


def restore(parts: Sequence[B], rows: Sequence[Any], *, meta: MetaRule = "error") -> B:
    """Concatenate the parts and put their rows back in the order before :func:`balance` or :func:`bins`.

    ``restore([batch[i] for i in rows], rows)`` equals ``batch``. The parts may also be new batches that were computed
    from the original parts. Data is copied.

    Args:
        parts: The batches.
        rows: The row numbers of each batch.
        meta: Treatment of a key of the meta in which the parts differ, as in :meth:`typedbatch.Batch.cat`.

    Raises:
        SizeError: the row numbers of all parts are not those from 0 up, each once; or a part does not have as many
            rows as row numbers.
        StructureError: the parts cannot be concatenated.
    """
    numbers = [whole_numbers(part, "row numbers") for part in rows]
    if len(parts) != len(numbers):
        raise SizeError(f"restore() takes row numbers for each part, got {len(numbers)} for {len(parts)} parts")
    for index, (part, own) in enumerate(zip(parts, numbers, strict=True)):
        if equal_rows(require_tree(part, "restore()").__dict__) != len(own):
            raise SizeError(f"part {index} has {equal_rows(part.__dict__)} rows, but {len(own)} row numbers")
    order = np.concatenate([np.zeros(0, np.intp), *numbers])
    if not np.array_equal(np.sort(order), np.arange(len(order))):
        raise SizeError(f"the row numbers of all parts must be those from 0 to {len(order) - 1}, each exactly once")
    joined: Any = Batch.cat(list(parts), meta=meta)
    restored: B = take(joined, np.argsort(order)) if joined.__dict__ else joined
    return restored
