"""The state of a prioritized buffer: its settings, and the priority of each slot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from typedbatch.buffers.declared import DeclaredTypes
from typedbatch.buffers.occupancy import Slots
from typedbatch.buffers.options import BufferOptions
from typedbatch.buffers.segment_tree import SegmentTree
from typedbatch.buffers.settings import number_of
from typedbatch.buffers.state import State
from typedbatch.errors import SettingError, StorageError

LEAST: Final = 2.0**-500
"""Lowest ``p**alpha``, which is stored for lower ones: it is above 0, so that every row can be sampled."""
MOST: Final = 2.0**500
"""Highest ``p**alpha``: sums and ratios of such numbers are finite."""


class PrioritizedState(State):
    """State of a buffer whose rows are drawn in proportion to their priority.

    Args:
        cls: Class of the buffer.
        capacities: Number of slots of each ring.
        options: Options of the buffer.
        alpha: Exponent of the priorities.
        beta: Exponent of the importance-sampling weights.
        weight_norm: Whether the weights of each batch are divided by the highest among them.
        many: Whether a batch that is added without ``buffer_ids`` has a row for each ring.

    Raises:
        SettingError: ``alpha`` is not a finite number above 0, or ``beta`` is not a finite number of at least 0.
    """

    def __init__(
        self,
        cls: type,
        capacities: list[int],
        options: BufferOptions,
        alpha: float,
        beta: float,
        weight_norm: bool,
        *,
        many: bool = False,
    ) -> None:
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

    def set_beta(self, beta: float) -> None:
        """Set ``beta``.

        Raises:
            SettingError: ``beta`` is below 0, or not a finite number.
        """
        self.beta: float = number_of(beta, "beta")

    def newest(self) -> float:
        """Return ``p**alpha`` of a new row."""
        return float(self.highest**self.alpha)

    def weights(self, slots: Any) -> Any:
        """Return the importance-sampling weights of slots, relative to that of the lowest priority so far."""
        return (self.weight.values.take(slots) / max(self.lowest**self.alpha, LEAST)) ** -self.beta

    def set(self, slots: Any, powers: Any, highest: float = 0.0, lowest: float = math.inf) -> None:
        """Set ``p**alpha`` of slots.

        Args:
            slots: Slots to set, a number or ``(N,)``.
            powers: New values of ``p**alpha``.
            highest: Highest of the new priorities.
            lowest: Lowest of the new priorities.
        """
        self.weight.put(np.atleast_1d(slots), powers)
        self.highest = max(self.highest, highest)
        self.lowest = min(self.lowest, lowest)
        super().on_rows_written(np.zeros(0, np.intp))

    def make_priority_rollback(self, slots: Any) -> Callable[[], None]:
        """Return a rollback that restores the current priorities of slots."""
        before, highest, lowest = self.weight.values.take(slots), self.highest, self.lowest

        def rollback() -> None:
            self.weight[slots] = before
            self.weight.rebuild()
            self.highest, self.lowest = highest, lowest
            super(PrioritizedState, self).on_rows_written(np.zeros(0, np.intp))

        return rollback

    # ---- overrides of State ---------------------------------------------------------------------------------------

    def draw(self, count: int) -> Slots:
        values = self.rng.random(count) * self.weight.reduce()
        values.sort()  # sorted values are found faster, which saves more time than the shuffle takes
        slots: Slots = self.weight.find(values)
        self.rng.shuffle(slots)
        return slots

    def rows(self, slots: Any) -> Any:
        rows = super().rows(slots)
        if self.weight_norm and np.size(slots):
            powers = self.weight.values.take(slots)
            rows.__dict__["weight"] = (powers / powers.min()) ** -self.beta
        else:
            rows.__dict__["weight"] = self.weights(slots)
        return rows

    def part_declaration(self) -> DeclaredTypes:
        return DeclaredTypes(self.hint, sampled=None)

    def forget(self, keep_statistics: bool = False) -> None:
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
        """Set the priorities of ranges of slots to 0.

        Those that are 0 already are not written to, because pages that were never written take no memory.
        """
        for slots in ranges:
            values = self.weight.values[slots]
            values[np.flatnonzero(values)] = 0
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
