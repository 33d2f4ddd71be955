"""``RepeatedWrite``: the write of the same arrays to a buffer again and again, with new values each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._level import current_level
from typedbatch._tree.kinds import new_tree
from typedbatch.batch import Batch
from typedbatch.buffers import incoming
from typedbatch.buffers.columns import Plan
from typedbatch.buffers.guard import prepare_change

if TYPE_CHECKING:
    from typedbatch.buffers.state import State

Fields = dict[str, Any]
Planned = tuple[Plan, NDArray[Any], NDArray[np.bool_]]


class RepeatedWrite:
    """The write of some arrays to the columns of a buffer of one ring, planned once.

    Args:
        state: State of the buffer.
        fields: Arrays of the rows, ``(n, ...)``.
    """

    def __init__(self, state: State, fields: Fields) -> None:
        self._fields = fields
        self._columns: object = state.simple
        self._planned: Planned | None = None
        self._differs: bool = False
        """Whether a value that is stored is not one of the arrays, but computed from one."""

    def is_of(self, state: State, fields: Fields) -> bool:
        """Return True if these are the arrays, and the columns of the buffer are the same as before."""
        return fields is self._fields and state.simple is self._columns

    def run(self, state: State) -> bool:
        """Add the current values of the arrays, and return True; or return False if other values would be stored."""
        if self._planned is None and not self._differs:
            self._plan(state)
        if self._planned is None:
            return False
        plan, rew, done = self._planned
        np.logical_or(self._fields["terminated"], self._fields["truncated"], out=done)
        state.mark = None
        state.add_run(plan, rew, done)
        return True

    def _plan(self, state: State) -> None:
        lead = (len(self._fields["rew"]),)
        batch = new_tree(Batch, {**self._fields, "info": new_tree(Batch, {})})
        fields, done, rew = incoming.normalize_rows(state, batch, lead)
        plan = state.plan(batch, fields, lead)
        arrays = {id(array) for array in (*self._fields.values(), done)}
        written = [value for _, value in plan.writes if type(value) is ndarray and value.ndim]
        self._differs = not all(id(value) in arrays for value in (rew, *written))
        self._planned = None if self._differs else (plan, rew, done)


def add_again(state: State, fields: Fields | None) -> bool:
    """Add rows to a buffer of one ring if the last rows that were added like this were in the same arrays.

    The rows are then checked once and not each time, which takes half of the time in which a few rows are added.

    Args:
        state: State of the buffer, whose class adds rows as ``ReplayBuffer`` does.
        fields: Arrays of the rows; the same dict if they are the same. None for rows that are not added again.

    Returns:
        Whether the rows were added. Otherwise, the caller adds them.
    """
    if fields is None or len(state.rings.capacity) > 1 or not 1 < len(fields["rew"]) <= state.rings.size:
        return False
    with state.guard.lock:
        prepare_change(state.guard, "collect")
        write = state.repeated
        if write is None or not write.is_of(state, fields):
            state.repeated = RepeatedWrite(state, fields)
            return False
        return current_level() != "values" and write.run(state)
