"""Conversion of values of gymnasium's spaces to leaves, and back; gymnasium itself is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from typedbatch._core.depth import require_depth
from typedbatch._core.kinds import KINDS, TENSOR, Tree, new_tree
from typedbatch._ops.copying import deep_leaf
from typedbatch.batch import Batch
from typedbatch.errors import RowAssignmentError, StructureError


def nested(value: Any) -> Any:
    """Return a value of a space with dicts and tuples as nested batches; a tuple has the fields ``"0"``, ``"1"`` ..."""
    value = named(value)
    return Batch(value) if isinstance(value, dict) else value


def named(value: Any) -> Any:
    """Return a value of a space with tuples as dicts, whose keys are ``"0"``, ``"1"`` ..."""
    require_depth(value, _parts)
    return _named(value)


def _named(value: Any) -> Any:
    parts = _parts(value)
    return value if parts is None else {name: _named(part) for name, part in parts.items()}


def _parts(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, tuple):
        return {str(i): part for i, part in enumerate(value)}
    return value if isinstance(value, Mapping) else None


def unnested(value: Any) -> Any:
    """Return a leaf or a nested batch as a value of a space: the inverse of :func:`nested`.

    Fields ``"0"``, ``"1"``, ... become a tuple, even if they were built from a dict with such keys.
    """
    if not isinstance(value, Batch):
        return value
    parts = {name: unnested(part) for name, part in value.items()}
    is_tuple = bool(parts) and list(parts) == [str(i) for i in range(len(parts))]
    return tuple(parts.values()) if is_tuple else parts


def with_final(obs: Any, info: Mapping[str, Any]) -> Any:
    """Return the observations of a step, with ``final_obs`` from the info in the rows of episodes that ended.

    Without ``final_obs`` the observations themselves are returned.

    Raises:
        StructureError: The mask of ``final_obs`` or one of its observations is missing, or an observation does not fit.
    """
    if "final_obs" not in info:
        return obs
    if "_final_obs" not in info:
        raise StructureError("the info must have its mask, '_final_obs', too; it is missing", "final_obs")
    try:
        ended = np.flatnonzero(info["_final_obs"])
        last = [info["final_obs"][i] for i in ended]
        if not last:
            return obs
        if any(final is None for final in last):
            raise StructureError("an episode has ended, but its last observation is missing (None)", "final_obs")
        rows = Batch(obs=deep_leaf(obs, {}))
        rows[ended] = Batch.stack([{"obs": nested(final)} for final in last])
    except (LookupError, TypeError, RowAssignmentError) as error:
        raise StructureError(f"the last observations do not fit those of the step: {error}", "final_obs") from error
    return rows["obs"]


def copied(value: Any) -> Any:
    """Return a deep copy of observations, actions or infos. Objects in an array are not copied."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Tree):
        return new_tree(type(value), {name: copied(part) for name, part in value.__dict__.items()})
    if KINDS[type(value)] is TENSOR:
        return value.clone()
    if isinstance(value, Mapping):
        return {name: copied(part) for name, part in value.items()}
    if isinstance(value, list):
        return [*map(copied, value)]
    return tuple(map(copied, value)) if isinstance(value, tuple) else value
