"""``PrioritizedReplayBuffer``: transitions sampled in proportion to their priority (arXiv:1511.05952)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from typedbatch._ops.conversion import to_numpy
from typedbatch._tree.leaves import describe
from typedbatch._typing import Index
from typedbatch.buffers.declared import Declared
from typedbatch.buffers.guard import changing, exclusive, exclusive_at
from typedbatch.buffers.options import BufferOptions, R
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.rings import Rings, Slots
from typedbatch.buffers.segment_tree import SegmentTree
from typedbatch.buffers.selection import as_slots
from typedbatch.buffers.vector import capacities
from typedbatch.errors import RowAssignmentError, SettingError, StorageError
from typedbatch.protocols import BatchProtocol, PrioBatchProtocol

P = TypeVar("P", bound=BatchProtocol, covariant=True, default=PrioBatchProtocol)
"""What is sampled."""

_EPS = float(np.finfo(np.float32).eps)


class PrioritizedReplayBuffer(ReplayBuffer[R, P]):
    """A replay buffer that samples transition ``i`` with probability ``p_i**alpha / sum(p**alpha)``.

    What is sampled has a field ``weight``, the importance-sampling weight ``(N * P(i))**-beta`` over that of the least
    likely transition so far. A new transition gets the highest priority so far.

    ``PrioritizedReplayBuffer[GoalRollout, PrioGoalRollout]`` takes the one and samples the other, which has a
    ``weight`` more; without a second argument what is sampled is a ``PrioBatchProtocol``.

    Args:
        size: transitions to keep.
        alpha: how much priorities matter; above 0, where 0 would be uniform.
        beta: how much of the bias the weights take back, from 0 to 1.
        weight_norm: divide the weights of each batch by the highest among them.
        **options: as for :class:`ReplayBuffer`. ``sample_avail`` has no effect here.

    Raises:
        SettingError: ``alpha`` is not above 0, or ``beta`` is below it (an ``AssertionError`` too).
    """

    def __init__(
        self, size: int, alpha: float, beta: float, weight_norm: bool = True, **options: Unpack[BufferOptions]
    ) -> None:
        if not alpha > 0:
            raise SettingError(f"alpha is above 0, got {alpha!r}; a ReplayBuffer samples uniformly")
        self._alpha: float = alpha
        self.set_beta(beta)
        super().__init__(size, **options)
        self._weight_norm: bool = weight_norm
        self._max_prio = self._min_prio = 1.0
        self.weight: SegmentTree = SegmentTree(self.maxsize)
        """``p**alpha`` of each slot."""
        self.weight.use(self._storage.extra("priorities", self.weight.room))
        self._begin(PrioritizedReplayBuffer)

    def set_beta(self, beta: float) -> None:
        """Change ``beta``, as annealing does.

        Raises:
            SettingError: it is below 0.
        """
        if not beta >= 0:
            raise SettingError(f"beta is 0 or more, got {beta!r}")
        self._beta: float = beta

    @changing
    def init_weight(self, index: int | Slots) -> None:
        """Give slots the priority of new transitions: the highest so far.

        Raises:
            RowIndexError: a slot that does not exist, or holds no row.
        """
        slots = as_slots(self._rings, index)
        self._change(self._undoing_priorities(slots), partial(self._set, slots, self._max_prio**self._alpha))

    @exclusive_at
    def get_weight(self, index: Index) -> Any:
        """The importance-sampling weight of slots, relative to the lowest priority so far; float64, ``(N,)``.

        Raises:
            RowIndexError: a slot that does not exist, or holds no row.
        """
        return self._weights(as_slots(self._rings, index))

    def _weights(self, slots: Any) -> Any:
        return (self.weight.values.take(slots) / self._min_prio**self._alpha) ** -self._beta

    @changing
    def update_weight(self, index: Index, new_weight: Any) -> None:
        """Set the priorities of slots, from TD errors for one.

        Args:
            index: the slots, as ``sample`` returns them; where one comes twice, the later priority counts.
            new_weight: the priorities, array or tensor, ``(N,)``; their sign is dropped, and a tiny number added.

        Raises:
            RowAssignmentError: not one priority per slot, or one that is NaN or infinite. Nothing was changed.
            RowIndexError: a slot that does not exist, or holds no row.
        """
        slots = as_slots(self._rings, index)
        given = np.asarray(to_numpy(new_weight))
        if given.dtype.kind not in "biuf":
            raise RowAssignmentError(f"priorities are numbers, got {describe(given)}", "weight")
        priorities = np.abs(given.astype(np.float64)) + _EPS
        with np.errstate(over="ignore"):
            powers = priorities**self._alpha
        if priorities.shape != np.shape(slots) and priorities.ndim:
            wanted = list(np.shape(slots))
            raise RowAssignmentError(f"priorities of shape {wanted} are expected, got {describe(priorities)}", "weight")
        if not np.isfinite(powers).all():
            raise RowAssignmentError("priorities, and their powers, are finite, but these are not all", "weight")
        if not np.size(slots):
            return
        update = partial(self._set, slots, powers, float(priorities.max()), float(priorities.min()))
        self._change(self._undoing_priorities(slots), update)

    def _set(self, slots: Any, powers: Any, highest: float = 0.0, lowest: float = math.inf) -> None:
        self.weight[slots] = powers
        self._max_prio = max(self._max_prio, highest)
        self._min_prio = min(self._min_prio, lowest)
        super()._on_rows_written(np.zeros(0, np.intp))

    def _undoing_priorities(self, slots: Any) -> Callable[[], None]:
        """What gives slots the priorities that they have now."""
        before, highest, lowest = self.weight[slots], self._max_prio, self._min_prio

        def undo() -> None:
            self.weight[slots] = before
            self.weight.rebuild()
            self._max_prio, self._min_prio = highest, lowest
            super(PrioritizedReplayBuffer, self)._on_rows_written(np.zeros(0, np.intp))

        return undo

    def _on_rows_dropped(self) -> None:
        self.weight.values[~self._rings.has_row(np.arange(self.maxsize))] = 0
        self.weight.rebuild()

    # ---- as every buffer, with weights ----------------------------------------------------------------------------

    def _draw(self, count: int) -> Slots:
        places = self._rng.random(count) * self.weight.reduce()
        places.sort()  # what is found in order is found faster, by more than the shuffle takes
        slots: Slots = self.weight.find(places)
        self._rng.shuffle(slots)
        return slots

    @exclusive
    def sample_indices(self, batch_size: int | None) -> Slots:
        """As :meth:`ReplayBuffer.sample_indices`, in proportion to priorities."""
        if batch_size is None and len(self._rings):
            return self._rng.permutation(self._rings.chronological())
        if batch_size is not None and batch_size > 0 and len(self._rings):
            return self._draw(batch_size)
        return super().sample_indices(batch_size)

    def _rows(self, slots: Any) -> Any:
        rows = super()._rows(slots)
        weights = self._weights(slots)
        rows.__dict__["weight"] = weights / weights.max() if self._weight_norm and weights.size else weights
        return rows

    @property
    def buffers(self) -> list[ReplayBuffer[R, Any]]:
        """As :attr:`ReplayBuffer.buffers`, without priorities and weights."""
        return super().buffers

    def _part_declaration(self) -> Declared:
        return Declared(self, sampled=None)

    def _on_rows_written(self, slots: Slots) -> None:
        if len(slots):
            self.weight[slots] = self._max_prio**self._alpha
        super()._on_rows_written(slots)

    def _on_rows_forgotten(self, slots: Slots) -> None:
        self.weight[slots] = 0

    def _on_rows_moved(self, slots: Slots, extras: dict[str, NDArray[np.float64]]) -> None:
        self.weight[slots] = extras["priorities"]

    def reset(self, keep_statistics: bool = False) -> None:
        """As :meth:`ReplayBuffer.reset`; priorities are forgotten too."""
        super().reset(keep_statistics)

    def _forget(self, keep_statistics: bool) -> None:
        self._max_prio = self._min_prio = 1.0
        super()._forget(keep_statistics)

    def _numbers(self) -> NDArray[np.float64]:
        return np.concatenate([super()._numbers(), [self._max_prio, self._min_prio, self._beta]])

    def _restore(self, numbers: NDArray[np.float64]) -> None:
        super()._restore(numbers[:-3])
        self._max_prio, self._min_prio, beta = numbers[-3:].tolist()
        self.set_beta(beta)
        self.weight.use(self._storage.extras["priorities"])
        rows = self._rings.has_row(np.arange(self.maxsize))
        self.weight.values[~rows] = 0  # those whose rows were half written
        self.weight.rebuild()
        some = self.weight.values[rows]
        if not (np.isfinite(some) & (some > 0)).all() or not 0 < self._min_prio <= self._max_prio < np.inf:
            raise StorageError("priorities that are not above 0 and finite")

    def _arguments(self) -> dict[str, Any]:
        own = {"alpha": self._alpha, "beta": self._beta, "weight_norm": self._weight_norm}
        return {**super()._arguments(), **own}


class PrioritizedVectorReplayBuffer(PrioritizedReplayBuffer[R, P]):
    """A :class:`PrioritizedReplayBuffer` with a ring for each of ``buffer_num`` environments.

    Args:
        total_size: transitions to keep, of all environments; rounded up to a multiple of ``buffer_num``.
        buffer_num: environments.
        alpha: as for :class:`PrioritizedReplayBuffer`, like the others.
        beta: likewise.
        weight_norm: likewise.
        **options: as for :class:`ReplayBuffer`.
    """

    _many = True

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
        super().__init__(sum(sizes), alpha, beta, weight_norm, **options)
        self._rings = Rings(sizes)
        self._begin(PrioritizedVectorReplayBuffer)
