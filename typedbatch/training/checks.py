"""Checks of spaces, actions and step outcomes: arrays with a row for each environment, which match the spaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiDiscrete, OneOf, Sequence, Space, Text, Tuple
from numpy import ndarray

from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, describe, mask_obstacle, new_tree
from typedbatch._ops.casting import fitted
from typedbatch._space_values import named
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, SettingError, StructureError

_FLOAT, _BOOL = np.dtype(np.float64), np.dtype(np.bool_)


def require_rows(space: Space[Any], path: str = "obs") -> None:
    """Raise a SettingError unless all observations of a space are arrays of the same shape."""
    if isinstance(space, (Dict, Tuple)):
        spaces = space.spaces if isinstance(space, Dict) else {str(i): part for i, part in enumerate(space.spaces)}
        for name, part in spaces.items():
            require_rows(part, f"{path}.{name}")
    elif isinstance(space, (Text, Sequence, Graph, OneOf)):
        raise SettingError(
            f"{path} is a {type(space).__name__} space, whose values cannot be stored in an array with a row for each "
            "environment; gymnasium.wrappers.FilterObservation removes it from a Dict, and TransformObservation "
            "converts it to a Box"
        )


def require_fit(act: Any, space: Space[Any], envs: int, path: str = "act") -> None:
    """Raise a LeafError or StructureError unless there is an action of a space for each environment."""
    if isinstance(space, (Dict, Tuple)):
        # named() cannot be used here: a Dict space is a mapping itself, so it would convert nested spaces too.
        spaces = {str(i): part for i, part in enumerate(space.spaces)} if isinstance(space, Tuple) else space.spaces
        parts = named(act)
        if not isinstance(parts, dict) or parts.keys() != spaces.keys():
            given = ", ".join(parts) if isinstance(parts, dict) else describe(act)
            raise StructureError(f"expected a batch of {', '.join(spaces)}, got {given}", path)
        for name, part in parts.items():
            require_fit(part, spaces[name], envs, f"{path}.{name}")
        return
    if not isinstance(act, ndarray):
        raise LeafError(f"expected an array, got {describe(act)}", path)
    if act.shape != (envs, *(space.shape or ())):
        shape = [envs, *(space.shape or ())]
        raise StructureError(f"expected shape {shape} for {envs} environments of {space}, got {describe(act)}", path)
    if act.dtype == bool and isinstance(space, (Discrete, MultiDiscrete)):
        raise LeafError(f"{space} takes {space.dtype}, got {describe(act)}; .astype(np.int64) converts it", path)
    if space.dtype is not None and not np.can_cast(act.dtype, space.dtype, "same_kind"):
        raise LeafError(f"{space} takes {space.dtype}, got {describe(act)}", path)
    bounds: Any = (space.start, space.start + space.n - 1) if isinstance(space, Discrete) else None
    hint = ""
    if isinstance(space, Box):
        bounds = space.low, space.high
        hint = "; gymnasium.wrappers.vector.ClipAction and RescaleAction bring them into range"
    if bounds is not None and not ((act >= bounds[0]) & (act <= bounds[1])).all():
        raise StructureError(f"expected actions in {space}, got values from {act.min()} to {act.max()}{hint}", path)


def in_dtypes(act: Any, space: Space[Any]) -> Any:
    """Convert actions to the dtypes of the space, so that the stored actions are those that the environments get."""
    if isinstance(act, Batch):
        spaces: Any = space  # a Dict is indexed by name, a Tuple by position
        keys = act.__dict__ if isinstance(space, Dict) else range(len(act.__dict__))
        return new_tree(Batch, {str(key): in_dtypes(act[str(key)], spaces[key]) for key in keys})
    dtype = space.dtype
    if dtype is None or act.dtype == dtype:
        return act
    if act.dtype.kind in "iu":  # astype() would let integers overflow
        return fitted(np.empty(0, dtype), act)
    return act.astype(dtype)


def kind_of_actions(act: Any) -> Any:
    """Return the names, dtypes and shapes of actions. If those of checked actions are equal, no check is needed."""
    if isinstance(act, Batch):
        return {name: kind_of_actions(part) for name, part in act.__dict__.items()}
    return (act.dtype, act.shape) if isinstance(act, ndarray) else type(act)


def require_rows_of_obs(obs: Any, envs: int, space: Space[Any], path: str = "obs") -> None:
    """Raise an error unless observations have a row for each environment, and all parts of their space."""
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
    """Raise a LeafError or StructureError unless there are a reward and two flags for each environment."""
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
        text = f"one {'reward' if rewards else 'flag'} for each of {shape[0]} environments is expected, "
        text += f"of shape {list(shape)}, got {describe(value)}{hint}"
        raise StructureError(text, name)
