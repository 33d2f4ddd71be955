"""Priorities: what a prioritized buffer keeps beside its rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch.buffers.declared import Declared
from typedbatch.buffers.options import BufferOptions
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.segment_tree import SegmentTree
from typedbatch.buffers.settings import number_of
from typedbatch.buffers.state import State
from typedbatch.errors import SettingError, StorageError


class PrioritizedState(State):
    """Rows that are drawn in proportion to their priority.

    Args:
        cls: the class of the buffer.
        capacities: slots of each ring.
        options: what the buffer was made with.
        alpha: how much priorities matter.
        beta: how much of the bias the weights take back.
        weight_norm: whether the weights of each batch are divided by the highest among them.
        many: whether a batch that is added without ``buffer_ids`` has a row for each ring.

    Raises:
        SettingError: ``alpha`` is not a finite number above 0, or ``beta`` not one from 0 on.
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
            raise SettingError("alpha is above 0, got 0; a ReplayBuffer samples uniformly")
        self.set_beta(beta)
        super().__init__(cls, capacities, options, many=many)
        self.alpha: float = alpha
        self.weight_norm: bool = weight_norm
        self.highest: float = 1.0
        """The highest priority so far, which new rows get."""
        self.lowest: float = 1.0
        self.weight: SegmentTree = SegmentTree(self.rings.size)
        """``p**alpha`` of each slot."""
        self.weight.use(self.storage.extra("priorities", self.weight.room))

    def set_beta(self, beta: float) -> None:
        """Change ``beta``.

        Raises:
            SettingError: it is below 0, or no finite number.
        """
        self.beta: float = number_of(beta, "beta")

    def newest(self) -> float:
        """``p**alpha`` of a new row."""
        return float(self.highest**self.alpha)

    def weights(self, slots: Any) -> Any:
        """The importance-sampling weights of slots, relative to the lowest priority so far."""
        return (self.weight.values.take(slots) / self.lowest**self.alpha) ** -self.beta

    def set(self, slots: Any, powers: Any, highest: float = 0.0, lowest: float = math.inf) -> None:
        """Set ``p**alpha`` of slots, whose priorities are in these bounds."""
        self.weight[slots] = powers
        self.highest = max(self.highest, highest)
        self.lowest = min(self.lowest, lowest)
        super().on_rows_written(np.zeros(0, np.intp))

    def undoing_priorities(self, slots: Any) -> Callable[[], None]:
        """What gives slots the priorities that they have now."""
        before, highest, lowest = self.weight[slots], self.highest, self.lowest

        def undo() -> None:
            self.weight[slots] = before
            self.weight.rebuild()
            self.highest, self.lowest = highest, lowest
            super(PrioritizedState, self).on_rows_written(np.zeros(0, np.intp))

        return undo

    # ---- as every state, with priorities --------------------------------------------------------------------------

    def draw(self, count: int) -> Slots:
        places = self.rng.random(count) * self.weight.reduce()
        places.sort()  # what is found in order is found faster, by more than the shuffle takes
        slots: Slots = self.weight.find(places)
        self.rng.shuffle(slots)
        return slots

    def rows(self, slots: Any) -> Any:
        rows = super().rows(slots)
        weights = self.weights(slots)
        rows.__dict__["weight"] = weights / weights.max() if self.weight_norm and weights.size else weights
        return rows

    def part_declaration(self) -> Declared:
        return Declared(self.hint, sampled=None)

    def forget(self, keep_statistics: bool = False) -> None:
        self.highest = self.lowest = 1.0
        super().forget(keep_statistics)

    def on_rows_written(self, slots: Slots) -> None:
        if len(slots):
            self.weight[slots] = self.newest()
        super().on_rows_written(slots)

    def on_rows_forgotten(self, start: int, stop: int) -> None:
        self._clear([slice(start, stop)])

    def on_rows_moved(self, slots: Slots, extras: dict[str, NDArray[np.float64]]) -> None:
        self.weight[slots] = extras["priorities"]

    def on_rows_dropped(self) -> None:
        self._clear(self.rings.free())

    def _clear(self, ranges: list[slice]) -> None:
        """Set priorities to 0; those that are 0 are not written to, as untouched memory takes no room."""
        for one in ranges:
            values = self.weight.values[one]
            values[np.flatnonzero(values)] = 0
        self.weight.rebuild()

    def numbers(self) -> NDArray[np.float64]:
        return np.concatenate([super().numbers(), [self.highest, self.lowest, self.beta]])

    def restore(self, numbers: NDArray[np.float64]) -> None:
        super().restore(numbers[:-3])
        self.highest, self.lowest, beta = numbers[-3:].tolist()
        self.set_beta(beta)
        self.weight.use(self.storage.extras["priorities"])
        self.on_rows_dropped()  # those whose rows were half written
        some = self.weight.values[self.rings.stored()]
        if not (np.isfinite(some) & (some > 0)).all() or not 0 < self.lowest <= self.highest < np.inf:
            raise StorageError("priorities that are not above 0 and finite")

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "alpha": self.alpha, "beta": self.beta, "weight_norm": self.weight_norm}
