"""The state of a hindsight buffer: its settings, and the rows that are read with another goal."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._tree.kinds import BATCH, KINDS, describe
from typedbatch._typing import Array
from typedbatch.buffers.columns import Fields, Lead, Plan
from typedbatch.buffers.occupancy import Slots
from typedbatch.buffers.options import BufferOptions
from typedbatch.buffers.settings import count_of, number_of
from typedbatch.buffers.state import State
from typedbatch.errors import LeafError, MissingFieldError, SizeError

T = TypeVar("T")


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
    """State of a hindsight buffer.

    Args:
        cls: Class of the buffer.
        capacities: Number of slots of each ring.
        options: Options of the buffer.
        horizon: Maximum number of steps of an episode.
        future_k: A sampled row gets another goal with probability ``1 - 1 / future_k``.
        many: Whether a batch that is added without ``buffer_ids`` has a row for each ring.

    Raises:
        SizeError: ``horizon`` or ``future_k`` is below 1.
    """

    def __init__(
        self,
        cls: type,
        capacities: list[int],
        options: BufferOptions,
        horizon: int,
        future_k: float,
        *,
        many: bool = False,
    ) -> None:
        self.horizon: int = count_of(horizon, "horizon", 1)
        if not (hasattr(type(future_k), "__float__") and future_k >= 1):
            raise SizeError(f"future_k is 1 or more, got {future_k!r}")
        self._use_goals(float(future_k), 1 - 1 / future_k)
        self.relabelled: Relabelled | None = None
        self._called_for: tuple[Slots, Slots] | None = None
        """Slots and rows of :meth:`call_for_rows`, while the function is called."""
        super().__init__(cls, capacities, options, many=many)

    def _use_goals(self, future_k: float, future_p: float) -> None:
        self.future_k: float = future_k
        self.future_p: float = future_p
        """Probability that a sampled row gets another goal: ``1 - 1 / future_k``."""

    def set_future_p(self, future_p: Any) -> None:
        """Set the probability that a sampled row gets another goal, and ``future_k`` accordingly.

        Raises:
            SettingError: ``future_p`` is not in [0, 1].
        """
        probability = number_of(future_p, "future_p", 0, 1)

        def use(future_k: float, future_p: float) -> None:
            self._use_goals(future_k, future_p)
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
