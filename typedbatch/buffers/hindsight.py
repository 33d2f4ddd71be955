"""``HERReplayBuffer``: hindsight experience replay, with missed goals replaced by reached ones (arXiv:1707.01495)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import BATCH, KINDS, describe
from typedbatch._ops.casting import fitted
from typedbatch._ops.construct import refuse_on_instances
from typedbatch._ops.conversion import leaf_to_numpy, to_numpy
from typedbatch._ops.copying import deep_leaf
from typedbatch._typing import Array
from typedbatch.buffers import restore
from typedbatch.buffers.arguments import BufferOptions, R, S, as_slots, count_of, number_of
from typedbatch.buffers.columns import Fields, Lead, Plan, take_slots
from typedbatch.buffers.guard import locked, locked_at, locked_for_writing
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.state import State
from typedbatch.buffers.vector import capacities
from typedbatch.errors import LeafError, MissingFieldError, RowAssignmentError, SettingError, SizeError

T = TypeVar("T")

RewardFn = Callable[[Array, Array], Array]
"""Function that takes achieved and desired goals, ``(N, *goal)`` each, and returns rewards, ``(N,)``."""
TerminatedFn = Callable[[Array, Array], NDArray[np.bool_]]
"""Function that takes achieved and desired goals, ``(N, *goal)`` each, and returns flags, ``(N,)``, bool."""


class HERReplayBuffer(ReplayBuffer[R, S]):
    """A replay buffer that samples rows as if their goal had been one that their episode reached later.

    ``obs`` is a batch with ``achieved_goal`` and ``desired_goal``. Whenever rows are sampled, most of them get another
    goal. It is the goal achieved in a step of the episode from the row on (strategy "future"), drawn uniformly and for
    each row by itself. The row is then read with that goal and its reward, until rows are sampled or added again, and
    the n-step return of the row looks ahead with its goal. Stored rows do not change.

    Args:
        size: Number of transitions to store.
        compute_reward_fn: Function that takes achieved and desired goals, ``(N, *goal)`` each, and returns rewards,
            ``(N,)``.
        horizon: Maximum number of steps of an episode; a new goal is achieved fewer than ``horizon`` steps later.
        future_k: A sampled row gets another goal with probability ``1 - 1 / future_k``.
        compute_terminated_fn: Function that takes achieved and desired goals, ``(N, *goal)`` each, and returns
            ``terminated`` of rows with another goal, bool ``(N,)``, for environments in which reaching the goal ends an
            episode. n-step returns stop there. With None, rows keep the ``terminated`` of the goal they were stored
            with.
        **options: Options of :class:`ReplayBuffer`.

    Raises:
        SizeError: ``horizon`` or ``future_k`` is below 1.
        LeafError: ``compute_reward_fn`` or ``compute_terminated_fn`` is not a function.

    Tianshou's ``HERReplayBuffer`` overwrites the stored rows, and has one goal for all sampled rows of an episode.
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
        self._begin(GoalState(horizon, future_k, type(self), [count_of(size, "size")], options))

    if TYPE_CHECKING:
        _state: GoalState  # pyright: ignore[reportIncompatibleVariableOverride]  # set once, by _begin

    def _use_functions(self, compute_reward_fn: RewardFn, compute_terminated_fn: TerminatedFn | None) -> None:
        given: dict[str, Any] = {"compute_reward_fn": compute_reward_fn, "compute_terminated_fn": compute_terminated_fn}
        for name, function in given.items():
            if not callable(function) and (function is not None or name == "compute_reward_fn"):
                raise LeafError(f"{name} is a function of achieved and desired goals, got {describe(function)}")
        self.compute_reward_fn: RewardFn = compute_reward_fn
        self.compute_terminated_fn: TerminatedFn | None = compute_terminated_fn

    @property
    def horizon(self) -> int:
        """Maximum number of steps of an episode."""
        return self._state.horizon

    @property
    def future_k(self) -> float:
        """The number whose inverse is the probability that a sampled row keeps its goal."""
        return self._state.future_k

    @property
    def future_p(self) -> float:
        """Probability that a sampled row gets another goal, ``1 - 1 / future_k``. Setting it changes ``future_k``.

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
        """Return slots as :meth:`ReplayBuffer.sample_indices` does, and draw new goals for their rows."""
        self._state.relabelled = None
        slots = super().sample_indices(batch_size)
        self.rewrite_transitions(slots)
        return slots

    @locked_at
    def rewrite_transitions(self, indices: Slots, *, per_episode: bool = False) -> None:
        """Relabel most of the rows in some slots with another goal each; rows relabeled before get theirs back.

        Args:
            indices: Slots of the rows.
            per_episode: Whether rows of the same episode get the same goal, which is then one from the last of them on.

        Raises:
            RowIndexError: A slot does not exist, or holds no row.
            RowAssignmentError: Achieved goals do not fit desired goals, or ``compute_reward_fn`` does not return one
                reward for each row, or ``compute_terminated_fn`` one bool.
        """
        state = self._state
        state.relabelled = None
        slots = np.unique(as_slots(state.rings, indices))
        if not len(slots):
            return
        end, remaining = self._ends(slots)
        _, group = np.unique(end if per_episode else slots, return_inverse=True)
        least = np.full(group.max() + 1, len(state.done))
        np.minimum.at(least, group, remaining)
        drawn = state.rng.integers(0, np.minimum(least, self.horizon - 1), endpoint=True)
        steps = (drawn - least)[group] + remaining
        if (chosen := (state.rng.random(len(least)) < state.future_p)[group]).any():
            slots, ring = slots[chosen], state.rings.ring_of(slots[chosen])
            start = state.rings.offset[ring]
            self._relabel(slots, (slots - start + steps[chosen]) % state.rings.capacity[ring] + start)

    def _ends(self, slots: Slots) -> tuple[Slots, Slots]:
        """Return the last slot of the episode of each slot, and the number of steps to it."""
        remaining = np.zeros_like(slots)
        while True:
            slots, continues = self._state.rings.step(slots, self._state.done)
            if not continues.any():
                return slots, remaining
            remaining = remaining + continues

    def _relabel(self, slots: Slots, future: Slots) -> None:
        """Set the rows that are read with another goal: the one achieved in ``future``. Slots are sorted and unique."""
        desired, goal = self._state.columns.__dict__["obs"].__dict__["desired_goal"], self._achieved_next(future)
        if goal.shape[1:] != desired.shape[1:]:
            text = f"achieved goals must have the shape of desired goals {describe(desired)}, got {describe(goal)}"
            raise RowAssignmentError(text, "obs")
        goal = fitted(desired, goal)
        names = ("rew",) if self.compute_terminated_fn is None else ("rew", "terminated", "done")
        fields = {name: self._with_goal(name, slots, goal) for name in names}
        self._state.relabelled = Relabelled(slots, goal, fields, self._with_goal)

    def _with_goal(self, name: str, slots: Slots, goal: Array) -> Any:
        """Return the rewards or flags of rows with another goal."""
        if name == "rew":
            return self._computed("compute_reward_fn", "rew", slots, goal, "biuf")
        terminated = self._computed("compute_terminated_fn", "terminated", slots, goal, "b")
        if name == "terminated":
            return terminated
        # A stored end remains the end of the rows, even if the new goal is not reached there.
        return leaf_to_numpy(terminated) | take_slots(self._state.columns.__dict__["done"], slots)

    def _computed(self, function: str, name: str, slots: Slots, goal: Array, kinds: str) -> Any:
        """Return a field of rows with other goals, computed by the attribute ``function``, as its column stores it."""
        column = self._state.columns.__dict__[name]
        value = np.array(to_numpy(getattr(self, function)(self._achieved_next(slots), deep_leaf(goal, {}))))
        wanted = (len(slots), *column.shape[1:])
        if value.shape != wanted or value.dtype.kind not in kinds:
            what = f"{'flags (bool)' if kinds == 'b' else 'rewards'} of shape {list(wanted)}"
            raise RowAssignmentError(f"{function} must return {what}, got {describe(value)}", name)
        return fitted(column, value)

    def _achieved_next(self, slots: Slots) -> Array:
        """Return the goal that each row achieved in its ``obs_next``."""
        state, name = self._state, "obs_next"
        if not state.save_obs_next:
            slots, name = state.rings.next(slots, state.done), "obs"
        reached: Array = take_slots(state.columns.__dict__[name].__dict__["achieved_goal"], slots)
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
        functions = _functions("load_hdf5", compute_reward_fn, compute_terminated_fn)
        return restore.load_hdf5(cls, path, device, trusted=trusted, **functions)

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
        return restore.open_folder(cls, path, mode, **_functions("open", compute_reward_fn, compute_terminated_fn))


refuse_on_instances(HERReplayBuffer, "load_hdf5", "open")


class HERVectorReplayBuffer(HERReplayBuffer[R, S]):
    """A :class:`HERReplayBuffer` with a ring for each of ``buffer_num`` environments.

    Args:
        total_size: Number of transitions to store, of all environments; rounded up to a multiple of ``buffer_num``.
        buffer_num: Number of environments.
        compute_reward_fn: Reward function, as for :class:`HERReplayBuffer`.
        horizon: Maximum number of steps of an episode, as for :class:`HERReplayBuffer`.
        future_k: Ratio of relabeled rows, as for :class:`HERReplayBuffer`.
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
        self._begin(GoalState(horizon, future_k, type(self), sizes, options, many=True))


