"""The same rows more often, or in so many parts: ``repeat``, ``chunk`` and ``pad_rows``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import map_leaves
from typedbatch._ops.copying import shallow
from typedbatch._ops.indexing import take, take_basic
from typedbatch._tree.leaves import ARRAY, NONE, RAGGED, SEQUENCE, TENSOR, Tree, kind_of, new_tree
from typedbatch._tree.rows import MOST_BYTES, at_least, at_most, leaves, require_tree, rows_to_take
from typedbatch.batch import Batch
from typedbatch.errors import MissingFieldError, SizeError
from typedbatch.sequences import Lengths, whole_numbers

if TYPE_CHECKING:
    from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound="BatchProtocol")

LOSS_MASK = "loss_mask"


def repeat(batch: B, n: int | Lengths, *, interleave: bool = True) -> B:
    """Each row n times. Data is copied.

    Args:
        batch: N rows.
        n: how often, 0 or more; or one number for each row.
        interleave: keep the copies of a row together, ``a a b b``, as samplers give several answers to each prompt;
            otherwise ``a b a b``.

    Returns:
        A batch of the same class, of ``n * N`` rows, or ``sum(n)``.

    Raises:
        SizeError: a number below 0, more rows than an array can have, another count of numbers than of rows, or
            several numbers with ``interleave=False``.
        StructureError: the fields have different lengths.
        NoLengthError: a field is a scalar.
    """
    tree = require_tree(batch, "repeat()")
    rows = rows_to_take(tree)
    if kind_of(n) in (SEQUENCE, ARRAY, TENSOR):
        numbers = _repeated_by(whole_numbers(n, "numbers of times"), rows, interleave, _most_rows(tree))
    else:
        times = at_least(0, n, "the number of times")
        at_most(_most_rows(tree) // max(rows, 1), times, "the number of times")
        if interleave and all(map(_is_plain, (leaf for _, leaf in leaves(tree.__dict__)))):
            at_once: B = map_leaves(tree, partial(_each_repeated, times=times))
            return at_once
        numbers = np.repeat(np.arange(rows), times) if interleave else np.tile(np.arange(rows), times)
    repeated: B = take(tree, numbers) if tree.__dict__ else shallow(tree)
    return repeated


def _is_plain(leaf: Any) -> bool:
    kind = kind_of(leaf)
    return kind is ARRAY or kind is NONE or (kind is TENSOR and not leaf.is_nested)


def _each_repeated(leaf: Any, times: int) -> Any:
    """By what numpy and torch have for it, which needs no row numbers."""
    if leaf is None:
        return None
    return leaf.repeat(times, 0) if kind_of(leaf) is ARRAY else leaf.repeat_interleave(times, 0)


def _most_rows(tree: Any) -> int:
    """The most rows that every array and tensor of a batch can have."""
    found = (leaf for _, leaf in leaves(tree.__dict__) if _is_plain(leaf) and leaf is not None)
    return MOST_BYTES // max([np.intp(0).itemsize, *map(_bytes_of_row, found)])


def _bytes_of_row(leaf: Any) -> int:
    sizes = [max(size, 1) for size in leaf.shape[1:]]  # numpy counts so, for arrays without values too
    return math.prod([leaf.dtype.itemsize, *sizes])


def _repeated_by(times: NDArray[np.intp], rows: int, interleave: bool, most: int) -> NDArray[np.intp]:
    if len(times) != rows:
        raise SizeError(f"one number for each of {rows} rows says how often it is repeated, got {len(times)}")
    if not interleave:
        raise SizeError("interleave=False repeats the whole batch, so it takes one number, not one for each row")
    at_most(most, sum(times.tolist()), "the sum of the numbers of times")
    return np.repeat(np.arange(rows), times)


def chunk(batch: B, n: int, *, equal: bool = False) -> list[B]:
    """Exactly n parts, in order. Views, no copies; :func:`typedbatch.cat` of them is the batch.

    Args:
        batch: N rows.
        n: the number of parts. Their rows differ by one at most, the longer ones first, as in ``numpy.array_split``.
        equal: refuse rows that n does not divide, as for the ranks of data parallelism.

    Raises:
        SizeError: n is below 1, there are fewer rows than parts, or with ``equal`` n does not divide them.
        StructureError: the fields have different lengths.
        NoLengthError: a field is a scalar.
    """
    tree = require_tree(batch, "chunk()")
    rows, n = rows_to_take(tree), at_least(1, n, "the number of parts")
    if rows < n or (equal and rows % n):
        parts = f"{n} equal parts" if equal else f"{n} parts"
        raise SizeError(f"{rows} rows cannot be cut into {parts}; pad_rows(batch, {n}) adds rows")
    size, longer = divmod(rows, n)
    ends = [i * size + min(i, longer) for i in range(n + 1)]
    return [take_basic(tree, slice(start, end)) for start, end in pairwise(ends)]


def pad_rows(batch: B, multiple: int, *, zero: Sequence[str] | None = None) -> tuple[B, int]:
    """Rows from the start once more, behind the others, until ``multiple`` divides their number.

    ``padded[:len(padded) - added]`` are the rows that there were.

    Args:
        batch: N rows.
        multiple: what their number shall be a multiple of.
        zero: fields that are zero in the added rows (``None`` for objects), so that these do not count. None for every
            ``loss_mask``, in nested batches and in the values of a :class:`~typedbatch.Ragged` too.

    Returns:
        The batch, of the same class, and the number of added rows, often 0. Data is copied if there are any.

    Raises:
        SizeError: ``multiple`` is below 1, or more rows than an array can have.
        MissingFieldError: there is no field that ``zero`` names.
        StructureError: the fields have different lengths.
        NoLengthError: a field is a scalar.
    """
    tree = require_tree(batch, "pad_rows()")
    rows, multiple = rows_to_take(tree), at_least(1, multiple, "multiple")
    named = [zero] if isinstance(zero, str) else zero or []
    for name in named:
        if name not in tree.__dict__:
            raise MissingFieldError(type(tree).__name__, name, tree.__dict__)
    added = -rows % multiple
    if not added:
        return shallow(tree), 0
    at_most(_most_rows(tree), multiple, "multiple")
    padded: Any = take(tree, np.arange(rows + added) % rows)
    if zero is None:
        _empty_loss_masks(padded, rows)
    elif named:
        Batch.empty_(new_tree(Batch, {name: padded.__dict__[name] for name in named}), slice(rows, None))
    return padded, added


def _empty_loss_masks(tree: Any, first: int) -> None:
    """Zeros in every ``loss_mask``, from a row on."""
    for name, value in tree.__dict__.items():
        if kind_of(value) is RAGGED:
            values = value.values if name != LOSS_MASK else new_tree(Batch, {LOSS_MASK: value.values})
            _empty_loss_masks(values, int(value.offsets[first]))
        elif name == LOSS_MASK:
            Batch.empty_(new_tree(Batch, {name: value}), slice(first, None))
        elif isinstance(value, Tree):
            _empty_loss_masks(value, first)
