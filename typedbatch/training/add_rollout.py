"""Adding rows to buffers with a ring for each environment, and the check that they follow the last rows there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import describe
from typedbatch.buffers import CachedReplayBuffer, ReplayBuffer
from typedbatch.buffers.guard import prepare_change
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import LeafError, SettingError


def require_rings(into: Any, num_envs: int) -> None:
    """Raise a LeafError or SettingError unless ``into`` is a buffer with a ring for each environment."""
    if not isinstance(into, ReplayBuffer):
        raise LeafError(f"collect() takes a buffer, got {describe(into)}")
    rings = into.cached_buffer_num if isinstance(into, CachedReplayBuffer) else into.buffer_num
    if rings != num_envs:
        raise SettingError(
            f"a buffer with a ring for each of {num_envs} environments is expected, this one has {rings}; "
            f"VectorReplayBuffer(total_size, {num_envs}) makes one"
        )


def has_plain_methods(buffer: ReplayBuffer[Any, Any]) -> bool:
    """Return whether a buffer adds rows by methods of this package alone, which copy the rows."""
    methods = (getattr(method, "__func__", None) for method in (buffer.add, buffer.extend))
    return all(getattr(method, "__module__", "").startswith("typedbatch.buffers.") for method in methods)


def add_rollout(
    into: ReplayBuffer[Any, Any],
    batch: Any,
    envs: NDArray[np.intp],
    *,
    one_each: bool = False,
    new_episodes: NDArray[np.intp] | None = None,
) -> None:
    """Add rows, in time order for each environment, to the rings of their environments, or none if a row does not fit.

    ``one_each`` says that there is one row for each environment, in order. The last rows in the rings of
    ``new_episodes`` are marked as truncated, since the new ones do not follow them. The buffer has no continuity mark
    afterwards; the caller sets it with ``ContinuityToken.taken``.
    """
    state = state_of(into)
    with state.guard.lock:
        state.guard.mark = None
        if new_episodes is not None:
            prepare_change(state.guard, "collect")
            state.cut_episodes(new_episodes)
        if one_each:
            into.add(batch)
        elif isinstance(into, CachedReplayBuffer):
            # Step by step, as a cache takes one row at a time: an episode that ends leaves it before the next row.
            order = np.argsort(np.arange(len(envs)) - np.searchsorted(envs, envs), kind="stable")
            into.extend(batch[order], envs[order])
        elif into.buffer_num == 1 and type(into).add is ReplayBuffer.add:  # a class may store rows in a way of its own
            into.extend(batch)
        else:
            into.add(batch, envs)


class ContinuityToken:
    """A record of the buffer that holds the last rows, and of the position after them.

    Each time rows are added, the buffer gets a new mark, which is also recorded here. Therefore a buffer does not count
    as continued if another collector has added to it, if it is a copy, or if it was reopened. The recorded position
    shows gaps: rows that were lost between two calls, for whatever reason.
    """

    def __init__(self) -> None:
        self._end: tuple[object, int] = (None, 0)

    def lose(self) -> None:
        """Forget the last rows, so that no later row follows them."""
        self._end = (None, 0)

    def taken(self, by: State, position: int = 0) -> None:
        """Record that the rows up to a position have been added to the buffer with this state."""
        mark = object()
        self._end = (mark, position)
        by.guard.mark = mark  # set last: if anything interrupts this method, the rows do not count as continued

    def follows(self, other: Any, position: int = 0) -> bool:
        """Return whether the step at a position follows the last rows that were added to ``other``."""
        mark, end = self._end
        return mark is not None and other.guard.mark is mark and end == position
