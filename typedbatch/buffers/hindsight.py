"""``HERReplayBuffer``: hindsight experience replay, with missed goals replaced by reached ones (arXiv:1707.01495)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.casting import fitted
from typedbatch._ops.construct import refuse_on_instances
from typedbatch._ops.conversion import leaf_to_numpy, to_numpy
from typedbatch._ops.copying import deep_leaf
from typedbatch._tree.kinds import describe
from typedbatch._typing import Array
from typedbatch.buffers import restore
from typedbatch.buffers.columns import take_slots
from typedbatch.buffers.goals import GoalState, Relabelled
from typedbatch.buffers.guard import locked, locked_at, locked_for_writing
from typedbatch.buffers.occupancy import Slots
from typedbatch.buffers.options import BufferOptions, R, S
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.selection import as_slots
from typedbatch.buffers.settings import count_of
from typedbatch.buffers.vector import capacities
from typedbatch.errors import LeafError, RowAssignmentError

RewardFn = Callable[[Array, Array], Array]
"""Function that takes achieved and desired goals, ``(N, *goal)`` each, and returns rewards, ``(N,)``."""
TerminatedFn = Callable[[Array, Array], NDArray[np.bool_]]
"""Function that takes achieved and desired goals, ``(N, *goal)`` each, and returns flags, ``(N,)``, bool."""


class HERReplayBuffer(ReplayBuffer[R, S]):
    """A replay buffer that samples episodes as if their goal had been one that they reached later.

    ``obs`` is a batch with ``achieved_goal`` and ``desired_goal``. Whenever rows are sampled, most of the sampled
    episodes get another goal. It is the goal achieved at a later step (strategy "future"), which is drawn for the last
    sampled step of the episode. From the first sampled row to the end of the episode, rows are then read with that
    goal and its reward, in n-step returns too, until rows are sampled or added again. Stored rows do not change.

    Args:
        size: Number of transitions to store.
        compute_reward_fn: Function that takes achieved and desired goals, ``(N, *goal)`` each, and returns rewards,
            ``(N,)``.
        horizon: Maximum number of steps of an episode; a new goal is achieved fewer than ``horizon`` steps later.
        future_k: Average number of relabeled episodes for each one that keeps its goal.
        compute_terminated_fn: Function that takes achieved and desired goals, ``(N, *goal)`` each, and returns
            ``terminated`` of rows with another goal, bool ``(N,)``, for environments in which reaching the goal ends an
            episode. n-step returns stop there. With None, rows keep the ``terminated`` of the goal they were stored
            with.
        **options: Options of :class:`ReplayBuffer`.

    Raises:
        SizeError: ``horizon`` or ``future_k`` is below 1.
        LeafError: ``compute_reward_fn`` or ``compute_terminated_fn`` is not a function.

    Like Tianshou's ``HERReplayBuffer``, except that Tianshou's overwrites the stored rows.
    """

    def __init__(
        self,
        size: int,
        compute_reward_fn: RewardFn,
        horizon: int,
        future_k: float = 8.0,
        *,
        compute_terminated_fn: TerminatedFn | None = None,
        **options: Unpack[BufferOptions],
    ) -> None:
        self._use_functions(compute_reward_fn, compute_terminated_fn)
        self._begin(GoalState(type(self), [count_of(size, "size")], options, horizon, future_k))

    if TYPE_CHECKING:
        _state: GoalState  # pyright: ignore[reportIncompatibleVariableOverride]  # set once, by _begin

    def _use_functions(self, compute_reward_fn: RewardFn, compute_terminated_fn: TerminatedFn | None) -> None:
        self.compute_reward_fn: RewardFn = _function(compute_reward_fn, "compute_reward_fn")
        self.compute_terminated_fn: TerminatedFn | None = None
        if compute_terminated_fn is not None:
            self.compute_terminated_fn = _function(compute_terminated_fn, "compute_terminated_fn")

    @property
    def horizon(self) -> int:
        """Maximum number of steps of an episode."""
        return self._state.horizon

    @property
    def future_k(self) -> float:
        """Average number of relabeled episodes for each one that keeps its goal."""
        return self._state.future_k

    @property
    def future_p(self) -> float:
        """Probability that an episode gets another goal, ``1 - 1 / future_k``. Setting it changes ``future_k``.

        Raises:
            SettingError: The value is not in [0, 1].
        """
        return self._state.future_p

    @future_p.setter
    @locked_for_writing
    def future_p(self, future_p: float) -> None:
        self._state.set_future_p(future_p)

    @locked
    def sample_indices(self, batch_size: int | None) -> Slots:
        """Return slots as :meth:`ReplayBuffer.sample_indices` does, and draw new goals for their episodes."""
        self._state.relabelled = None
        slots = super().sample_indices(batch_size)
        self.rewrite_transitions(slots)
        return slots

    @locked_at
    def rewrite_transitions(self, indices: Slots) -> None:
        """Relabel most of the episodes of some slots with another goal; episodes relabeled before get theirs back.

        Raises:
            RowIndexError: A slot does not exist, or holds no row.
            RowAssignmentError: Achieved goals do not fit desired goals, or ``compute_reward_fn`` does not return one
                reward for each row, or ``compute_terminated_fn`` one bool.
        """
        self._state.relabelled = None
        slots = self._in_order(np.atleast_1d(as_slots(self._state.rings, indices)))
        if not len(slots):
            return
        end, remaining = self._ends(slots)
        ends, first, episode = np.unique(end, return_index=True, return_inverse=True)
        latest = np.zeros_like(first)
        latest[episode] = np.arange(len(slots))  # slots are in time order, so the last assignment is the latest row
        chosen = self._state.rng.random(len(ends)) < self.future_p
        if chosen.any():
            start = self._state.frames(slots[first[chosen]], self._state.stack_num)
            begin = start if start.ndim == 1 else start[:, 0]
            steps = self._state.rng.integers(0, np.minimum(remaining[latest], self.horizon - 1)[chosen], endpoint=True)
            self._relabel(begin, ends[chosen], self._ahead(slots[latest[chosen]], steps))

    def _in_order(self, slots: Slots) -> Slots:
        """Sort slots by ring, then by time."""
        ring = np.broadcast_to(self._state.rings.ring_of(slots), slots.shape)
        age = (slots - self._state.rings.oldest[ring]) % self._state.rings.capacity[ring]
        return slots[np.lexsort((age, ring))]

    def _ends(self, slots: Slots) -> tuple[Slots, Slots]:
        """Return the last slot of the episode of each slot, and the number of steps to it."""
        remaining = np.zeros_like(slots)
        while True:
            slots, continues = self._state.rings.step(slots, self._state.done)
            if not continues.any():
                return slots, remaining
            remaining = remaining + continues

    def _ahead(self, slots: Slots, steps: Slots) -> Slots:
        """Return the slots ``steps`` steps later in the same ring."""
        ring = self._state.rings.ring_of(slots)
        start = self._state.rings.offset[ring]
        ahead: Slots = (slots - start + steps) % self._state.rings.capacity[ring] + start
        return ahead

    def _relabel(self, begin: Slots, end: Slots, future: Slots) -> None:
        """Set the rows that are read with another goal.

        Args:
            begin: First slot to relabel of each episode.
            end: Last slot of each episode.
            future: Slot of each episode whose achieved goal becomes the desired goal.
        """
        columns = self._state.columns.__dict__
        lengths = (end - begin) % self._state.rings.capacity[self._state.rings.ring_of(begin)] + 1
        episode = np.repeat(np.arange(len(begin)), lengths)
        steps = np.arange(len(episode)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        slots = self._ahead(begin[episode], steps)
        order = slots.argsort()
        slots, goal = slots[order], self._achieved_next(future)[episode[order]]
        desired = columns["obs"].__dict__["desired_goal"]
        if goal.shape[1:] != desired.shape[1:]:
            raise RowAssignmentError(
                f"achieved goals must have the shape of desired goals {describe(desired)}, got {describe(goal)}", "obs"
            )
        goal = fitted(desired, goal)
        fields = {"rew": self._computed("compute_reward_fn", "rew", slots, goal, "biuf")}
        if self.compute_terminated_fn is not None:
            terminated = self._computed("compute_terminated_fn", "terminated", slots, goal, "b")
            # A stored end remains the end of the rows, even if the new goal is not reached there.
            done = leaf_to_numpy(terminated) | take_slots(columns["done"], slots)
            fields |= {"terminated": terminated, "done": done}
        self._state.relabelled = Relabelled(slots, goal, fields)

    def _computed(self, function: str, name: str, slots: Slots, goal: Array, kinds: str) -> Any:
        """Return a field of rows with another goal, in the dtype of its column.

        Args:
            function: Name of the attribute with the function of the achieved and desired goals.
            name: Name of the field.
            slots: Slots of the rows.
            goal: The desired goal of each row.
            kinds: Kinds of dtypes that the function may return.
        """
        column = self._state.columns.__dict__[name]
        value = np.array(to_numpy(getattr(self, function)(self._achieved_next(slots), deep_leaf(goal, {}))))
        wanted = (len(slots), *column.shape[1:])
        if value.shape != wanted or value.dtype.kind not in kinds:
            what = f"{'flags (bool)' if kinds == 'b' else 'rewards'} of shape {list(wanted)}"
            raise RowAssignmentError(f"{function} must return {what}, got {describe(value)}", name)
        return fitted(column, value)

    def _achieved_next(self, slots: Slots) -> Array:
        """Return the goal that each row achieved in its ``obs_next``."""
        columns = self._state.columns.__dict__
        if self._state.save_obs_next:
            reached: Array = take_slots(columns["obs_next"].__dict__["achieved_goal"], slots)
        else:
            reached = take_slots(
                columns["obs"].__dict__["achieved_goal"], self._state.rings.next(slots, self._state.done)
            )
        return reached

    @classmethod
    def load_hdf5(
        cls,
        path: str | os.PathLike[str],
        device: Any = None,
        *,
        trusted: bool = False,
        compute_reward_fn: RewardFn | None = None,
        compute_terminated_fn: TerminatedFn | None = None,
    ) -> Self:
        """Load a buffer as :meth:`ReplayBuffer.load_hdf5` does, with its functions, which are not saved."""
        from typedbatch.buffers import hdf5

        reward = _required(compute_reward_fn, "load_hdf5")
        return hdf5.load(
            cls, path, device, trusted=trusted, compute_reward_fn=reward, compute_terminated_fn=compute_terminated_fn
        )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Literal["r", "r+"] = "r+",
        *,
        compute_reward_fn: RewardFn | None = None,
        compute_terminated_fn: TerminatedFn | None = None,
    ) -> Self:
        """Open a buffer as :meth:`ReplayBuffer.open` does, with its functions, which are not in the folder."""
        reward = _required(compute_reward_fn, "open")
        return restore.open_folder(
            cls, path, mode, compute_reward_fn=reward, compute_terminated_fn=compute_terminated_fn
        )


refuse_on_instances(HERReplayBuffer, "load_hdf5", "open")


class HERVectorReplayBuffer(HERReplayBuffer[R, S]):
    """A :class:`HERReplayBuffer` with a ring for each of ``buffer_num`` environments.

    Args:
        total_size: Number of transitions to store, of all environments; rounded up to a multiple of ``buffer_num``.
        buffer_num: Number of environments.
        compute_reward_fn: Reward function, as for :class:`HERReplayBuffer`.
        horizon: Maximum number of steps of an episode, as for :class:`HERReplayBuffer`.
        future_k: Ratio of relabeled episodes, as for :class:`HERReplayBuffer`.
        compute_terminated_fn: Function for ``terminated``, as for :class:`HERReplayBuffer`.
        **options: Options of :class:`ReplayBuffer`.
    """

    def __init__(
        self,
        total_size: int,
        buffer_num: int,
        compute_reward_fn: RewardFn,
        horizon: int,
        future_k: float = 8.0,
        *,
        compute_terminated_fn: TerminatedFn | None = None,
        **options: Unpack[BufferOptions],
    ) -> None:
        self._use_functions(compute_reward_fn, compute_terminated_fn)
        sizes = capacities(total_size, buffer_num)
        self._begin(GoalState(type(self), sizes, options, horizon, future_k, many=True))


def _function(function: Any, name: str) -> Any:
    """Return a function of goals, or raise an error if it is not callable; ``name`` is its name in the error."""
    if not callable(function):
        raise LeafError(f"{name} is a function of achieved and desired goals, got {describe(function)}")
    return function


def _required(compute_reward_fn: RewardFn | None, caller: str) -> RewardFn:
    """Return a reward function, or raise an error if it was not passed to ``caller``."""
    if compute_reward_fn is None:
        raise LeafError(f"compute_reward_fn is not saved with a buffer; pass {caller}(path, compute_reward_fn=...)")
    return compute_reward_fn
