"""Whether observations can be rows, and what a policy chooses is an action of the environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiDiscrete, OneOf, Sequence, Space, Text, Tuple
from numpy import ndarray

from typedbatch._ops.casting import fitted
from typedbatch._spaces import named
from typedbatch._tree.leaves import describe, new_tree
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, SettingError, StructureError


def require_rows(space: Space[Any], path: str = "obs") -> None:
    """Raise an error unless observations of a space are arrays of one shape.

    Args:
        space: that of one environment.
        path: what an error names.

    Raises:
        SettingError: they are text, or of different sizes.
    """
    if isinstance(space, (Dict, Tuple)):
        spaces = space.spaces if isinstance(space, Dict) else {str(i): one for i, one in enumerate(space.spaces)}
        for name, part in spaces.items():
            require_rows(part, f"{path}.{name}")
    elif isinstance(space, (Text, Sequence, Graph, OneOf)):
        raise SettingError(
            f"{path} is of {type(space).__name__}, which arrays with a row for each environment cannot be made of; "
            "gymnasium.wrappers.FilterObservation leaves it out of a Dict, TransformObservation makes a Box of it"
        )


def require_fit(act: Any, space: Space[Any], envs: int, path: str = "act") -> None:
    """Raise an error unless there is an action of a space for each environment.

    Args:
        act: arrays, as nested as the space.
        space: that of one environment.
        envs: how many environments.
        path: what an error names.

    Raises:
        LeafError: an action of another dtype.
        StructureError: of another shape, or out of range.
    """
    if isinstance(space, (Dict, Tuple)):
        # not named(): a Dict of spaces is a mapping itself, and would be taken apart all the way down
        spaces = {str(i): one for i, one in enumerate(space.spaces)} if isinstance(space, Tuple) else space.spaces
        parts = named(act)
        if not isinstance(parts, dict) or parts.keys() != spaces.keys():
            given = ", ".join(parts) if isinstance(parts, dict) else describe(act)
            raise StructureError(f"a batch of {', '.join(spaces)} is expected, got {given}", path)
        for name, part in parts.items():
            require_fit(part, spaces[name], envs, f"{path}.{name}")
        return
    if not isinstance(act, ndarray):
        raise LeafError(f"an array is expected, got {describe(act)}", path)
    if act.shape != (envs, *(space.shape or ())):
        shape = [envs, *(space.shape or ())]
        raise StructureError(
            f"shape {shape} is expected, for {envs} environments of {space}, got {describe(act)}", path
        )
    if act.dtype == bool and isinstance(space, (Discrete, MultiDiscrete)):
        raise LeafError(
            f"{space} takes {space.dtype}, got {describe(act)}; .astype(np.int64) makes numbers of it", path
        )
    if space.dtype is not None and not np.can_cast(act.dtype, space.dtype, "same_kind"):
        raise LeafError(f"{space} takes {space.dtype}, got {describe(act)}", path)
    _require_range(act, space, path)


def in_dtypes(act: Any, space: Space[Any]) -> Any:
    """Actions that fit, in the dtypes that the space says: what environments are given is what is kept.

    Args:
        act: arrays, as nested as the space.
        space: that of one environment.

    Raises:
        RowAssignmentError: a number is too large for the dtype.
    """
    if isinstance(act, Batch):
        spaces: Any = space  # of a Dict by its names, of a Tuple by its places
        keys = act.__dict__ if isinstance(space, Dict) else range(len(act.__dict__))
        return new_tree(Batch, {str(key): in_dtypes(act[str(key)], spaces[key]) for key in keys})
    dtype = space.dtype
    if dtype is None or act.dtype == dtype:
        return act
    if act.dtype.kind in "iu":  # a larger number would become another one
        return fitted(np.empty(0, dtype), act)
    return act.astype(dtype)


def kind_of_actions(act: Any) -> Any:
    """Return what has to be the same for actions to fit as others have: names, dtypes and shapes.

    Args:
        act: an array, or nested ones.
    """
    if isinstance(act, Batch):
        return {name: kind_of_actions(part) for name, part in act.__dict__.items()}
    return (act.dtype, act.shape) if isinstance(act, ndarray) else type(act)


def _require_range(act: Any, space: Space[Any], path: str) -> None:
    if isinstance(space, Discrete):
        low, high, hint = space.start, space.start + space.n - 1, ""
    elif isinstance(space, Box):
        low, high = space.low, space.high
        hint = "; gymnasium.wrappers.vector.ClipAction and RescaleAction fit them"
    else:
        return
    if not ((act >= low) & (act <= high)).all():
        raise StructureError(f"actions out of {space}: they reach from {act.min()} to {act.max()}{hint}", path)
