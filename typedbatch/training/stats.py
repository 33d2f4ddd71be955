"""What collecting has brought: steps, and the episodes that ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CollectStats:
    """Steps, and the episodes that ended within them.

    ``returns`` and ``lengths`` have an entry for each of those episodes, in the order in which they ended.
    """

    steps: int = 0
    returns: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Sum of the rewards of each episode, from its first step on; ``(episodes,)``."""
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Steps of each episode, ``(episodes,)``."""
    seconds: float = 0.0
    """Time that it took."""
    lost: int = 0
    """Steps of a worker that died, which are not there; or episodes, where so many of those were asked for."""

    @property
    def episodes(self) -> int:
        """How many episodes ended."""
        return len(self.returns)

    @property
    def mean(self) -> float:
        """Mean of the returns; NaN if no episode ended."""
        return float(self.returns.mean()) if len(self.returns) else float("nan")

    @staticmethod
    def sum(parts: Iterable[CollectStats]) -> CollectStats:
        """Several as one."""
        every = [CollectStats(), *parts]
        return CollectStats(
            sum(one.steps for one in every),
            np.concatenate([one.returns for one in every]),
            np.concatenate([one.lengths for one in every]),
            sum(one.seconds for one in every),
            sum(one.lost for one in every),
        )


_NO_RETURNS, _NO_LENGTHS = np.zeros(0), np.zeros(0, np.int64)  # nothing can be written into them


class Episodes:
    """The episodes that environments are in, and those that ended.

    Args:
        num_envs: how many environments.
    """

    def __init__(self, num_envs: int) -> None:
        self._return: NDArray[np.float64] = np.zeros(num_envs)
        self._steps = 0
        self._began = [0] * num_envs
        self._returns: list[float] = []
        self._lengths: list[int] = []

    def length(self, env: int) -> int:
        """Steps of the episode that an environment is in."""
        return self._steps - self._began[env]

    def add(
        self, rew: NDArray[np.float64], left_out: NDArray[np.bool_] | None, ended: NDArray[np.bool_] | None
    ) -> None:
        """Count in a step of each environment.

        Args:
            rew: rewards.
            left_out: whose step does not count; None if all do.
            ended: whose episode ended with it; None if none did.
        """
        self._steps += 1
        if left_out is None:
            self._return += rew
        else:
            np.add(self._return, rew, out=self._return, where=~left_out)
            for env in left_out.nonzero()[0].tolist():
                self._began[env] += 1
            ended = None if ended is None else ended & ~left_out
        if ended is not None:
            for env in ended.nonzero()[0].tolist():  # mostly one, for which numpy takes longer
                self._returns.append(self._return.item(env))
                self._lengths.append(self._steps - self._began[env])
                self._return[env] = 0
                self._began[env] = self._steps

    def forget(self) -> None:
        """Begin anew with those that the environments are in."""
        self._return[:] = 0
        self._began[:] = [self._steps] * len(self._began)

    def taken(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns and lengths of those that ended since this was asked last."""
        if not self._returns:
            return _NO_RETURNS, _NO_LENGTHS
        out = np.array(self._returns), np.array(self._lengths)
        self._returns, self._lengths = [], []
        return out
