"""Checks of step outcomes: observations, rewards and flags must have a row for each environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Space, Tuple
from numpy import ndarray

from typedbatch._tree.kinds import ARRAY, KINDS, TENSOR, describe, mask_obstacle
from typedbatch.errors import LeafError, StructureError

_FLOAT, _BOOL = np.dtype(np.float64), np.dtype(np.bool_)


def require_rows_of_obs(obs: Any, envs: int, space: Space[Any], path: str = "obs") -> None:
    """Raise an error unless observations have a row for each environment, and all parts of their space.

    Args:
        obs: Arrays or tensors, nested like the space.
        envs: Number of environments.
        space: Observation space of a single environment.
        path: Path of the field in errors.

    Raises:
        LeafError: a value has no rows, such as None.
        StructureError: the number of rows is wrong, or a part is missing.
    """
    if isinstance(obs, (tuple, Mapping)):
        given: Mapping[Any, Any] = obs if isinstance(obs, Mapping) else dict(enumerate(obs))
        parts: Any = dict.fromkeys(given, space)
        if isinstance(space, (Dict, Tuple)):
            parts = space.spaces if isinstance(space, Dict) else dict(enumerate(space.spaces))
        for name, part in parts.items():
            if name not in given:
                raise StructureError("the observation space has it, but the observations do not", f"{path}.{name}")
            require_rows_of_obs(given[name], envs, part, f"{path}.{name}")
        return
    expected = f"observations of environments must have a row for each of {envs} environments"
    if KINDS[type(obs)] not in (ARRAY, TENSOR):
        raise LeafError(f"{expected}, got {describe(obs)}", path)
    if not obs.ndim or len(obs) != envs:
        raise StructureError(f"{expected}, got {describe(obs)}", path)


def require_outcome(rew: Any, terminated: Any, truncated: Any, shape: tuple[int]) -> None:
    """Raise an error unless there are a reward and two flags for each environment.

    Args:
        rew: Rewards of a step.
        terminated: Flags of the environments that have terminated.
        truncated: Flags of the environments that are truncated.
        shape: ``(environments,)``.

    Raises:
        LeafError: rewards are not a numpy array of real numbers, or flags are not a numpy array of bools.
        StructureError: the shape of one of these is not ``(environments,)``.
    """
    if not (type(rew) is ndarray and rew.dtype is _FLOAT and rew.shape == shape):
        _require_column(rew, shape, "rew")
    if not (type(terminated) is ndarray and terminated.dtype is _BOOL and terminated.shape == shape):
        _require_column(terminated, shape, "terminated")
    if not (type(truncated) is ndarray and truncated.dtype is _BOOL and truncated.shape == shape):
        _require_column(truncated, shape, "truncated")


def _require_column(value: Any, shape: tuple[int, ...], name: str) -> None:
    """Raise an error unless a value is an array of rewards or flags of a shape."""
    rewards = name == "rew"
    if not isinstance(value, ndarray) or value.dtype.kind not in ("iuf" if rewards else "b"):
        expected = "rewards must be a numpy array of real numbers"
        if not rewards:
            expected = "flags must be a numpy array of bools, as .astype(bool) returns"
        hint = "; .numpy() converts a tensor" if KINDS[type(value)] is TENSOR else ""
        raise LeafError(f"{expected}, got {describe(value)}{hint}", name)
    if obstacle := mask_obstacle(value):
        raise LeafError(obstacle, name)
    if value.shape != shape:
        hint = "; rew[:, 0] removes the dimension of size 1" if rewards and value.shape == (*shape, 1) else ""
        raise StructureError(
            f"one {'reward' if rewards else 'flag'} for each of {shape[0]} environments is expected, "
            f"of shape {list(shape)}, got {describe(value)}{hint}",
            name,
        )
