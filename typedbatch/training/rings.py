"""Buffers with a ring for each environment: which ones fit, and how rows get into them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._tree.leaves import describe
from typedbatch.buffers import CachedReplayBuffer, ReplayBuffer
from typedbatch.buffers.guard import held_for_changes
from typedbatch.buffers.state import state_of
from typedbatch.errors import LeafError, SettingError


def require_rings(into: Any, num_envs: int) -> None:
    """Raise an error unless a buffer has a ring for each environment.

    Raises:
        LeafError: it is not a buffer.
        SettingError: it has more rings, or fewer.
    """
    if not isinstance(into, ReplayBuffer):
        raise LeafError(f"collect() takes a buffer, got {describe(into)}")
    rings = into.cached_buffer_num if isinstance(into, CachedReplayBuffer) else into.buffer_num
    if rings != num_envs:
        raise SettingError(
            f"a buffer with a ring for each of {num_envs} environments is expected, this one has {rings}; "
            f"VectorReplayBuffer(total_size, {num_envs}) makes one"
        )


def add_rows(
    into: ReplayBuffer[Any, Any],
    batch: Any,
    envs: NDArray[np.intp],
    *,
    one_each: bool = False,
    anew: NDArray[np.intp] | None = None,
) -> None:
    """Add rows to the rings of their environments; all of them, or none if one does not fit.

    The buffer has no mark after it, until whoever adds them says that they are there.

    Args:
        into: that :func:`require_rings` lets pass.
        batch: the rows, those of one environment in the order of time.
        envs: the environment of each row.
        one_each: they are one row of each environment, in order.
        anew: environments whose rows do not follow the last ones in their rings; those count as truncated then.
    """
    state = state_of(into)
    state.mark = None
    if anew is not None:
        with held_for_changes(state.guard, "collect"):
            state.cut_episodes(anew)
            _add(into, batch, envs, one_each)
    else:
        _add(into, batch, envs, one_each)


def _add(into: ReplayBuffer[Any, Any], batch: Any, envs: NDArray[np.intp], one_each: bool) -> None:
    if not isinstance(into, CachedReplayBuffer):
        into.add(batch, None if one_each else envs)
        return
    place = np.arange(len(envs)) - np.searchsorted(envs, envs)
    for step in range(place.max() + 1):  # a cache takes one row at a time, as its episode may end and move
        now = np.flatnonzero(place == step)
        into.add(batch[now], envs[now])
