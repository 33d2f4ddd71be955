"""A record for the batches of an environment, from its spaces. Needs gymnasium and jaxtyping."""

from __future__ import annotations

import sys
import types
from typing import Annotated, Any

import jaxtyping
import numpy as np
from gymnasium import spaces

from typedbatch._tree.leaves import describe
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, LeafError
from typedbatch.records import BatchRecord
from typedbatch.rules import Rule
from typedbatch.schema.dtypes import JAXTYPING

_FLAGS = ("terminated", "truncated")


def schema_from_spaces(observation_space: Any, action_space: Any, name: str = "SpacesRollout") -> type[BatchRecord]:
    """A record of rollouts, whose ``obs``, ``obs_next`` and ``act`` are what these spaces hold, one row per step.

    Dtypes and shapes are structure; bounds are rules on values, which the level ``"values"`` checks:
    ``validate(batch, schema, level="values")``. Dict and Tuple spaces are nested records, fields of a tuple are called
    as the gymnasium bridge calls them, ``"0"``, ``"1"``, ..., and so reached by item. Spaces without a fixed dtype and
    shape, as Text, Graph and Sequence, are object arrays. ``rew`` is floating, the flags are bools, ``info`` is what
    it may be anywhere. The record matches ``RolloutBatchProtocol`` where observations and actions are plain arrays.

    Args:
        observation_space: of the environment; of one, not of a vector of them.
        action_space: of the environment.
        name: the name of the class.

    Raises:
        LeafError: what is given is not a space.
        FieldNameError: a Dict space has a key that is not a name of a field of a record, as ``"keys"``.
    """
    obs, act = _hint(observation_space, f"{name}Obs"), _hint(action_space, f"{name}Act")
    hints: dict[str, Any] = {"obs": obs, "obs_next": obs, "act": act, "rew": _shaped("floating", "N")}
    hints |= {flag: _shaped("bool", "N") for flag in _FLAGS}
    made = _record(name, {**hints, "info": Batch | np.ndarray})
    made.__module__ = sys._getframe(1).f_globals["__name__"]  # where it can be pickled from, if it is kept there
    return made


def _hint(space: Any, name: str) -> Any:
    if not isinstance(space, spaces.Space):
        raise LeafError(f"schema_from_spaces() takes spaces of gymnasium, got {describe(space)}")
    if isinstance(space, spaces.Dict):
        return _record(name, {key: _hint(part, f"{name}{str(key).title()}") for key, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return _record(name, {str(i): _hint(part, f"{name}{i}") for i, part in enumerate(space.spaces)})
    if space.shape is None or space.dtype is None:
        return np.ndarray[Any, np.dtype[np.object_]]
    hint = _shaped(space.dtype.name, " ".join(["N", *map(str, space.shape)]))
    rules = _rules(space)
    return Annotated[(hint, *rules)] if rules else hint


def _shaped(dtype: str, shape: str) -> Any:
    """Jaxtyping's annotation for arrays of this dtype and shape."""
    family: Any = getattr(jaxtyping, "Float" if dtype == "floating" else JAXTYPING.get(dtype, "Shaped"))
    return family[np.ndarray, shape]


def _rules(space: Any) -> list[Rule]:
    if isinstance(space, spaces.Box):
        return _between(space.low, space.high)
    if isinstance(space, spaces.Discrete):
        return _between(np.asarray(space.start), np.asarray(space.start + space.n - 1))
    if isinstance(space, spaces.MultiDiscrete):
        return _between(space.start, space.start + space.nvec - 1)
    return _between(np.int8(0), np.int8(1)) if isinstance(space, spaces.MultiBinary) else []


def _between(low: Any, high: Any) -> list[Rule]:
    """One rule for each side that is bounded; bounds may differ between elements."""
    rules = [Rule("no NaN", lambda values: values == values)] if np.asarray(low).dtype.kind == "f" else []
    if np.isfinite(low).any():
        rules.append(Rule(f">= {_words(low)}", lambda values: values >= low))
    if np.isfinite(high).any():
        rules.append(Rule(f"<= {_words(high)}", lambda values: values <= high))
    return rules


def _words(limit: Any) -> str:
    least, most = np.min(limit), np.max(limit)
    return str(least) if least == most else f"limits from {least} to {most}"


def _record(name: str, hints: dict[Any, Any]) -> type[BatchRecord]:
    for field in hints:
        if not isinstance(field, str) or not (field.isidentifier() or field.isdigit()) or hasattr(BatchRecord, field):
            raise FieldNameError(f"{field!r} is not a name of a field of a record; rename the key of the space")
    members = {"__annotations__": hints, "__module__": __name__}
    return types.new_class(name, (BatchRecord,), exec_body=lambda namespace: namespace.update(members))
