"""Numbers of steps and episodes to collect, and their distribution over environments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typedbatch._tree.lengths import MOST_ROWS, require_at_least, require_at_most
from typedbatch.errors import SettingError


def count_of(value: object, name: str) -> int:
    """Return the number of steps or episodes to collect, after checking it.

    Raises:
        SizeError: ``value`` is not a whole number, or is below 1 or above the number of rows that an array can hold.
    """
    return require_at_most(MOST_ROWS, require_at_least(1, value, name), name)


def require_one_of(n_step: int | None, n_episode: int | None) -> None:
    """Raise an error unless exactly one of ``n_step`` and ``n_episode`` is given."""
    if (n_step is None) == (n_episode is None):
        raise SettingError("pass either n_step or n_episode: the number of steps or of episodes to collect")


def episode_quotas(count: int, envs: int) -> NDArray[np.intp]:
    """Return the number of episodes for each environment, distributed as evenly as possible."""
    return (count + np.arange(envs)[::-1]) // envs
