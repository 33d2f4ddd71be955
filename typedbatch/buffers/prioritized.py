"""``PrioritizedReplayBuffer``: transitions sampled in proportion to their priority (arXiv:1511.05952)."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from typing_extensions import TypeVar

from typedbatch._ops.conversion import to_numpy
from typedbatch._tree.kinds import describe
from typedbatch._typing import Index
from typedbatch.buffers.guard import locked, locked_at, locked_for_writing
from typedbatch.buffers.occupancy import Slots
from typedbatch.buffers.options import BufferOptions, R
from typedbatch.buffers.priorities import LEAST, MOST, PrioritizedState
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.segment_tree import SegmentTree
from typedbatch.buffers.selection import as_slots
from typedbatch.buffers.settings import count_of
from typedbatch.buffers.vector import capacities
from typedbatch.errors import RowAssignmentError
from typedbatch.protocols import BatchProtocol, PrioBatchProtocol

P = TypeVar("P", bound=BatchProtocol, covariant=True, default=PrioBatchProtocol)
"""Type of the batches that are sampled."""

_EPS = float(np.finfo(np.float32).eps)


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
        self._begin(PrioritizedState(type(self), [count_of(size, "size")], options, alpha, beta, weight_norm))

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
        slots = as_slots(state.rings, index)
        state.transaction(state.make_priority_rollback(slots), partial(state.set, slots, state.newest()))

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
        if not _is_storable(highest, state.alpha):
            raise RowAssignmentError(
                f"priorities, and their powers with alpha, must be finite and below 1e150, got {describe(given)} in "
                "which some are not",
                "weight",
            )
        update = partial(state.set, slots, np.maximum(priorities**state.alpha, LEAST), highest, lowest)
        state.transaction(state.make_priority_rollback(slots), update)

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

    @property
    def buffers(self) -> list[ReplayBuffer[R, Any]]:
        """Each ring as a buffer, as in :attr:`ReplayBuffer.buffers`, without priorities and weights."""
        return super().buffers


def _is_storable(number: float, alpha: float) -> bool:
    try:
        return bool(max(number, number**alpha) <= MOST)  # false for NaN
    except OverflowError:
        return False


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
        self._begin(PrioritizedState(type(self), sizes, options, alpha, beta, weight_norm, many=True))
