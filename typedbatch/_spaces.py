"""Values of gymnasium's spaces as leaves, and back. gymnasium itself is not needed for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from typedbatch._ops.copying import deep_leaf
from typedbatch._tree.depth import require_depth
from typedbatch.batch import Batch
from typedbatch.errors import RowAssignmentError, StructureError


def nested(value: Any) -> Any:
    """A value of a space as leaves: dicts and tuples as nested batches, fields of a tuple called by their place.

    Raises:
        StructureError: they are nested more than 100 deep.
    """
    value = named(value)
    return Batch(value) if isinstance(value, dict) else value


def named(value: Any) -> Any:
    """The same as dicts.

    Raises:
        StructureError: they are nested more than 100 deep.
    """
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
    """A leaf, or a nested batch, as the value of a space: the inverse of :func:`nested`.

    Fields ``"0"``, ``"1"``, ... are taken for those of a tuple, even where they came from a dict with such names.
    """
    if not isinstance(value, Batch):
        return value
    parts = {name: unnested(part) for name, part in value.items()}
    is_tuple = bool(parts) and list(parts) == [str(i) for i in range(len(parts))]
    return tuple(parts.values()) if is_tuple else parts


def with_final(obs: Any, info: Mapping[str, Any]) -> Any:
    """Observations of a step, with the last ones of the episodes that ended put in; the same if there are none.

    Raises:
        StructureError: the info announces some, and they are not there, or do not fit.
    """
    if "final_obs" not in info:
        return obs
    if "_final_obs" not in info:
        raise StructureError("the mask of them, '_final_obs', is not in the info", "final_obs")
    try:
        ended = np.flatnonzero(info["_final_obs"])
        last = [info["final_obs"][i] for i in ended]
        if not last:
            return obs
        if any(one is None for one in last):
            raise StructureError("an episode has ended, but its last observation is None", "final_obs")
        rows = Batch(obs=deep_leaf(obs, {}))
        rows[ended] = Batch.stack([{"obs": nested(one)} for one in last])
    except (LookupError, TypeError, RowAssignmentError) as error:
        raise StructureError(f"these last observations do not fit those of the step: {error}", "final_obs") from error
    return rows["obs"]
