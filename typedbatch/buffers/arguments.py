"""Arguments of buffers: options, numbers, and indices of slots."""

from __future__ import annotations

import math
import os
import sys
from typing import Any, Final, TypedDict

import numpy as np
from numpy import ndarray
from typing_extensions import TypeVar

from typedbatch._core.kinds import describe
from typedbatch._core.lengths import require_at_least
from typedbatch._ops.indexing import plain_index
from typedbatch.buffers.rings import Rings, Slots
from typedbatch.errors import RowIndexError, SettingError, SizeError, StructureError
from typedbatch.protocols import BatchProtocol, RolloutBatchProtocol

R = TypeVar("R", bound=BatchProtocol, contravariant=True, default=RolloutBatchProtocol)
"""Type of the batches that are added."""
S = TypeVar("S", bound=BatchProtocol, covariant=True, default=R)
"""Type of the batches that are sampled."""

FIELDS = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy")
FLAGS = ("terminated", "truncated", "done")
"""Fields that mark where episodes end."""
FILLED_IN = ("done", "obs_next", "info", "policy")
"""Fields that a buffer computes, or fills with an empty batch, if the rows lack them."""

MOST_SLOTS: Final = 2**48
"""Maximum number of slots: more than any disk holds, and low enough that sizes in bytes do not overflow."""
MOST_RINGS: Final = 2**20
_MOST_FRAMES: Final = 1000
"""Maximum ``stack_num`` of a buffer with fewer slots than that."""
_INTP = np.dtype(np.intp)


class BufferOptions(TypedDict, total=False):
    """Keyword arguments that every buffer takes; :class:`ReplayBuffer` describes them."""

    stack_num: int
    ignore_obs_next: bool
    save_only_last_obs: bool
    sample_avail: bool
    random_seed: int | None
    path: str | os.PathLike[str] | None


def count_of(value: Any, name: str, least: int = 0, most: int = MOST_SLOTS) -> int:
    """Return a whole number of rows, rings or steps, or raise a SizeError if it is not one or out of bounds."""
    number = require_at_least(least, value, name)
    if number > most:
        raise SizeError(f"{name} is at most {most:,}, got {value!r}")
    return number


def frame_count(value: Any, size: int) -> int:
    """Return ``stack_num`` as an int, or raise a SizeError if it is below 1 or above both ``size`` and 1,000 frames."""
    return count_of(value, "stack_num", 1, max(size, _MOST_FRAMES))


def number_of(value: Any, name: str, least: float = 0, most: float = math.inf) -> float:
    """Return a finite number, or raise a SettingError if it is not one or out of bounds."""
    try:
        number = float(value) if hasattr(type(value), "__float__") else math.nan
    except (TypeError, ValueError, OverflowError, RuntimeError):  # e.g. an array or a tensor of several numbers
        number = math.nan
    if not (math.isfinite(number) and least <= number <= most):
        bounds = f"from {least} to {most}" if math.isfinite(most) else f"{least} or more, and finite"
        shown = repr(value) if isinstance(value, (int, float, str, complex, type(None))) else describe(value)
        raise SettingError(f"{name} is a number, {bounds}, got {shown}")
    return number


def require_into(into: Any, device: Any, dtype: Any) -> None:
    """Raise a SettingError if the device or dtype of a conversion is given, and its type is not."""
    if into is None and (device is not None or dtype is not None):
        text = "device= and dtype= need into=, the type to sample; pass for example into=RolloutBatch[Tensor]"
        raise SettingError(text)


def as_slots(rings: Rings, index: Any) -> Any:
    """Return the slots that an index of a buffer names: an int for an int, and an array for anything else.

    A negative slot is counted from the end of the rows, and a slice is one of the rows in time order. Raise a
    RowIndexError if a slot holds no row, or another one than when it was sampled.
    """
    if type(index) is ndarray and index.dtype is _INTP and index.ndim:  # hot path
        if rings.handed_out:
            require_same_rows(rings, index)
        return _require_rows(rings, index)
    if isinstance(index, slice):
        try:
            return rings.chronological() if index == slice(None) else rings.stored(index)
        except TypeError:
            raise RowIndexError(f"the bounds of a slice must be whole numbers, got {index!r}") from None
    if index is Ellipsis:
        return rings.chronological()
    if isinstance(index, ndarray) and index.dtype == np.uint64 and index.size:
        _require_exists(rings, int(index.max()))
    index = plain_index(index)
    if isinstance(index, ndarray) and index.dtype.kind == "b":
        if index.shape != (rings.size,):
            raise RowIndexError(f"a mask has one entry for each of the {rings.size} slots, got {describe(index)}")
        index = np.flatnonzero(index)
    if not isinstance(index, int) and not (isinstance(index, ndarray) and index.dtype.kind in "iu"):
        shown = describe(index) if isinstance(index, ndarray) else repr(index)
        raise RowIndexError(f"an index of a buffer is an integer, a slice, an array or a mask of slots, got {shown}")
    slots = np.asarray(_require_exists(rings, index) if isinstance(index, int) else index, np.intp)
    slots = _require_rows(rings, slots)
    return slots if isinstance(index, ndarray) else int(slots)


def require_same_rows(rings: Rings, index: Any) -> None:
    """Raise a RowIndexError if some slots hold other rows than when they were sampled, or none."""
    if (gone := rings.overwritten(index)) is not None:
        raise RowIndexError(
            f"{gone.sum()} of {gone.size} rows were overwritten since these slots were sampled; sample again, or hold "
            "buffer.lock so that no rows are added in between"
        )


def _require_rows(rings: Rings, slots: Slots) -> Slots:
    """Return slots, negative ones counted from the end, or raise an error if one does not exist or holds no row."""
    # As unsigned numbers, negative ones are the largest. A call of max() takes longer.
    if not slots.size or np.maximum.reduce(slots.view(np.uintp), None) < rings.occupancy.filled:
        return slots
    if slots.min() < 0:
        slots = np.where(slots < 0, rings.from_the_end(np.minimum(slots, -1)), slots)
    if slots.max() >= rings.size:
        raise RowIndexError(f"slot {int(slots.max())} does not exist in a buffer of {rings.size} slots")
    if not (held := rings.has_row(slots)).all():
        free = slots if not slots.ndim else slots[~held][0]
        raise RowIndexError(f"slot {int(free)} holds no row; {len(rings)} of {rings.size} slots do")
    return slots


def _require_exists(rings: Rings, number: int) -> int:
    """Return a slot number, or raise an error if the cast to 64 bits would change it."""
    if not -sys.maxsize <= number <= sys.maxsize:
        raise RowIndexError(f"slot {number} does not exist in a buffer of {rings.size} slots")
    return number


def slots_between(rings: Rings, start: int, stop: int) -> Slots:
    """Return the slots from ``start`` up to ``stop``, wrapping around at the end of the ring if ``stop`` is lower."""
    start, stop = (count_of(end, name, -sys.maxsize, sys.maxsize) for end, name in ((start, "start"), (stop, "stop")))
    ends = np.array([start, stop - 1])
    if start == stop:  # an empty range is valid anywhere
        return np.zeros(0, np.intp)
    first, last = (np.searchsorted(rings.edges, ends, side="right") - 1).tolist()
    if first != last or start < 0 or not rings.edges[0] <= stop - 1 < rings.size:
        raise StructureError(
            f"start and stop must be in the same ring, got {start} and {stop}; rings begin at {rings.offset.tolist()}"
        )
    if stop > start:
        return np.arange(start, stop)
    lower, upper = rings.edges[first : first + 2].tolist()
    return np.concatenate([np.arange(start, upper), np.arange(lower, stop)])
