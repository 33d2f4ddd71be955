"""Records for the batches of an environment, created from its spaces. Needs gymnasium and jaxtyping."""

from __future__ import annotations

import sys
import types
from typing import Annotated, Any

import jaxtyping
import numpy as np
from gymnasium import spaces

from typedbatch._core.kinds import describe
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, LeafError
from typedbatch.records import BatchRecord
from typedbatch.rules import Rule
from typedbatch.schema.dtypes import JAXTYPING


def schema_from_spaces(observation_space: Any, action_space: Any, name: str = "SpacesRollout") -> type[BatchRecord]:
    """Create a record of rollouts for the observations and actions of these spaces, with one row per step.

    ``obs``, ``obs_next`` and ``act`` are declared from the spaces. Dtypes and shapes are part of the structure. Bounds
    become rules on values, which ``validate(batch, schema, level="values")`` checks. Dict and Tuple spaces become
    nested records. The fields of a tuple are named ``"0"``, ``"1"``, ..., as in the gymnasium bridge, so they are
    accessed as items. Spaces without a fixed dtype and shape, such as Text, Graph and Sequence, become object arrays.
    ``rew`` is floating point, the flags are bools, and ``info`` is a Batch or an array. The record matches
    ``RolloutBatchProtocol`` if observations and actions are plain arrays.

    Args:
        observation_space: Observation space of a single environment, not of a vector of environments.
        action_space: Action space of a single environment.
        name: Name of the class.

    Raises:
        LeafError: an argument is not a space.
        FieldNameError: a Dict space has a key that cannot be the name of a record's field, such as ``"keys"``.
    """
    obs, act = _annotation(observation_space, f"{name}Obs"), _annotation(action_space, f"{name}Act")
    hints: dict[str, Any] = {"obs": obs, "obs_next": obs, "act": act, "rew": _array_type("floating", "N")}
    hints |= dict.fromkeys(("terminated", "truncated"), _array_type("bool", "N"))
    record = _record(name, {**hints, "info": Batch | np.ndarray})
    # so that it can be pickled if the caller stores it there
    record.__module__ = sys._getframe(1).f_globals["__name__"]
    return record


def _annotation(space: Any, name: str) -> Any:
    if not isinstance(space, spaces.Space):
        raise LeafError(f"schema_from_spaces() takes spaces of gymnasium, got {describe(space)}")
    if isinstance(space, spaces.Dict):
        parts = space.spaces.items()
        return _record(name, {key: _annotation(part, f"{name}{str(key).title()}") for key, part in parts})
    if isinstance(space, spaces.Tuple):
        return _record(name, {str(i): _annotation(part, f"{name}{i}") for i, part in enumerate(space.spaces)})
    if space.shape is None or space.dtype is None:
        return np.ndarray[Any, np.dtype[np.object_]]
    hint = _array_type(space.dtype.name, " ".join(["N", *map(str, space.shape)]))
    rules = _rules(space)
    return Annotated[(hint, *rules)] if rules else hint


def _array_type(dtype: str, shape: str) -> Any:
    """Return jaxtyping's annotation for arrays of this dtype and shape."""
    family: Any = getattr(jaxtyping, "Float" if dtype == "floating" else JAXTYPING.get(dtype, "Shaped"))
    return family[np.ndarray, shape]


def _rules(space: Any) -> list[Rule]:
    """Return a rule for each bounded side. Bounds may differ between elements."""
    low: Any
    high: Any
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high
    elif isinstance(space, spaces.Discrete):
        low, high = np.asarray(space.start), np.asarray(space.start + space.n - 1)
    elif isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    elif isinstance(space, spaces.MultiBinary):
        low, high = np.int8(0), np.int8(1)
    else:
        return []
    rules = [Rule("no NaN", lambda values: values == values)] if np.asarray(low).dtype.kind == "f" else []
    if np.isfinite(low).any():
        rules.append(Rule(f">= {_describe_limit(low)}", lambda values: values >= low))
    if np.isfinite(high).any():
        rules.append(Rule(f"<= {_describe_limit(high)}", lambda values: values <= high))
    return rules


def _describe_limit(limit: Any) -> str:
    lowest, highest = np.min(limit), np.max(limit)
    return str(lowest) if lowest == highest else f"limits from {lowest} to {highest}"


def _record(name: str, hints: dict[Any, Any]) -> type[BatchRecord]:
    for field in hints:
        if not isinstance(field, str) or not (field.isidentifier() or field.isdigit()) or hasattr(BatchRecord, field):
            raise FieldNameError(f"{field!r} cannot be the name of a record's field; rename the key of the space")
    members = {"__annotations__": hints, "__module__": __name__}
    return types.new_class(name, (BatchRecord,), exec_body=lambda namespace: namespace.update(members))
