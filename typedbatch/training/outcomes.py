"""Outcomes: what environments give for a step, and whether it has a row for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Space, Tuple
from numpy import ndarray

from typedbatch._tree.leaves import ARRAY, KINDS, TENSOR, describe, mask_obstacle
from typedbatch.errors import LeafError, StructureError

_FLOAT, _BOOL = np.dtype(np.float64), np.dtype(np.bool_)


def require_rows_of_obs(obs: Any, envs: int, space: Space[Any], path: str = "obs") -> None:
    """Raise an error unless observations have a row for each environment, and all parts that their space has.

    Args:
        obs: arrays or tensors, as nested as the space.
        envs: how many environments.
        space: that of one environment.
        path: what an error names.

    Raises:
        LeafError: something that has no rows, such as None.
        StructureError: more rows, or fewer, or a part is not there.
    """
    if type(obs) is ndarray and obs.ndim and len(obs) == envs:
        return
    if isinstance(obs, (tuple, Mapping)):
        given: Mapping[Any, Any] = obs if isinstance(obs, Mapping) else dict(enumerate(obs))
        for name, part in _parts(space, given):
            if name not in given:
                raise StructureError("the space of the observations has it, and they have not", f"{path}.{name}")
            require_rows_of_obs(given[name], envs, part, f"{path}.{name}")
        return
    expected = f"the environments' observations have a row for each of {envs} environments"
    if KINDS[type(obs)] not in (ARRAY, TENSOR):
        raise LeafError(f"{expected}, got {describe(obs)}", path)
    if not obs.ndim or len(obs) != envs:
        raise StructureError(f"{expected}, got {describe(obs)}", path)


def _parts(space: Space[Any], given: Mapping[Any, Any]) -> Iterable[tuple[Any, Space[Any]]]:
    if isinstance(space, Dict):
        return space.spaces.items()
    return enumerate(space.spaces) if isinstance(space, Tuple) else dict.fromkeys(given, space).items()


def require_outcome(rew: Any, terminated: Any, truncated: Any, envs: int) -> None:
    """Raise an error unless there are a reward and two flags for each environment.

    Raises:
        LeafError: they are not arrays of numpy, of real numbers and of flags.
        StructureError: their shape is another one than ``(environments,)``.
    """
    shape = (envs,)
    if not (type(rew) is ndarray and rew.dtype is _FLOAT and rew.shape == shape):
        _require_rewards(rew, shape)
    if not (type(terminated) is ndarray and terminated.dtype is _BOOL and terminated.shape == shape):
        _require_flags(terminated, shape, "terminated")
    if not (type(truncated) is ndarray and truncated.dtype is _BOOL and truncated.shape == shape):
        _require_flags(truncated, shape, "truncated")


def _require_rewards(rew: Any, shape: tuple[int, ...]) -> None:
    _require_array(rew, "rew", "iuf", "real numbers of numpy are expected as rewards")
    hint = "; rew[:, 0] takes a dimension of size 1 away" if rew.shape == (*shape, 1) else ""
    _require_shape(rew, shape, "rew", f"one reward for each of {shape[0]} environments", hint)


def _require_flags(flags: Any, shape: tuple[int, ...], name: str) -> None:
    _require_array(flags, name, "b", "flags of numpy are expected, which .astype(bool) makes of numbers")
    _require_shape(flags, shape, name, f"one flag for each of {shape[0]} environments", "")


def _require_array(value: Any, name: str, kinds: str, expected: str) -> None:
    if not isinstance(value, ndarray) or value.dtype.kind not in kinds:
        hint = "; .numpy() makes an array of a tensor" if KINDS[type(value)] is TENSOR else ""
        raise LeafError(f"{expected}, got {describe(value)}{hint}", name)
    if obstacle := mask_obstacle(value):
        raise LeafError(obstacle, name)


def _require_shape(value: Any, shape: tuple[int, ...], name: str, expected: str, hint: str) -> None:
    if value.shape != shape:
        raise StructureError(f"{expected} is expected, of shape {list(shape)}, got {describe(value)}{hint}", name)
