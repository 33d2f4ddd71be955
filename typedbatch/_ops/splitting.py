"""Minibatches: a batch cut into pieces of equal size, in order or shuffled."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import Tree
from typedbatch._core.lengths import count_rows, longer_fields, rows_to_take
from typedbatch._ops.indexing import take_basic, take_rows
from typedbatch.errors import SettingError, SizeError

if TYPE_CHECKING:
    import torch

T = TypeVar("T", bound=Tree)
# The annotation is a string because a mention of numpy.random would import it.
Rng: TypeAlias = "np.random.Generator | torch.Generator | int | None"
"""Source of randomness: numpy's or torch's generator, a seed, or None for numpy's global state (``np.random.seed``)."""


def split(tree: T, size: Any, shuffle: bool, merge_last: bool, rng: Rng) -> Iterator[T]:
    """Cut a batch into pieces; see :meth:`typedbatch.Batch.split`. Arguments are checked before the first piece."""
    cls: Any = type(tree)
    if cls._needs_equal_rows:  # The name is private because a public one could be a field.
        rows = rows_to_take(tree)
    else:
        rows = count_rows(tree.__dict__) or 0
        if longer := longer_fields(tree.__dict__, rows):  # Tianshou cuts these silently.
            text = f"split() uses the first {rows} rows, the length of the shortest field, and drops the rest: {longer}"
            warnings.warn(text, stacklevel=3)
    pieces = list(bounds(rows, size, merge_last))
    if not shuffle:
        return (take_basic(tree, slice(start, stop)) for start, stop in pieces)
    order = permutation(rows, rng)
    return (take_rows(tree, order[start:stop], None) for start, stop in pieces)


def bounds(rows: int, size: Any, merge_last: bool) -> Iterator[tuple[int, int]]:
    """Yield the first row of each piece, and the row after its last."""
    if not isinstance(size, (int, np.integer)) or (size < 1 and size != -1):
        raise SizeError(f"split() takes a number of rows above 0, or -1 for all of them, got {size!r}")
    size = max(rows, 1) if size == -1 else size
    merge_last = merge_last and rows % size > 0
    for start in range(0, rows, size):
        if merge_last and start + 2 * size >= rows:
            yield start, rows
            return
        yield start, min(start + size, rows)


def permutation(rows: int, rng: Rng) -> NDArray[np.intp]:
    """Return the numbers from 0 to ``rows - 1`` in random order."""
    torch, source = sys.modules.get("torch"), cast("Any", rng)
    if torch is not None and isinstance(source, torch.Generator):
        order: NDArray[np.intp] = torch.randperm(rows, generator=source, device=source.device).cpu().numpy()
        return order
    try:
        return np.random.permutation(rows) if rng is None else np.random.default_rng(source).permutation(rows)
    except (TypeError, ValueError) as error:
        raise SettingError(f"rng= must be a generator, a seed or None, got {rng!r}: {error}") from error
