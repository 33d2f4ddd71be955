"""The same rows more often, or in so many parts: ``repeat``, ``chunk`` and ``pad_rows``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import map_leaves
from typedbatch._ops.copying import shallow
from typedbatch._ops.indexing import take, take_basic
from typedbatch._tree.leaves import ARRAY, NONE, SEQUENCE, TENSOR, kind_of, new_tree
from typedbatch._tree.rows import at_least, leaves, require_tree, rows_to_take
from typedbatch.batch import Batch
from typedbatch.errors import MissingFieldError, SizeError
from typedbatch.sequences import Lengths, as_lengths

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
        SizeError: a number below 0, another count of numbers than of rows, or several numbers with
            ``interleave=False``.
        StructureError: the fields have different lengths.
        NoLengthError: a field is a scalar.
    """
    tree = require_tree(batch, "repeat()")
    rows = rows_to_take(tree)
    if kind_of(n) in (SEQUENCE, ARRAY, TENSOR):
        numbers = _repeated_by(as_lengths(n), rows, interleave)
    else:
        times = at_least(0, n, "the number of times")
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


def _repeated_by(times: NDArray[np.intp], rows: int, interleave: bool) -> NDArray[np.intp]:
    if len(times) != rows:
        raise SizeError(f"one number for each of {rows} rows says how often it is repeated, got {len(times)}")
    if not interleave:
        raise SizeError("interleave=False repeats the whole batch, so it takes one number, not one for each row")
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
        zero: fields that are zero in the added rows (``None`` for objects), so that these do not count. None for
            ``loss_mask``, if there is one.

    Returns:
        The batch, of the same class, and the number of added rows, often 0. Data is copied if there are any.

    Raises:
        SizeError: ``multiple`` is below 1.
        MissingFieldError: there is no field that ``zero`` names.
        StructureError: the fields have different lengths.
        NoLengthError: a field is a scalar.
    """
    tree = require_tree(batch, "pad_rows()")
    rows, multiple = rows_to_take(tree), at_least(1, multiple, "multiple")
    named = [LOSS_MASK] if zero is None and LOSS_MASK in tree.__dict__ else _names(zero)
    for name in named:
        if name not in tree.__dict__:
            raise MissingFieldError(type(tree).__name__, name, tree.__dict__)
    added = -rows % multiple
    if not added:
        return shallow(tree), 0
    padded: Any = take(tree, np.arange(rows + added) % rows)
    if named:
        Batch.empty_(new_tree(Batch, {name: padded.__dict__[name] for name in named}), slice(rows, None))
    return padded, added


def _names(zero: Sequence[str] | None) -> Sequence[str]:
    return [zero] if isinstance(zero, str) else zero or []
