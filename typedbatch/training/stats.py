"""Statistics of collected steps and of the episodes that ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_NO_RETURNS, _NO_LENGTHS = np.zeros(0), np.zeros(0, np.int64)  # safe to share, since empty arrays cannot be changed


@dataclass(frozen=True)
class CollectStats:
    """Number of collected steps, and the episodes that ended within them.

    ``returns`` and ``lengths`` have an entry for each of those episodes, in the order in which they ended.
    """

    steps: int = 0
    returns: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Sum of the rewards of each episode from its first step on, ``(episodes,)``."""
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Number of steps of each episode, ``(episodes,)``."""
    seconds: float = 0.0
    """Duration of the collection."""
    lost: int = 0
    """Number of steps that are missing because a worker died; of episodes, if a number of episodes was requested."""

    @property
    def episodes(self) -> int:
        """Number of episodes that ended."""
        return len(self.returns)

    @property
    def mean(self) -> float:
        """Mean of the returns; NaN if no episode ended."""
        return float(self.returns.mean()) if len(self.returns) else float("nan")

    @staticmethod
    def sum(parts: Iterable[CollectStats]) -> CollectStats:
        """Combine the statistics of several collections."""
        every = [CollectStats(), *parts]
        return CollectStats(
            sum(part.steps for part in every),
            np.concatenate([part.returns for part in every]),
            np.concatenate([part.lengths for part in every]),
            sum(part.seconds for part in every),
            sum(part.lost for part in every),
        )


class Episodes:
    """The current episode of each environment, and the episodes that have ended."""

    def __init__(self, num_envs: int) -> None:
        self._return: NDArray[np.float64] = np.zeros(num_envs)
        self._steps = 0
        self._began = [0] * num_envs
        self._returns: list[float] = []
        self._lengths: list[int] = []

    def lengths(self) -> NDArray[np.int64]:
        """Return the number of steps so far in the current episode of each environment."""
        return self._steps - np.array(self._began, np.int64)

    def add(
        self, rew: NDArray[np.float64], left_out: NDArray[np.bool_] | None, ended: NDArray[np.bool_] | None
    ) -> None:
        """Add a step of each environment but those in ``left_out``, and end the episodes in ``ended``."""
        self._steps += 1
        if left_out is None:
            self._return += rew
        else:
            np.add(self._return, rew, out=self._return, where=~left_out)
            for env in left_out.nonzero()[0].tolist():
                self._began[env] += 1
            ended = None if ended is None else ended & ~left_out
        if ended is not None:
            for env in ended.nonzero()[0].tolist():  # usually a single index; a Python loop beats numpy here
                self.end(env)

    def end(self, env: int) -> None:
        """End the current episode of an environment, if it has any steps."""
        if self._steps > self._began[env]:
            self._returns.append(self._return.item(env))
            self._lengths.append(self._steps - self._began[env])
            self._return[env] = 0
            self._began[env] = self._steps

    def forget(self) -> None:
        """Discard the current episodes, so that new ones begin."""
        self._return[:] = 0
        self._began[:] = [self._steps] * len(self._began)

    def taken(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the returns and lengths of the episodes that ended since the last call."""
        if not self._returns:
            return _NO_RETURNS, _NO_LENGTHS
        out = np.array(self._returns), np.array(self._lengths)
        self._returns, self._lengths = [], []
        return out
