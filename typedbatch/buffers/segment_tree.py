"""``SegmentTree``: sums over ranges, and the place where a running sum passes a value, for many values at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._tree.leaves import describe
from typedbatch.buffers.settings import count_of
from typedbatch.errors import RowIndexError, SizeError

Floats = NDArray[np.float64]

_WIDTH = 17  # values under one sum: wide enough for numpy to be at its best, and sums take 6 % of the values' memory
_TOP = 1024  # a level of so many sums, or fewer, is searched as it is

_TINY = np.finfo(np.float64).tiny  # what is looked for is more than nothing, so that no 0 is found

_ONES = np.ones(_WIDTH)
_BEFORE = np.triu(np.ones((_WIDTH, _WIDTH)), 1)
"""``rows @ _BEFORE`` are the sums of what stands before each number in its row, for a fifth of what cumsum takes."""


class SegmentTree:
    """``size`` numbers, 0 at first, whose sums are kept up to date.

    Each level holds the sums of 17 numbers of the level below, up to a level of 1,024 sums or fewer. So setting or
    finding 256 of 100,000 numbers is a dozen numpy operations, and no compiler is needed.

    Args:
        size: how many numbers.

    As Tianshou's ``SegmentTree``, except that what it is given is never written to, and that a negative index counts
    from the end.
    """

    def __init__(self, size: int) -> None:
        self._size: int = count_of(size, "the size of a tree")
        size = self._size
        self._levels: list[Floats] = [np.zeros(_padded(size))]
        while len(self._levels[-1]) > _TOP:
            self._levels.append(np.zeros(_padded(len(self._levels[-1]) // _WIDTH)))

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> Floats:
        """The numbers, live, ``(size,)``; to be written through ``tree[index] = value`` alone."""
        return self._levels[0][: self._size]

    def __getitem__(self, index: Any) -> Any:
        """The number, or numbers, at an index, as a copy.

        Raises:
            RowIndexError: there is no such number.
        """
        return self._levels[0].take(self._as_indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set numbers; where an index comes twice, the later value counts.

        Raises:
            RowIndexError: there is no such number. Nothing was set.
            ValueError: as many indices and values are needed, or one value. Nothing was set.
        """
        index = np.atleast_1d(self._as_indices(index))
        self._levels[0][index] = value
        for below, level in zip(self._levels, self._levels[1:], strict=False):
            if len(below) <= 4 * _WIDTH * len(index):
                _sum_up(below, level)
            else:
                index = index // _WIDTH
                level[index] = below.reshape(-1, _WIDTH).take(index, 0) @ _ONES

    def _as_indices(self, index: Any) -> Any:
        index = np.asarray(index)
        if index.dtype.kind not in "iu" and index.size:
            raise RowIndexError(f"numbers are named by integers, got {describe(index)}")
        index = index.astype(np.intp, copy=False)
        if index.size and (index.min() < -self._size or index.max() >= self._size):
            wrong = index.min() if index.min() < -self._size else index.max()
            raise RowIndexError(f"number {int(wrong)} of {self._size}")
        return np.where(index < 0, index + self._size, index) if index.size and index.min() < 0 else index

    def rebuild(self) -> None:
        """Compute all sums anew, after ``values`` were written to."""
        self._levels[0][self._size :] = 0
        for below, level in zip(self._levels, self._levels[1:], strict=False):
            _sum_up(below, level)

    @property
    def room(self) -> int:
        """How many numbers there is room for, which is ``size``, rounded up."""
        return len(self._levels[0])

    def use(self, values: Floats) -> None:
        """Take ``room`` numbers from an array, and keep them there from now on.

        Raises:
            SizeError: there are more or fewer.
        """
        if values.shape != (self.room,) or values.dtype != np.float64:
            raise SizeError(f"{self.room} numbers are expected, got {describe(values)}")
        self._levels[0] = values
        self.rebuild()

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        """The sum of the numbers from ``start`` up to ``end``, which is not among them.

        Args:
            start: the first one; negative from the end.
            end: where to stop; negative from the end, None for all.

        Raises:
            RowIndexError: they are no whole numbers.
        """
        try:
            first, stop, _ = slice(start, end).indices(self._size)
        except TypeError:
            raise RowIndexError(f"a range of numbers is between whole numbers, got {start!r} and {end!r}") from None
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
        """The first index up to which the numbers sum to ``value`` or more, for each value.

        With non-negative numbers ``get_prefix_sum_idx(u * tree.reduce())`` draws an index in proportion to its number,
        for ``u`` uniform in [0, 1). A number that is 0 is never found.

        Args:
            value: a number or an array of them, at least 0 and less than the sum of all; it is left as it is.

        Returns:
            An int for a number, else an array of the same shape.

        Raises:
            SizeError: a value is negative, not a number, or too large (an ``AssertionError`` too).
        """
        try:
            values = np.atleast_1d(np.asarray(value, np.float64))
        except (TypeError, ValueError) as error:
            raise SizeError(f"values are numbers, got {describe(value)}") from error
        total = self.reduce()
        if not ((values >= 0) & (values < total)).all():
            raise SizeError(f"values are at least 0 and less than the sum of all, {total}")
        index = self.find(values.ravel())
        return int(index[0]) if np.ndim(value) == 0 else index.reshape(np.shape(value))

    def find(self, values: Floats) -> NDArray[np.intp]:
        """:meth:`get_prefix_sum_idx` for an array, ``(N,)``, of values that are known to be in range."""
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
            place = ((before < rest[:, None]).argmin(1) - 1) % _WIDTH  # the last that is less; -1 if all of them are
            index = index * _WIDTH + place
            if level is not below[-1]:
                rest -= before.ravel().take(rows + place)
                np.maximum(rest, _TINY, out=rest)
        index = np.minimum(index, self._size - 1)
        if not self._levels[0].take(index).all():  # sums that were rounded in another order
            index = np.minimum(self.values.cumsum().searchsorted(values), np.flatnonzero(self.values)[-1])
        return index


def _sum_up(below: Floats, level: Floats) -> None:
    groups = below.reshape(-1, _WIDTH)
    level[: len(groups)] = groups @ _ONES


def _padded(size: int) -> int:
    return -(-size // _WIDTH) * _WIDTH