def _functions(caller: str, reward: RewardFn | None, terminated: TerminatedFn | None) -> dict[str, Any]:
    """Return the functions as arguments, or raise an error if that for rewards was not passed to ``caller``."""
    if reward is None:
        raise LeafError(f"compute_reward_fn is not saved with a buffer; pass {caller}(path, compute_reward_fn=...)")
    return {"compute_reward_fn": reward, "compute_terminated_fn": terminated}


class Relabelled(NamedTuple):
    """Rows that are read with a goal and other values than those stored."""

    slots: Slots
    """Slots of the rows, sorted and unique."""
    goal: Array
    fields: dict[str, Array]
    """Other values of the rows by the names of their fields: ``rew``, and ``terminated`` and ``done`` if computed."""
    compute: Callable[[str, Slots, Array], Array]
    """Function that takes the name of one of those fields, slots, and a goal for each, and returns its values there."""


class GoalState(State):
    """State of a hindsight buffer. :class:`HERReplayBuffer` and :class:`State` describe the arguments."""

    def __init__(
        self, horizon: int, future_k: float,
        cls: type, capacities: list[int], options: BufferOptions, *, many: bool = False,
    ) -> None:  # fmt: skip
        self.horizon: int = count_of(horizon, "horizon", 1)
        if not (hasattr(type(future_k), "__float__") and future_k >= 1):
            raise SizeError(f"future_k is 1 or more, got {future_k!r}")
        self.future_k: float = float(future_k)
        self.future_p: float = 1 - 1 / future_k
        """Probability that a sampled row gets another goal."""
        self.relabelled: Relabelled | None = None
        self._called_for: tuple[Slots, Slots] | None = None
        """Slots and rows of :meth:`call_for_rows`, while the function is called."""
        super().__init__(cls, capacities, options, many=many)

    def set_future_p(self, future_p: Any) -> None:
        """Set the probability that a sampled row gets another goal, and ``future_k`` accordingly."""
        probability = number_of(future_p, "future_p", 0, 1)

        def use(future_k: float, future_p: float) -> None:
            self.future_k, self.future_p = future_k, future_p
            self.on_description_changed()

        rollback = partial(use, self.future_k, self.future_p)
        self.transaction(rollback, use, 1 / (1 - probability) if probability < 1 else math.inf, probability)

    def plan(self, batch: Any, fields: Fields, lead: Lead) -> Plan:
        if not self.columns.__dict__:
            self._require_goals(fields)
        return super().plan(batch, fields, lead)

    def _require_goals(self, fields: Fields) -> None:
        """Check that observations have an achieved and a desired goal, both arrays."""
        for name in ("obs", "obs_next") if self.save_obs_next else ("obs",):
            obs = fields.get(name)
            if KINDS[type(obs)] is not BATCH:
                raise LeafError(f"a batch with achieved_goal and desired_goal is expected, got {describe(obs)}", name)
            for goal in ("achieved_goal", "desired_goal"):
                if goal not in obs.__dict__:
                    raise MissingFieldError(name, goal, obs.__dict__)
                if KINDS[type(obs.__dict__[goal])] is BATCH:
                    raise LeafError(f"a goal is an array, got {describe(obs.__dict__[goal])}", f"{name}.{goal}")

    def read(self, name: str, column: Any, slots: Any, rows: Any) -> Any:
        values, relabelled = super().read(name, column, slots, rows), self.relabelled
        if relabelled is None or name not in ("obs", "obs_next", *relabelled.fields):
            return values
        if self._called_for is not None and np.array_equal(rows, self._called_for[0]):
            rows = self._called_for[1]
        position = np.minimum(relabelled.slots.searchsorted(rows), len(relabelled.slots) - 1)
        changed = np.asarray(relabelled.slots[position] == rows)
        position = np.asarray(position)[changed]
        if not len(position):
            return values
        if name in relabelled.fields and slots is rows:
            return _merged(values, relabelled.fields[name][position], changed)
        where = np.asarray(slots)[changed]
        goal = relabelled.goal[position.repeat(where.size // len(where))]
        if name in relabelled.fields:
            return _merged(values, relabelled.compute(name, where.ravel(), goal), changed)
        values.__dict__["desired_goal"] = _merged(values.__dict__["desired_goal"], goal, changed)
        return values

    def shown(self, name: str) -> Any:
        column = self.column(name)
        if self.relabelled is None or name not in ("obs", "obs_next", *self.relabelled.fields):
            return column
        slots = rows = np.arange(self.rings.size)
        if self._called_for is not None:
            rows = slots.copy()
            rows[self._called_for[0]] = self._called_for[1]
        return self.read(name, column, slots, rows)

    def ahead(self, slots: Slots, steps: int) -> tuple[list[Slots], list[NDArray[np.bool_]]]:
        ahead, continues = super().ahead(slots, steps)
        if self.relabelled is not None and "done" in self.relabelled.fields:
            for step, go_on in enumerate(continues):
                go_on &= ~self.read("done", self.done, ahead[step], slots)
                ahead[step + 1] = np.where(go_on, ahead[step + 1], ahead[step])
        return ahead, continues

    def call_for_rows(self, call: Callable[[], T], slots: Slots, rows: Slots) -> T:
        self._called_for = slots, rows
        try:
            return call()
        finally:
            self._called_for = None

    def draw_windows(self, total: int, count: int, begins: Callable[[Slots], Slots]) -> Slots:
        text = f"a {self.name} draws a goal for each row, and a window has one goal; sample_sequences() needs another"
        raise SettingError(f"{text} buffer")

    def on_rows_written(self, slots: Slots) -> None:
        self.relabelled = None
        super().on_rows_written(slots)

    def on_rows_dropped(self) -> None:
        self.relabelled = None

    def restore(self, numbers: NDArray[np.float64]) -> None:
        self.relabelled = None
        if self.columns.__dict__:
            self._require_goals(self.columns.__dict__)
        super().restore(numbers)

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "horizon": self.horizon, "future_k": self.future_k}


def _merged(values: Any, replacements: Any, changed: NDArray[np.bool_]) -> Any:
    """Replace the rows where ``changed`` is true, in place; return the replacement of a number of a single row."""
    if not values.ndim:
        return replacements[0]
    if not changed.ndim:
        changed, values = changed[None], values[None]
        return _merged(values, replacements, changed)[0]
    values[changed] = replacements.reshape(values[changed].shape)
    return values
