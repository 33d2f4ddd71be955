"""``MultiAgentBatch``: for each policy the sample batch of the agents that it acts for."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch import copying
from typedbatch.batch import Batch
from typedbatch.conversion import leaf_to_numpy
from typedbatch.errors import LeafError, MissingFieldError, RowIndexError, SizeError, StructureError, TypedBatchError
from typedbatch.leaves import BATCH, MAPPING, describe, kind_of
from typedbatch.sample_batch import DEFAULT_POLICY_ID, OBSERVATIONS, SampleBatch

if TYPE_CHECKING:
    from typedbatch.conversion import Device

M = TypeVar("M", bound="MultiAgentBatch")


class MultiAgentBatch(Batch):
    """Sample batches by policy, and how many steps of the environment they are of.

    It is a Batch of two fields, ``policy_batches`` and ``count``, so conversion, copies, equality and pickles are those
    of Batch. Rows are those of a policy's batch.

    Args:
        policy_batches: batches or dicts of columns by the id of their policy; they are shared.
        env_steps: the number of steps of the environment; in each of them at least one agent has acted.

    Raises:
        LeafError: a policy's batch is none.
        StructureError: more env steps than agent steps, or columns of different lengths.
        SizeError: ``env_steps`` is negative.

    Modelled on ``ray.rllib.policy.sample_batch.MultiAgentBatch``.
    """

    def __init__(self, policy_batches: Mapping[str, SampleBatch | Mapping[str, Any]], env_steps: int) -> None:
        batches = {name: _as_sample_batch(name, batch) for name, batch in policy_batches.items()}
        count = operator.index(env_steps)
        agent_steps = sum(map(len, batches.values()))
        if count < 0:
            raise SizeError(f"env_steps counts steps of the environment, got {env_steps}")
        if count > agent_steps:
            raise StructureError(f"{count} env steps, but only {agent_steps} agent steps; each takes at least one")
        super().__init__(policy_batches=batches, count=count)

    @property
    def policy_batches(self) -> dict[str, SampleBatch]:
        """The sample batches by policy: a dict that may be changed."""
        batches: dict[str, SampleBatch] = self.__dict__["policy_batches"].__dict__
        return batches

    @property
    def count(self) -> int:
        """The number of env steps."""
        return int(self.__dict__["count"])

    def __len__(self) -> int:
        """The number of env steps."""
        return self.count

    def env_steps(self) -> int:
        """The number of env steps."""
        return self.count

    def agent_steps(self) -> int:
        """The number of steps of all agents together, at least one for each env step."""
        return sum(map(len, self.policy_batches.values()))

    def __getitem__(self, key: Any, /) -> Any:
        """The sample batch of a policy, or one of the two fields, by its name.

        Raises:
            MissingFieldError: no such policy (a ``KeyError``).
            RowIndexError: not a name; rows are those of a policy's batch.
        """
        if not isinstance(key, str):
            self._refuse(f"batch[{key!r}]")
        if key in self.policy_batches or key not in self.__dict__:
            try:
                return self.policy_batches[key]
            except KeyError:
                raise MissingFieldError(type(self).__name__, key, self.policy_batches) from None
        return self.__dict__[key]

    def __iter__(self) -> Iterator[Any]:
        """Refused: there are no rows.

        Raises:
            RowIndexError: always.
        """
        self._refuse("iteration")

    def split(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Refused: there are no rows; see :meth:`timeslices`.

        Raises:
            RowIndexError: always.
        """
        self._refuse("split()")

    def _refuse(self, what: str) -> NoReturn:
        names = ", ".join(map(repr, self.policy_batches)) or "none yet"
        raise RowIndexError(
            f"{what} takes rows, and those are of one policy: batch.policy_batches[...] ({names}); "
            "timeslices() takes steps of all of them"
        )

    def timeslices(self: M, k: int) -> list[M]:
        """Batches of ``k`` steps of the environment each, with what every agent did at these steps. Data is copied.

        Steps go by ``eps_id``, then by ``t``; the agents of a step by ``agent_index``, where there is one. A batch
        holds the policies that acted in it. For replay in lockstep.

        Raises:
            SizeError: ``k`` is below 1.
            MissingFieldError: a policy's batch has no ``eps_id`` or no ``t`` (a ``KeyError``).
        """
        if operator.index(k) < 1:
            raise SizeError(f"there is no time slice of {k} steps")
        batches = list(self.policy_batches.items())
        if not self.agent_steps():
            return []
        step, agent = _steps_and_agents(batches)
        parts: dict[int, dict[str, SampleBatch]] = defaultdict(dict)
        for (name, batch), steps, agents in zip(batches, step, agent, strict=True):
            order = np.lexsort([agents, steps])
            present, begins = np.unique(steps[order] // k, return_index=True)
            for number, rows in zip(present.tolist(), np.split(order, begins[1:]), strict=True):
                parts[number][name] = batch[rows]
        total = 1 + max(int(steps.max(initial=0)) for steps in step)
        return [type(self)(parts[number], min(k, total - number * k)) for number in sorted(parts)]

    @staticmethod
    def wrap_as_needed(
        policy_batches: Mapping[str, SampleBatch | Mapping[str, Any]], env_steps: int
    ) -> SampleBatch | MultiAgentBatch:
        """The batch of the default policy if there is that one alone, else a MultiAgentBatch of all.

        Args:
            policy_batches: batches by the id of their policy.
            env_steps: the number of steps of the environment.
        """
        if list(policy_batches) == [DEFAULT_POLICY_ID]:
            return _as_sample_batch(DEFAULT_POLICY_ID, policy_batches[DEFAULT_POLICY_ID])
        return MultiAgentBatch(policy_batches, env_steps)

    def copy(self: M) -> M:  # as RLlib has it; Batch.copy() shares the arrays
        """A new batch with copies of all columns."""
        return copying.deep(self, {})

    def as_multi_agent(self: M) -> M:
        """This very batch."""
        return self

    def to_device(self: M, device: Device, framework: Literal["torch"] = "torch") -> M:
        """As :meth:`SampleBatch.to_device`, for every policy."""
        for batch in self.policy_batches.values():
            batch.to_device(device, framework)
        return self

    def size_bytes(self) -> int:
        """Bytes of all columns of all policies; see :meth:`SampleBatch.size_bytes`."""
        return sum(batch.size_bytes() for batch in self.policy_batches.values())

    def compress(self, bulk: bool = False, columns: Collection[str] = OBSERVATIONS) -> None:
        """Compress columns of every policy, in this very batch; see :meth:`SampleBatch.compress`."""
        for batch in self.policy_batches.values():
            batch.compress(bulk, columns)

    def decompress_if_needed(self: M, columns: Collection[str] = OBSERVATIONS) -> M:
        """Undo :meth:`compress`, in this very batch; columns that are not compressed stay."""
        for batch in self.policy_batches.values():
            batch.decompress_if_needed(columns)
        return self


def _as_sample_batch(policy: str, batch: Any) -> SampleBatch:
    try:
        if not isinstance(batch, SampleBatch):
            if kind_of(batch) not in (BATCH, MAPPING):
                raise LeafError(f"a policy's steps are a SampleBatch, got {describe(batch)}")
            batch = SampleBatch(batch)
        len(batch)
    except TypedBatchError as error:
        raise error.under(policy) from error.__cause__
    sample_batch: SampleBatch = batch
    return sample_batch


def _steps_and_agents(batches: list[tuple[str, SampleBatch]]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """For each policy the number of the environment's step that each row is of, and a number for its agent."""
    columns: list[list[NDArray[Any]]] = [[], [], []]
    for policy, batch in batches:
        for column, name in zip(columns, ("eps_id", "t", "agent_index"), strict=True):
            if name in batch.__dict__ or name != "agent_index":
                try:
                    column.append(np.asarray(leaf_to_numpy(Batch.__getitem__(batch, name))))
                except MissingFieldError as error:
                    raise MissingFieldError(policy, error.field, error.names) from None
            else:
                column.append(np.zeros(len(batch), np.intp))
    eps, t, agent = (np.unique(np.concatenate(column), return_inverse=True)[1] for column in columns)
    step = np.unique(eps * (t.max(initial=0) + 1) + t, return_inverse=True)[1]
    ends = np.cumsum([len(part) for part in columns[0]])[:-1]
    return np.split(step, ends), np.split(agent, ends)
