"""The steps of an agent within a call of a ``ParallelCollector``, and the rows that are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray
from typing_extensions import TypeVar

from typedbatch._core.level import current_level
from typedbatch._ops.padding import NO_ROW, take_or_zeros
from typedbatch._space_values import nested
from typedbatch._typing import Array
from typedbatch.batch import Batch
from typedbatch.errors import StructureError
from typedbatch.records import RolloutBatch

Obs_co = TypeVar("Obs_co", covariant=True, default=Array)
Act_co = TypeVar("Act_co", covariant=True, default=Array)


class JointRollout(RolloutBatch[Array, Obs_co, Act_co], Generic[Obs_co, Act_co]):
    """Steps of all A agents at once: fields of agents are ``(N, A, ...)``, in the order of ``possible_agents``.

    ``terminated`` and ``truncated``, ``(N,)``, are of the whole episode: it is terminated if each agent that acted in
    its last step was. The rows of an agent that does not act are zeros.
    """

    rew: Array
    """Reward of each agent, ``(N, A)``."""
    agent_mask: NDArray[np.bool_]
    """True for the agents that act in the step, ``(N, A)``."""
    ended: NDArray[np.bool_]
    """True for the agents that were terminated in the step, after which they have no value, ``(N, A)``."""


class AgentRows:
    """The steps of an agent within a call.

    Args:
        number: Number of the episode at the beginning of the call.
    """

    def __init__(self, number: int) -> None:
        self.number: int = number
        """Number of the episode of the first row, or of the one at the beginning of the call."""
        self.is_over: bool = False
        """Whether the episode of an earlier call has ended before the first row of the agent in this call."""
        self.steps: list[int] = []
        """Numbers of the steps of the call in which the agent acted."""
        self.columns: dict[str, list[Any]] = {
            name: [] for name in ("obs", "act", "obs_next", "rew", "terminated", "truncated")
        }
        self.optional: dict[str, list[Any]] = {}
        """Columns ``t`` and ``state_in``, and ``out``, if they are kept."""
        self.infos: list[Mapping[str, Any]] = []
        """Infos of the rows, if names of them are kept."""

    def __len__(self) -> int:
        return len(self.steps)

    def end(self) -> None:
        """Mark the last row as truncated, unless it has a flag."""
        columns = self.columns
        if self.steps and not columns["terminated"][-1]:
            columns["truncated"][-1] = True

    def rollout(self, cls: type[RolloutBatch[Any, Any, Any]], agent: Any, infos: Sequence[str]) -> Any:
        """Return the rows, of which there is at least one."""
        fields = {name: stacked(column) for name, column in self.columns.items()}
        if current_level() == "values" and not (right := np.isfinite(fields["rew"])).all():
            wrong = int(np.flatnonzero(~right)[0])
            raise StructureError(f"agent {agent!r} got {fields['rew'][wrong]} for step {wrong + 1} of this call", "rew")
        info = Batch({name: _reported(name, self.infos, agent) for name in infos})
        optional = {name: stacked(column) for name, column in self.optional.items() if name != "out"}
        return cls(**fields, **optional, info=info)

    def out(self) -> Any:
        """Return the outputs of the policy, with a row for each of the agent's."""
        return Batch.stack(self.optional["out"])


def joined(parts: Mapping[Any, AgentRows], steps: int, infos: Sequence[str], ends: Sequence[int]) -> JointRollout:
    """Return the rows of all agents together.

    Args:
        parts: Rows of each agent.
        steps: Number of steps of the call.
        infos: Names in infos that are kept.
        ends: Numbers of the last steps of episodes.

    Raises:
        StructureError: Observations or actions of agents differ in their shapes.
    """
    rows, mask = dict[str, list[Any]](), np.zeros((steps, len(parts)), bool)
    for number, (agent, part) in enumerate(parts.items()):
        mask[part.steps, number] = True
        if not part.steps:
            continue
        at = np.full(steps, NO_ROW, np.intp)
        at[part.steps] = np.arange(len(part))
        rollout: Batch = take_or_zeros(Batch(part.rollout(RolloutBatch, agent, infos)), at)
        for name, value in rollout.__dict__.items():
            rows.setdefault(name, []).append((number, value))
    fields: dict[str, Any] = {}
    for name, found in rows.items():
        values: dict[int, Any] = dict(found)
        every = [values[number] if number in values else _zeros(found[0][1]) for number in range(len(parts))]
        try:
            fields[name] = Batch.stack([Batch(x=value) for value in every], axis=1)["x"]
        except Exception as error:
            raise StructureError(f"agents differ in it, so their rows cannot be joined: {error}", name) from error
    flags = {name: fields.pop(name) & mask for name in ("terminated", "truncated")}
    over = np.zeros(steps, bool)
    over[list(ends)] = True
    terminated = over & ~flags["truncated"].any(1) & flags["terminated"].any(1)
    fields.update(terminated=terminated, truncated=over & ~terminated, agent_mask=mask, ended=flags["terminated"])
    return JointRollout(**fields)


def _zeros(like: Any) -> Any:
    """Return as many rows of zeros as a field has."""
    batch = Batch(x=like)
    return take_or_zeros(batch, np.full(len(batch), NO_ROW, np.intp))["x"]


def stacked(values: list[Any]) -> Any:
    """Return values of a space, one for each row, as an array or a nested batch with rows."""
    first = values[0]
    if type(first) is ndarray:
        kind = (ndarray, first.shape, first.dtype)
        if all((type(value), value.shape, value.dtype) == kind for value in values):
            return np.stack(values)
    elif isinstance(first, (bool, int, float, np.generic)) and {*map(type, values)} == {type(first)}:
        return np.array(values)
    return Batch.stack([Batch(x=nested(value)) for value in values])["x"]


def _reported(name: str, infos: Sequence[Mapping[str, Any]], agent: Any) -> Any:
    """Return the values of a name in infos, with zeros where it was not reported."""
    found = [info[name] for info in infos if name in info]
    if not found:
        others = sorted({str(other) for info in infos for other in info})
        raise StructureError(f"agent {agent!r} got no {name!r}, but {', '.join(others) or 'nothing'}", f"info.{name}")
    values = stacked([np.asarray(value) for value in found])
    out = np.zeros((len(infos), *values.shape[1:]), values.dtype)
    out[[name in info for info in infos]] = values
    return out
