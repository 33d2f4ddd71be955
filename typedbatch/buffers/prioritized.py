"""``PrioritizedReplayBuffer``: transitions sampled in proportion to their priority (arXiv:1511.05952)."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from typedbatch._core.kinds import describe
from typedbatch._ops.construct import refuse_on_instances
from typedbatch._ops.conversion import to_numpy
from typedbatch._typing import Index
from typedbatch.buffers import restore
from typedbatch.buffers.arguments import BufferOptions, R, as_slots, count_of, number_of
from typedbatch.buffers.declared import DeclaredTypes
from typedbatch.buffers.guard import locked, locked_at, locked_for_writing
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.state import State, state_of
from typedbatch.buffers.vector import capacities
from typedbatch.errors import RowAssignmentError, RowIndexError, SettingError, SizeError, StorageError
from typedbatch.protocols import BatchProtocol, PrioBatchProtocol

P = TypeVar("P", bound=BatchProtocol, covariant=True, default=PrioBatchProtocol)
"""Type of the batches that are sampled."""

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float32).eps)
_LEAST: Final = 2.0**-500
"""Lowest ``p**alpha``, which is stored for lower ones: it is above 0, so that every row can be sampled."""
_MOST: Final = 2.0**500
"""Highest ``p**alpha``: sums and ratios of such numbers are finite."""

_WIDTH = 17  # values under one sum; wide enough for numpy to be fast, and sums take 6 % of the memory of the values
_TOP = 4096  # a level of at most this many sums is searched directly, which takes less time than another level
_TINY = np.finfo(np.float64).tiny  # search values are at least this, so numbers that are 0 are never found
_ONES = np.ones(_WIDTH)
_BEFORE = np.triu(np.ones((_WIDTH, _WIDTH)), 1)
"""Matrix for exclusive running sums: ``rows @ _BEFORE`` takes a fifth of the time of ``cumsum``."""


class PrioritizedReplayBuffer(ReplayBuffer[R, P]):
    """A replay buffer that samples transition ``i`` with probability ``p_i**alpha / sum(p**alpha)``.

    Samples have a field ``weight``: the importance-sampling weight ``(N * P(i))**-beta``, divided by that of the least
    likely transition so far. A new transition gets the highest priority so far.

    ``PrioritizedReplayBuffer[GoalRollout, PrioGoalRollout]`` takes the first type and samples the second, which has
    the additional field ``weight``. Without a second argument, samples are of type ``PrioBatchProtocol``.

    Args:
        size: Number of transitions to store.
        alpha: Exponent of the priorities, above 0; values close to 0 make sampling nearly uniform.
        beta: Exponent of the weights, usually from 0 (no correction of the sampling bias) to 1 (full correction).
        weight_norm: Whether the weights of each batch are divided by the highest among them.
        **options: Options of :class:`ReplayBuffer`. ``sample_avail`` has no effect here.

    Raises:
        SettingError: ``alpha`` is not a finite number above 0, or ``beta`` is not a finite number of at least 0 (also
            an ``AssertionError``).
    """

    def __init__(
        self, size: int, alpha: float, beta: float, weight_norm: bool = True, **options: Unpack[BufferOptions]
    ) -> None:
        self._begin(PrioritizedState(alpha, beta, weight_norm, type(self), [count_of(size, "size")], options))

    if TYPE_CHECKING:
        _state: PrioritizedState  # pyright: ignore[reportIncompatibleVariableOverride]  # set once, by _begin

    @property
    def weight(self) -> SegmentTree:
        """``p**alpha`` of each slot."""
        return self._state.weight

    def set_beta(self, beta: float) -> None:
        """Set ``beta``, for example to anneal it.

        Raises:
            SettingError: ``beta`` is below 0, or not a finite number.
        """
        self._state.set_beta(beta)

    @locked_for_writing
    def init_weight(self, index: int | Slots) -> None:
        """Set the priority of slots to that of new transitions: the highest so far.

        Raises:
            RowIndexError: A slot does not exist, or holds no row.
        """
        state = self._state
        state.set(as_slots(state.rings, index), state.newest())

    @locked_at
    def get_weight(self, index: Index) -> Any:
        """Return the importance-sampling weights of slots, relative to that of the lowest priority so far.

        Returns:
            Weights, float64, ``(N,)``.

        Raises:
            RowIndexError: A slot does not exist, or holds no row.
        """
        return self._state.weights(as_slots(self._state.rings, index))

    @locked_for_writing
    def update_weight(self, index: Index, new_weight: Any) -> None:
        """Set the priorities of slots, from TD errors for example.

        Args:
            index: Slots, as ``sample`` returns them; of a slot that occurs twice, the later priority counts. Slots
                whose rows were overwritten since the sample are left out.
            new_weight: Priorities, array or tensor, ``(N,)``; their absolute value is used, plus the float32 epsilon.

        Raises:
            RowAssignmentError: There is not one priority for each slot, or one, or its power with ``alpha``, is NaN or
                above 1e150. Nothing was changed.
            RowIndexError: A slot does not exist, or holds no row.
        """
        state = self._state
        gone = state.rings.overwritten(index)
        slots: Any = as_slots(state.rings, index) if gone is None else index
        given = np.asarray(to_numpy(new_weight))
        if given.dtype.kind not in "biuf":
            raise RowAssignmentError(f"priorities are numbers, got {describe(given)}", "weight")
        priorities = np.abs(given.astype(np.float64)) + _EPS
        if priorities.shape != np.shape(slots) and priorities.ndim:
            wanted = list(np.shape(slots))
            raise RowAssignmentError(f"priorities of shape {wanted} are expected, got {describe(priorities)}", "weight")
        if gone is not None:
            slots = as_slots(state.rings, slots[~gone])
            priorities = priorities[~gone] if priorities.ndim else priorities
        if not priorities.size or not np.size(slots):
            return
        highest, lowest = float(priorities.max()), float(priorities.min())  # NaN if any is NaN
        try:
            is_storable = max(highest, highest**state.alpha) <= _MOST  # false for NaN
        except OverflowError:
            is_storable = False
        if not is_storable:
            text = f"priorities, and their powers with alpha, must be finite and below 1e150, got {describe(given)} in "
            text += "which some are not"
            raise RowAssignmentError(text, "weight")
        state.set(slots, np.maximum(priorities**state.alpha, _LEAST), highest, lowest)

    @locked
    def sample_indices(self, batch_size: int | None) -> Slots:
        """Return slots as :meth:`ReplayBuffer.sample_indices` does, drawn in proportion to their priorities."""
        state = self._state
        count = None if batch_size is None else count_of(batch_size, "batch_size", -sys.maxsize)
        if count is None and len(state.rings):
            return state.rings.hand_out(state.rng.permutation(state.rings.chronological()))
        if count is not None and count > 0 and len(state.rings):
            return state.rings.hand_out(state.draw(count))
        return super().sample_indices(count)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Literal["r", "r+"] = "r+",
        *,
        alpha: float | None = None,
        beta: float = 0.4,
        weight_norm: bool = True,
    ) -> Self:
        """Open a buffer as :meth:`ReplayBuffer.open` does; with ``alpha``, also one that has no priorities yet.

        A folder of a ``ReplayBuffer``, or for several rings of a ``VectorReplayBuffer``, becomes one of this class, and
        its rows are as likely as each other until their priorities are set. No rows are copied. ``beta`` and
        ``weight_norm`` count then alone; a folder with priorities has its own.

        Raises:
            SettingError: The folder has priorities of another ``alpha``; or ``mode`` is ``"r"``, with ``alpha``.
            StorageError: The folder holds no buffer of either class, is damaged, or another buffer writes to it.
        """
        if alpha is not None:
            if mode != "r+":
                raise SettingError(f"a folder gets priorities with mode='r+' alone, got alpha={alpha!r} and {mode!r}")
            given = {"alpha": number_of(alpha, "alpha"), "beta": beta, "weight_norm": weight_norm}
            restore.add_priorities(cls, path, given)
        buffer = super().open(path, mode)
        state: Any = state_of(buffer)
        if alpha is not None and (own := state.alpha) != alpha:
            buffer.close()
            raise SettingError(f"the folder has priorities with alpha {own}, got alpha={alpha!r}; leave it out")
        return buffer

    @property
    def buffers(self) -> list[ReplayBuffer[R, Any]]:
        """Each ring as a buffer, as in :attr:`ReplayBuffer.buffers`, without priorities and weights."""
        return super().buffers


refuse_on_instances(PrioritizedReplayBuffer, "open")


class PrioritizedVectorReplayBuffer(PrioritizedReplayBuffer[R, P]):
    """A :class:`PrioritizedReplayBuffer` with a ring for each of ``buffer_num`` environments.

    Args:
        total_size: Number of transitions to store, of all environments; rounded up to a multiple of ``buffer_num``.
        buffer_num: Number of environments.
        alpha: Exponent of the priorities, as for :class:`PrioritizedReplayBuffer`.
        beta: Exponent of the weights, as for :class:`PrioritizedReplayBuffer`.
        weight_norm: Whether weights are normalized, as for :class:`PrioritizedReplayBuffer`.
        **options: Options of :class:`ReplayBuffer`.
    """

    def __init__(
        self,
        total_size: int,
        buffer_num: int,
        alpha: float,
        beta: float,
        weight_norm: bool = True,
        **options: Unpack[BufferOptions],
    ) -> None:
        sizes = capacities(total_size, buffer_num)
        self._begin(PrioritizedState(alpha, beta, weight_norm, type(self), sizes, options, many=True))


class PrioritizedState(State):
    """State of a prioritized buffer. :class:`PrioritizedReplayBuffer` and :class:`State` describe the arguments."""

    def __init__(
        self, alpha: float, beta: float, weight_norm: bool,
        cls: type, capacities: list[int], options: BufferOptions, *, many: bool = False,
    ) -> None:  # fmt: skip
        alpha = number_of(alpha, "alpha")
        if not alpha:
            raise SettingError("alpha must be above 0, got 0; a ReplayBuffer samples uniformly")
        self.set_beta(beta)
        super().__init__(cls, capacities, options, many=many)
        self.alpha: float = alpha
        self.weight_norm: bool = weight_norm
        self.highest: float = 1.0
        """Highest priority so far, which new rows get."""
        self.lowest: float = 1.0
        """Lowest priority so far."""
        self.weight: SegmentTree = SegmentTree(self.rings.size)
        """``p**alpha`` of each slot."""
        self.weight.use(self.storage.extra("priorities", self.weight.capacity))

    def begin(self) -> None:
        """Store the priorities in the storage, which has none, and let all rows begin with the highest."""
        self.weight.use(self.storage.extra("priorities", self.weight.capacity))
        self.weight.put(self.rings.stored(), self.newest())

    def set_beta(self, beta: float) -> None:
        """Set ``beta``."""
        self.beta: float = number_of(beta, "beta")

    def newest(self) -> float:
        """Return ``p**alpha`` of a new row."""
        return float(self.highest**self.alpha)

    def weights(self, slots: Any) -> Any:
        """Return the importance-sampling weights of slots, relative to that of the lowest priority so far."""
        return (self.weight.values.take(slots) / max(self.lowest**self.alpha, _LEAST)) ** -self.beta

    def set(self, slots: Any, powers: Any, highest: float = 0.0, lowest: float = math.inf) -> None:
        """Set ``p**alpha`` of slots, and the highest and lowest of their priorities, or roll back."""
        before, old_highest, old_lowest = self.weight.values.take(slots), self.highest, self.lowest

        def put() -> None:
            self.weight.put(np.atleast_1d(slots), powers)
            self.highest, self.lowest = max(self.highest, highest), min(self.lowest, lowest)
            super(PrioritizedState, self).on_rows_written(np.zeros(0, np.intp))

        def rollback() -> None:
            self.weight[slots] = before
            self.weight.rebuild()
            self.highest, self.lowest = old_highest, old_lowest
            super(PrioritizedState, self).on_rows_written(np.zeros(0, np.intp))

        self.transaction(rollback, put)

    # ---- overrides of State ---------------------------------------------------------------------------------------

    def draw(self, count: int) -> Slots:
        values = self.rng.random(count) * self.weight.reduce()
        values.sort()  # sorted values are found faster, which saves more time than the shuffle takes
        slots: Slots = self.weight.find(values)
        self.rng.shuffle(slots)
        return slots

    def draw_windows(self, total: int, count: int, begins: Callable[[Slots], Slots]) -> Slots:
        if not count:
            return super().draw_windows(total, count, begins)
        if total == len(self.rings):  # A window begins at each row, so that their order is that of the rows.
            return self.rings.rank(self.draw(count))
        sums = self.weight.values.take(begins(np.arange(total))).cumsum()
        drawn: Slots = sums.searchsorted(self.rng.random(count) * sums[-1], side="right")
        return np.minimum(drawn, total - 1)  # The product may be rounded up to the sum.

    def fields_of_windows(self, begins: Slots) -> dict[str, Any]:
        return {"weight": self._weights_in_batch(begins)}

    def rows(self, slots: Any, elsewhere: Mapping[str, Any] = MappingProxyType({})) -> Any:
        rows = super().rows(slots, elsewhere)
        rows.__dict__["weight"] = self._weights_in_batch(slots)
        return rows

    def _weights_in_batch(self, slots: Any) -> Any:
        """Return the importance-sampling weights of slots, divided by the highest of them if weights are normalized."""
        if not self.weight_norm or not np.size(slots):
            return self.weights(slots)
        powers = self.weight.values.take(slots)
        return (powers / powers.min()) ** -self.beta

    def part_declaration(self) -> DeclaredTypes:
        return DeclaredTypes(self.hint, sampled=None)

    def forget(self, keep_statistics: bool) -> None:
        self.highest = self.lowest = 1.0
        super().forget(keep_statistics)

    def on_rows_written(self, slots: Slots) -> None:
        if len(slots):
            self.weight.put(slots, self.newest())
        super().on_rows_written(slots)

    def on_rows_forgotten(self, start: int, stop: int) -> None:
        self._clear([slice(start, stop)])

    def on_rows_moved(self, slots: Slots, extras: dict[str, NDArray[np.float64]]) -> None:
        self.weight[slots] = extras["priorities"]

    def on_rows_dropped(self) -> None:
        self._clear(self.rings.free())

    def _clear(self, ranges: list[slice]) -> None:
        """Set the priorities of ranges of slots to 0."""
        for slots in ranges:
            values = self.weight.values[slots]
            values[np.flatnonzero(values)] = 0  # no others, because pages that were never written take no memory
        self.weight.rebuild()

    def numbers(self) -> NDArray[np.float64]:
        return np.concatenate([super().numbers(), [self.highest, self.lowest, self.beta]])

    def restore(self, numbers: NDArray[np.float64]) -> None:
        super().restore(numbers[:-3])
        self.highest, self.lowest, beta = numbers[-3:].tolist()
        self.set_beta(beta)
        self.weight.use(self.storage.extras["priorities"])
        self.on_rows_dropped()  # slots of half-written rows may have a priority
        stored = self.weight.values[self.rings.stored()]
        if not (np.isfinite(stored) & (stored > 0)).all() or not 0 < self.lowest <= self.highest < np.inf:
            raise StorageError("priorities must be above 0 and finite, and some are not")

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "alpha": self.alpha, "beta": self.beta, "weight_norm": self.weight_norm}


class SegmentTree:
    """An array of ``size`` numbers, initially 0, with sums that are updated when numbers are set.

    Each level holds the sums of 17 numbers of the level below, up to a level of at most 4,096 sums. So setting or
    finding 256 of 100,000 numbers takes a dozen numpy operations, and needs no compiler.

    Args:
        size: Number of numbers.

    Like Tianshou's ``SegmentTree``, except that arguments are never written to, and that negative indices count from
    the end.
    """

    def __init__(self, size: int) -> None:
        self._size: int = count_of(size, "the size of a tree")
        count, self._levels = self._size, list[Floats]()
        while not self._levels or len(self._levels[-1]) > _TOP:
            groups = -(-count // _WIDTH)  # rounded up
            self._levels.append(np.zeros(groups * _WIDTH))
            count = groups

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> Floats:
        """Live array of the numbers, ``(size,)``. Write to it through ``tree[index] = value`` only."""
        return self._levels[0][: self._size]

    def __getitem__(self, index: Any) -> Any:
        """Return a copy of the number, or numbers, at an index.

        Raises:
            RowIndexError: An index is out of range.
        """
        return self._levels[0].take(self._as_indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set numbers; of an index that occurs twice, the later value counts.

        Raises:
            RowIndexError: An index is out of range. Nothing was set.
            ValueError: There is neither one value nor a value for each index. Nothing was set.
        """
        self.put(np.atleast_1d(self._as_indices(index)), value)

    def put(self, index: NDArray[np.intp], value: Any) -> None:
        """Set numbers as ``tree[index] = value`` does, without checks of the indices, ``(N,)``.

        Raises:
            ValueError: There is neither one value nor a value for each index. Nothing was set.
        """
        self._levels[0][index] = value
        for below, level in zip(self._levels, self._levels[1:], strict=False):
            if len(below) <= 4 * _WIDTH * len(index):
                level[: len(below) // _WIDTH] = below.reshape(-1, _WIDTH) @ _ONES
            else:
                index = index // _WIDTH
                level[index] = below.reshape(-1, _WIDTH).take(index, 0) @ _ONES

    def _as_indices(self, index: Any) -> Any:
        index = np.asarray(index)
        if index.dtype.kind not in "iu" and index.size:
            raise RowIndexError(f"indices must be integers, got {describe(index)}")
        index = index.astype(np.intp, copy=False)
        if not index.size or index.view(np.uintp).max() < self._size:  # as unsigned, negative numbers are the largest
            return index
        lowest, highest = index.min(), index.max()
        if lowest < -self._size or highest >= self._size:
            wrong = lowest if lowest < -self._size else highest
            raise RowIndexError(f"index {int(wrong)} is out of range for a tree of {self._size} numbers")
        return np.where(index < 0, index + self._size, index)

    def rebuild(self) -> None:
        """Compute all sums again, after ``values`` were written to directly."""
        self._levels[0][self._size :] = 0
        for below, level in zip(self._levels, self._levels[1:], strict=False):
            level[: len(below) // _WIDTH] = below.reshape(-1, _WIDTH) @ _ONES

    @property
    def capacity(self) -> int:
        """Capacity, which is ``size`` rounded up to a multiple of 17."""
        return len(self._levels[0])

    def use(self, values: Floats) -> None:
        """Use an array of ``capacity`` numbers, which is not copied, as the storage of the numbers.

        Raises:
            SizeError: The array has another shape or dtype.
        """
        if values.shape != (self.capacity,) or values.dtype != np.float64:
            raise SizeError(f"{self.capacity} numbers are expected, got {describe(values)}")
        self._levels[0] = values
        self.rebuild()

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        """Return the sum of the numbers from ``start`` up to, but not including, ``end``.

        Args:
            start: Index of the first number; negative ones count from the end.
            end: Index after the last number; negative ones count from the end, None for the end itself.

        Raises:
            RowIndexError: ``start`` or ``end`` is not a whole number.
        """
        try:
            first, stop, _ = slice(start, end).indices(self._size)
        except TypeError:
            raise RowIndexError(f"start and end must be whole numbers, got {start!r} and {end!r}") from None
        if first == 0 and stop == self._size:
            return float(self._levels[-1].sum())
        total = 0.0
        for level in self._levels[:-1]:
            if stop - first <= 2 * _WIDTH:
                break
            above_first, above_stop = -(-first // _WIDTH), stop // _WIDTH
            total += level[first : above_first * _WIDTH].sum() + level[above_stop * _WIDTH : stop].sum()
            first, stop = above_first, above_stop
        else:
            level = self._levels[-1]
        return float(total + level[first:stop].sum())

    def get_prefix_sum_idx(self, value: Any) -> Any:
        """Return the first index up to which, inclusive, the numbers sum to ``value`` or more, for each value.

        If all numbers are non-negative, ``get_prefix_sum_idx(u * tree.reduce())`` draws an index in proportion to its
        number, for ``u`` uniform in [0, 1). The index of a number that is 0 is never returned.

        Args:
            value: Number or array of numbers, at least 0 and less than the sum of all; not modified.

        Returns:
            An int for a number, else an array of the shape of ``value``.

        Raises:
            SizeError: A value is negative, not a number, or too large (also an ``AssertionError``).
        """
        try:
            values = np.atleast_1d(np.asarray(value, np.float64))
        except (TypeError, ValueError) as error:
            raise SizeError(f"values must be numbers, got {describe(value)}") from error
        total = self.reduce()
        if not ((values >= 0) & (values < total)).all():
            raise SizeError(f"values must be at least 0 and less than the sum of all, {total}, and some are not")
        index = self.find(values.ravel())
        return int(index[0]) if np.ndim(value) == 0 else index.reshape(np.shape(value))

    def find(self, values: Floats) -> NDArray[np.intp]:
        """Return the indices for an array of values, ``(N,)``, as :meth:`get_prefix_sum_idx` does, without checks."""
        sums = self._levels[-1].cumsum()
        values = np.maximum(values, _TINY)
        rest = np.minimum(values, sums[-1])
        index: NDArray[np.intp] = sums.searchsorted(rest)
        below = self._levels[-2::-1]
        if below:
            rest -= sums.take(index) - self._levels[-1].take(index)
            np.maximum(rest, _TINY, out=rest)
        rows = np.arange(len(index)) * _WIDTH
        for level in below:
            before = level.reshape(-1, _WIDTH).take(index, 0, mode="clip") @ _BEFORE
            # The last number whose sum before it is less than the rest; argmin is 0, and so -1, if that is all of them.
            position = ((before < rest[:, None]).argmin(1) - 1) % _WIDTH
            index = index * _WIDTH + position
            if level is not below[-1]:
                rest -= before.ravel().take(rows + position)
                np.maximum(rest, _TINY, out=rest)
        index = np.minimum(index, self._size - 1)
        if not self._levels[0].take(index).all():  # the sums of different levels are rounded differently
            index = np.minimum(self.values.cumsum().searchsorted(values), np.flatnonzero(self.values)[-1])
        return index
