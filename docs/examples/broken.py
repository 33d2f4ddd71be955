"""Three broken batches, as a run meets them, and the function that each should not have got into.

``python docs/examples/broken.py`` prints the reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from pipeline import Policy, policy_gradient

from typedbatch import Batch, BatchProtocol, RolloutBatchProtocol, SchemaError, checked, validate

Array: TypeAlias = NDArray[Any]
N = 256


class RobotObsProtocol(BatchProtocol, Protocol):
    """What a robot sees and where it is: an observation of one's own."""

    @property
    def cam(self) -> UInt8[np.ndarray, "N height width 3"]: ...
    @property
    def pos(self) -> Float[np.ndarray, "N 3"]: ...


class RobotRolloutProtocol(RolloutBatchProtocol[Array, RobotObsProtocol], Protocol):
    """Transitions with such observations."""


@checked
def moves(batch: RobotRolloutProtocol) -> Array:
    return np.asarray(batch.obs_next.pos - batch.obs.pos)


def rollout_in_three_ways_wrong() -> None:
    """From a collector: a misspelt field, a tensor among arrays, and the last observation forgotten."""
    rng = np.random.default_rng(0)
    collected = Batch(
        obs=rng.random((N, 4), dtype=np.float32),
        info=Batch(),
        obs_next=rng.random((N - 1, 4), dtype=np.float32),
        act=torch.zeros(N, dtype=torch.int64),
        reward=np.ones(N),
        terminated=np.zeros(N, dtype=bool),
        truncated=np.zeros(N, dtype=bool),
    )
    validate(collected, RolloutBatchProtocol)


def gradient_before_advantages() -> None:
    """From a file: it has its returns, and goes to a function that needs advantages as well."""
    obs, rew, flags = np.zeros((N, 4), dtype=np.float32), np.ones(N), np.zeros(N, dtype=bool)
    loaded: Any = Batch(
        obs=obs, info=Batch(), act=rew, obs_next=obs, rew=rew, terminated=flags, truncated=flags, returns=rew
    )
    policy_gradient(Policy(np.zeros(4)), loaded)


def robot_without_camera() -> None:
    """From another process: of the observation one member misspelt, one of another dtype, one short."""
    pos, rew, flags = np.zeros((N, 3)), np.ones(N), np.zeros(N, dtype=bool)
    received: Any = Batch(
        obs={"camera": np.zeros((N, 8, 8, 3), dtype=np.uint8), "pos": pos},
        info=Batch(),
        act=rew,
        obs_next={"cam": np.zeros((N, 8, 8, 3)), "pos": pos[1:]},
        rew=rew,
        terminated=flags,
        truncated=flags,
    )
    moves(received)


BROKEN: tuple[Callable[[], None], ...] = (rollout_in_three_ways_wrong, gradient_before_advantages, robot_without_camera)


def report(broken: Callable[[], None]) -> str:
    """What the library says."""
    try:
        broken()
    except SchemaError as error:
        return f"{type(error).__module__.split('.')[0]}.{type(error).__name__}: {error}"
    raise AssertionError(f"{broken.__name__}() was let through")


def main() -> None:
    for broken in BROKEN:
        print(f"{broken.__doc__}\n\n{report(broken)}\n")


if __name__ == "__main__":
    main()
