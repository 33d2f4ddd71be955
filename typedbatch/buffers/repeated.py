"""``RepeatedWrite``: the write of the same arrays to a buffer again and again, with new values each time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._level import current_level
from typedbatch._tree.kinds import new_tree
from typedbatch.batch import Batch
from typedbatch.buffers import incoming, replay
from typedbatch.buffers.columns import Plan
from typedbatch.buffers.guard import prepare_change
from typedbatch.buffers.state import State, state_of

Fields = dict[str, Any]
Planned = tuple[Plan, NDArray[Any], NDArray[np.bool_]]


class RepeatedWrite:
    """The write of some arrays to the columns of a buffer of one ring, planned once.

    The state of a buffer drops it when its columns change.

    Args:
        fields: Arrays of the rows, ``(n, ...)``.
    """

    def __init__(self, fields: Fields) -> None:
        self.fields: Fields = fields
        self._planned: Planned | None = None
        self._is_refused: bool = False
        """True if the plan cannot be repeated, because it would store old values or skip a check."""

    def run(self, state: State) -> bool:
        """Add the current values of the arrays, and return True; or return False if the plan cannot be repeated.

        Raises:
            RowAssignmentError: A value does not fit its column. All errors of :meth:`State.plan` are raised too.
        """
        if self._planned is None and not self._is_refused:
            self._plan(state)
        if self._planned is None:
            return False
        plan, rew, done = self._planned
        np.logical_or(self.fields["terminated"], self.fields["truncated"], out=done)
        if not state.save_obs_next:
            incoming.warn_if_truncated(self.fields["terminated"], self.fields["truncated"])
        state.guard.mark = None
        state.add_run(plan, rew, done)
        return True

    def _plan(self, state: State) -> None:
        lead = (len(self.fields["rew"]),)
        batch = new_tree(Batch, {**self.fields, "info": new_tree(Batch, {})})
        fields, done, rew = incoming.normalize_rows(state, batch, lead)
        plan = state.plan(batch, fields, lead)
        arrays = {id(array) for array in (*self.fields.values(), done)}
        written = (rew, *(value for _, value in plan.writes if np.ndim(value)))
        # Rows that lack a field of a column are validated each time they are added.
        self._is_refused = plan.fills or not all(id(value) in arrays for value in written)
        self._planned = None if self._is_refused else (plan, rew, done)


def has_plain_methods(buffer: replay.ReplayBuffer[Any, Any]) -> bool:
    """Return whether a buffer adds rows by methods of this package alone, which copy the rows."""
    methods = (getattr(method, "__func__", None) for method in (buffer.add, buffer.extend))
    return all(getattr(method, "__module__", "").startswith("typedbatch.buffers.") for method in methods)


_ADD, _EXTEND = replay.ReplayBuffer.add, replay.ReplayBuffer.extend


def add_again(buffer: replay.ReplayBuffer[Any, Any], fields: Fields | None) -> bool:
    """Add rows to a buffer of one ring if the last rows that were added like this were in the same arrays.

    The rows are then checked once and not each time, which takes half of the time in which a few rows are added. This
    does not call ``add`` or ``extend``, so buffers that have one of their own are left to the caller.

    Args:
        buffer: Buffer.
        fields: Arrays of the rows; the same dict if they are the same. None for rows that are not added again.

    Returns:
        Whether the rows were added. Otherwise, the caller adds them.

    Raises:
        StorageError: The buffer is closed, or open for reading.
        RowAssignmentError: A value does not fit its column. All errors of :meth:`State.plan` are raised too.
    """
    state = state_of(buffer)
    if fields is None or len(state.rings.capacity) > 1 or not 1 < len(fields["rew"]) <= state.rings.size:
        return False
    add, extend = getattr(buffer.add, "__func__", None), getattr(buffer.extend, "__func__", None)
    if add is not _ADD or extend is not _EXTEND:
        return False
    with state.guard.lock:
        prepare_change(state.guard, "collect")
        if state.repeated is None or state.repeated.fields is not fields:
            state.repeated = RepeatedWrite(fields)
            return False
        return current_level() != "values" and state.repeated.run(state)
