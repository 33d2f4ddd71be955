"""``HERReplayBuffer``: goals that were missed, replaced by what was reached instead (arXiv:1707.01495)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np

from typedbatch._ops.casting import fitted
from typedbatch._ops.conversion import to_numpy
from typedbatch._ops.copying import deep_leaf
from typedbatch._tree.leaves import describe
from typedbatch._typing import Array
from typedbatch.buffers import restore
from typedbatch.buffers.columns import take_slots
from typedbatch.buffers.goals import GoalState, Relabelled
from typedbatch.buffers.guard import changing, exclusive, exclusive_at
from typedbatch.buffers.options import BufferOptions, R, S
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.selection import as_slots
from typedbatch.buffers.settings import count_of
from typedbatch.buffers.vector import capacities
from typedbatch.errors import LeafError, RowAssignmentError

RewardFn = Callable[[Array, Array], Array]
"""Takes achieved and desired goals, ``(N, *goal)`` each, and gives rewards, ``(N,)``."""


class HERReplayBuffer(ReplayBuffer[R, S]):
    """A replay buffer that samples episodes as if a goal that they reached later on had been theirs.

    ``obs`` is a batch with ``achieved_goal`` and ``desired_goal``. Each time something is sampled, most of the episodes
    it is from get another goal, that of a later step ("future", drawn for the last step that was sampled): their rows,
    from the first one sampled to the end, read with that goal and its reward, in n-step returns too, until something is
    sampled or added again. What is stored stays as it is.

    Args:
        size: transitions to keep.
        compute_reward_fn: takes achieved and desired goals, ``(N, *goal)`` each, and gives rewards, ``(N,)``.
        horizon: steps of an episode at most; a goal is achieved less than so many steps later.
        future_k: episodes with another goal for each one with its own, on average.
        **options: as for :class:`ReplayBuffer`.

    Raises:
        SizeError: a horizon or ``future_k`` below 1.
        LeafError: ``compute_reward_fn`` is not a function.

    As Tianshou's ``HERReplayBuffer``, which rewrites what is stored.
    """

    def __init__(
        self,
        size: int,
        compute_reward_fn: RewardFn,
        horizon: int,
        future_k: float = 8.0,
        **options: Unpack[BufferOptions],
    ) -> None:
        self.compute_reward_fn: RewardFn = _function(compute_reward_fn)
        self._begin(GoalState(type(self), [count_of(size, "size")], options, horizon, future_k))

    if TYPE_CHECKING:
        _state: GoalState  # pyright: ignore[reportIncompatibleVariableOverride]  # set once, by _begin

    @property
    def horizon(self) -> int:
        """Steps of an episode at most."""
        return self._state.horizon

    @property
    def future_k(self) -> float:
        """Episodes with another goal for each one with its own, on average."""
        return self._state.future_k

    @property
    def future_p(self) -> float:
        """How likely an episode gets another goal, ``1 - 1 / future_k``. It may be set, and changes ``future_k``.

        Raises:
            SettingError: it is not from 0 to 1.
        """
        return self._state.future_p

    @future_p.setter
    @changing
    def future_p(self, future_p: float) -> None:
        self._state.set_future_p(future_p)

    @exclusive
    def sample_indices(self, batch_size: int | None) -> Slots:
        """As :meth:`ReplayBuffer.sample_indices`; goals are drawn anew for the episodes of these slots."""
        self._state.relabelled = None
        slots = super().sample_indices(batch_size)
        self.rewrite_transitions(slots)
        return slots

    @exclusive_at
    def rewrite_transitions(self, indices: Slots) -> None:
        """Give most of the episodes of some slots another goal, in place of those that had one till now.

        Raises:
            RowIndexError: a slot that does not exist, or holds no row.
            RowAssignmentError: achieved goals do not fit desired ones, or there is not a reward for each.
        """
        self._state.relabelled = None
        slots = self._in_order(np.atleast_1d(as_slots(self._state.rings, indices)))
        if not len(slots):
            return
        end, remaining = self._ends(slots)
        ends, first, episode = np.unique(end, return_index=True, return_inverse=True)
        latest = np.zeros_like(first)
        latest[episode] = np.arange(len(slots))  # the last one written is the last in time
        chosen = self._state.rng.random(len(ends)) < self.future_p
        if chosen.any():
            start = self._state.frames(slots[first[chosen]], self._state.stack_num)
            begin = start if start.ndim == 1 else start[:, 0]
            steps = self._state.rng.integers(0, np.minimum(remaining[latest], self.horizon - 1)[chosen], endpoint=True)
            self._relabel(begin, ends[chosen], self._ahead(slots[latest[chosen]], steps))

    def _in_order(self, slots: Slots) -> Slots:
        """The slots, ring by ring, in the order of time."""
        ring = np.broadcast_to(self._state.rings.ring_of(slots), slots.shape)
        age = (slots - self._state.rings.oldest[ring]) % self._state.rings.capacity[ring]
        return slots[np.lexsort((age, ring))]

    def _ends(self, slots: Slots) -> tuple[Slots, Slots]:
        """The last slot of the episode of each slot, and how many steps away it is."""
        remaining = np.zeros_like(slots)
        while (goes_on := (after := self._state.rings.next(slots, self._state.done)) != slots).any():
            slots, remaining = after, remaining + goes_on
        return slots, remaining

    def _ahead(self, slots: Slots, steps: Slots) -> Slots:
        """The slots so many steps ahead, in episodes that are that long."""
        ring = self._state.rings.ring_of(slots)
        start = self._state.rings.offset[ring]
        ahead: Slots = (slots - start + steps) % self._state.rings.capacity[ring] + start
        return ahead

    def _relabel(self, begin: Slots, end: Slots, future: Slots) -> None:
        """Let each episode, from one slot of it to its last, have the goal that was achieved at some slot."""
        columns = self._state.columns.__dict__
        lengths = (end - begin) % self._state.rings.capacity[self._state.rings.ring_of(begin)] + 1
        episode = np.repeat(np.arange(len(begin)), lengths)
        steps = np.arange(len(episode)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        slots = self._ahead(begin[episode], steps)
        order = slots.argsort()
        slots, goal = slots[order], self._achieved_next(future)[episode[order]]
        desired = columns["obs"].__dict__["desired_goal"]
        if goal.shape[1:] != desired.shape[1:]:
            raise RowAssignmentError(f"achieved goals {describe(goal)} for desired ones {describe(desired)}", "obs")
        goal = fitted(desired, goal)
        rew = np.array(to_numpy(self.compute_reward_fn(self._achieved_next(slots), deep_leaf(goal, {}))))
        wanted = (len(slots), *columns["rew"].shape[1:])
        if rew.shape != wanted or rew.dtype.kind not in "biuf":
            raise RowAssignmentError(f"compute_reward_fn gives {describe(rew)} for {list(wanted)} rewards", "rew")
        self._state.relabelled = Relabelled(slots, goal, fitted(columns["rew"], rew))

    def _achieved_next(self, slots: Slots) -> Array:
        """The goal that each row reached with its action."""
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
    ) -> Self:
        """As :meth:`ReplayBuffer.load_hdf5`; ``compute_reward_fn`` is not in the file, so it is given again."""
        from typedbatch.buffers import hdf5

        reward = _required(compute_reward_fn, "load_hdf5")
        return hdf5.load(cls, path, device, trusted=trusted, compute_reward_fn=reward)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Literal["r", "r+"] = "r+",
        *,
        compute_reward_fn: RewardFn | None = None,
    ) -> Self:
        """As :meth:`ReplayBuffer.open`; ``compute_reward_fn`` is not in the folder, so it is given again."""
        return restore.open_folder(cls, path, mode, compute_reward_fn=_required(compute_reward_fn, "open"))


class HERVectorReplayBuffer(HERReplayBuffer[R, S]):
    """A :class:`HERReplayBuffer` with a ring for each of ``buffer_num`` environments.

    Args:
        total_size: transitions to keep, of all environments; rounded up to a multiple of ``buffer_num``.
        buffer_num: environments.
        compute_reward_fn: as for :class:`HERReplayBuffer`, like the others.
        horizon: likewise.
        future_k: likewise.
        **options: as for :class:`ReplayBuffer`.
    """

    def __init__(
        self,
        total_size: int,
        buffer_num: int,
        compute_reward_fn: RewardFn,
        horizon: int,
        future_k: float = 8.0,
        **options: Unpack[BufferOptions],
    ) -> None:
        self.compute_reward_fn: RewardFn = _function(compute_reward_fn)
        sizes = capacities(total_size, buffer_num)
        self._begin(GoalState(type(self), sizes, options, horizon, future_k, many=True))


def _function(compute_reward_fn: Any) -> Any:
    if not callable(compute_reward_fn):
        got = describe(compute_reward_fn)
        raise LeafError(f"compute_reward_fn is a function of achieved and desired goals, got {got}")
    return compute_reward_fn


def _required(compute_reward_fn: RewardFn | None, who: str) -> RewardFn:
    if compute_reward_fn is None:
        raise LeafError(f"functions are not saved; {who}(path, compute_reward_fn=...) takes it again")
    return compute_reward_fn
