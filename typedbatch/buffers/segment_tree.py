"""``SegmentTree``: sums over ranges, and vectorized search for the index at which a running sum reaches a value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._tree.kinds import describe
from typedbatch.buffers.settings import count_of
from typedbatch.errors import RowIndexError, SizeError

Floats = NDArray[np.float64]

_WIDTH = 17  # values under one sum; wide enough for numpy to be fast, and sums take 6 % of the memory of the values
_TOP = 4096  # a level of at most this many sums is searched directly, which takes less time than another level

_TINY = np.finfo(np.float64).tiny  # search values are at least this, so numbers that are 0 are never found

_ONES = np.ones(_WIDTH)
_BEFORE = np.triu(np.ones((_WIDTH, _WIDTH)), 1)
"""Matrix for exclusive running sums: ``rows @ _BEFORE`` takes a fifth of the time of ``cumsum``."""


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
