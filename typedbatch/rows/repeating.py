"""Functions that repeat rows, cut a batch into equal parts and pad it: ``repeat``, ``chunk`` and ``pad_rows``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from typedbatch._core.kinds import ARRAY, NONE, RAGGED, SEQUENCE, TENSOR, Tree, kind_of, new_tree
from typedbatch._core.lengths import MOST_BYTES, leaves, require_at_least, require_at_most, require_tree, rows_to_take
from typedbatch._ops.conversion import map_leaves
from typedbatch._ops.copying import shallow
from typedbatch._ops.indexing import take, take_basic
from typedbatch.batch import Batch
from typedbatch.errors import MissingFieldError, SizeError
from typedbatch.protocols import BatchProtocol
from typedbatch.sequences import Lengths, whole_numbers

B = TypeVar("B", bound="BatchProtocol")

LOSS_MASK = "loss_mask"


def repeat(batch: B, n: int | Lengths, *, interleave: bool = True) -> B:
    """Repeat each row ``n`` times. Data is copied.

    Args:
        batch: N rows.
        n: Number of repetitions, 0 or more, or one number for each row.
        interleave: Whether the copies of a row stay together (``a a b b``), like several responses to each prompt.
            Otherwise the batch as a whole is repeated (``a b a b``).

    Returns:
        A batch of the same class with ``n * N`` rows, or ``sum(n)``.

    Raises:
        SizeError: a number is below 0, the result would have more rows than an array can, there is not one number for
            each row, or there are several numbers with ``interleave=False``.
        StructureError: the fields have different lengths.
        NoLengthError: a field is a scalar.
    """
    tree = require_tree(batch, "repeat()")
    rows = rows_to_take(tree)
    if kind_of(n) in (SEQUENCE, ARRAY, TENSOR):
        each = whole_numbers(n, "numbers of times")
        if len(each) != rows:
            raise SizeError(f"repeat() takes one number, or one for each of {rows} rows, got {len(each)}")
        if not interleave:
            raise SizeError("interleave=False repeats the whole batch, so it takes one number, not one for each row")
        require_at_most(_max_rows(tree), sum(each.tolist()), "the sum of the numbers of times")
        numbers = np.repeat(np.arange(rows), each)
    else:
        times = require_at_least(0, n, "the number of times")
        require_at_most(_max_rows(tree) // max(rows, 1), times, "the number of times")
        if interleave and all(map(_is_plain, (leaf for _, leaf in leaves(tree.__dict__)))):
            # numpy and torch repeat a plain leaf without an array of row numbers
            at_once: B = map_leaves(tree, partial(_repeat_plain, times=times))
            return at_once
        numbers = np.repeat(np.arange(rows), times) if interleave else np.tile(np.arange(rows), times)
    repeated: B = take(tree, numbers) if tree.__dict__ else shallow(tree)
    return repeated


def _is_plain(leaf: Any) -> bool:
    kind = kind_of(leaf)
    return kind is ARRAY or kind is NONE or (kind is TENSOR and not leaf.is_nested)


def _repeat_plain(leaf: Any, times: int) -> Any:
    if leaf is None:
        return None
    return leaf.repeat(times, 0) if kind_of(leaf) is ARRAY else leaf.repeat_interleave(times, 0)


def _max_rows(tree: Any) -> int:
    """Return the largest number of rows that every array and tensor of the batch can have."""
    found = (leaf for _, leaf in leaves(tree.__dict__) if _is_plain(leaf) and leaf is not None)
    # numpy's own limit counts a dimension of size 0 as 1
    sizes = (leaf.dtype.itemsize * math.prod(max(size, 1) for size in leaf.shape[1:]) for leaf in found)
    most: int = MOST_BYTES // max([np.intp(0).itemsize, *sizes])
    return most


def chunk(batch: B, n: int, *, equal: bool = False) -> list[B]:
    """Split the batch into exactly ``n`` consecutive parts, which are views.

    :func:`typedbatch.cat` of the parts equals the batch.

    Args:
        batch: N rows.
        n: Number of parts. Their lengths differ by at most one, longer parts first, as in ``numpy.array_split``.
        equal: Whether to refuse a number of rows that ``n`` does not divide, as for the ranks of data parallelism.

    Raises:
        SizeError: ``n`` is below 1, there are fewer rows than parts, or with ``equal`` it does not divide the rows.
        StructureError: the fields have different lengths.
        NoLengthError: a field is a scalar.
    """
    tree = require_tree(batch, "chunk()")
    rows, n = rows_to_take(tree), require_at_least(1, n, "the number of parts")
    if rows < n or (equal and rows % n):
        parts = f"{n} equal parts" if equal else f"{n} parts"
        raise SizeError(f"{rows} rows cannot be cut into {parts}; pad_rows(batch, {n}) adds rows")
    size, longer = divmod(rows, n)
    ends = [i * size + min(i, longer) for i in range(n + 1)]
    return [take_basic(tree, slice(start, end)) for start, end in pairwise(ends)]


def pad_rows(batch: B, multiple: int, *, zero: Sequence[str] | None = None) -> tuple[B, int]:
    """Append copies of the first rows until ``multiple`` divides the number of rows.

    ``padded[:len(padded) - added]`` are the original rows.

    Args:
        batch: N rows.
        multiple: Divisor of the new number of rows.
        zero: Names of fields to set to zero (``None`` for objects) in the added rows, so that they do not count. None
            means every ``loss_mask``, also in nested batches and in the values of a :class:`~typedbatch.Ragged`.

    Returns:
        A batch of the same class and the number of added rows, which may be 0. Data is copied if rows are added.

    Raises:
        SizeError: ``multiple`` is below 1 or above the number of rows that an array can have.
        MissingFieldError: ``zero`` names a field that the batch lacks.
        StructureError: the fields have different lengths.
        NoLengthError: a field is a scalar.
    """
    tree = require_tree(batch, "pad_rows()")
    rows, multiple = rows_to_take(tree), require_at_least(1, multiple, "multiple")
    named = [zero] if isinstance(zero, str) else zero or []
    for name in named:
        if name not in tree.__dict__:
            raise MissingFieldError(type(tree).__name__, name, tree.__dict__)
    added = -rows % multiple
    if not added:
        return shallow(tree), 0
    require_at_most(_max_rows(tree), multiple, "multiple")
    padded: Any = take(tree, np.arange(rows + added) % rows)
    if zero is None:
        _zero_loss_masks(padded, rows)
    elif named:
        Batch.empty_(new_tree(Batch, {name: padded.__dict__[name] for name in named}), slice(rows, None))
    return padded, added


def _zero_loss_masks(tree: Any, first: int) -> None:
    """Set every ``loss_mask`` to zero from row ``first`` on."""
    for name, value in tree.__dict__.items():
        if kind_of(value) is RAGGED:
            values = value.values if name != LOSS_MASK else new_tree(Batch, {LOSS_MASK: value.values})
            _zero_loss_masks(values, int(value.offsets[first]))
        elif name == LOSS_MASK:
            Batch.empty_(new_tree(Batch, {name: value}), slice(first, None))
        elif isinstance(value, Tree):
            _zero_loss_masks(value, first)
