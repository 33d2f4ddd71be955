"""``MultiAgentBatch``: for each policy the sample batch of the agents that it acts for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops import copying
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._tree.leaves import BATCH, MAPPING, describe, kind_of, leading_shape, new_tree
from typedbatch._tree.rows import at_least
from typedbatch._typing import Index
from typedbatch.batch import Batch
from typedbatch.errors import (
    FieldNameError,
    LeafError,
    MissingFieldError,
    RowIndexError,
    StructureError,
    under,
)
from typedbatch.sample_batches.compression import compress_column
from typedbatch.sample_batches.layout import flat, layout_of
from typedbatch.sample_batches.sample_batch import DEFAULT_POLICY_ID, OBSERVATIONS, SampleBatch, replaced

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device

M = TypeVar("M", bound="MultiAgentBatch")
B = TypeVar("B", bound=Batch)


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
        given: Any = policy_batches
        if kind_of(given) not in (BATCH, MAPPING):
            raise LeafError(f"MultiAgentBatch() takes sample batches by policy, got {describe(given)}")
        batches = {name: _as_sample_batch(name, batch) for name, batch in given.items()}
        count = at_least(0, env_steps, "env_steps")
        agent_steps = sum(map(len, batches.values()))
        if count > agent_steps:
            raise StructureError(f"{count} env steps, but only {agent_steps} agent steps; each takes at least one")
        super().__init__(policy_batches=batches, count=count)

    @property
    def policy_batches(self) -> dict[str, SampleBatch]:
        """The sample batches by policy, in a dict that may be changed."""
        if "policy_batches" not in self.__dict__:  # cleared, or made of nothing by an operation
            self.__dict__["policy_batches"] = Batch()
        batches: dict[str, SampleBatch] = self.__dict__["policy_batches"].__dict__
        return batches

    @property
    def count(self) -> int:
        """The number of env steps."""
        count = np.asarray(self.__dict__.get("count", 0))
        if count.ndim:
            raise StructureError("not one number; what has made this batch counted in the count", "count")
        return int(count)

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

    def __setitem__(self, policy: Any, batch: Any, /) -> None:
        """Set the sample batch of a policy.

        Raises:
            LeafError: it is none.
            FieldNameError: ``policy`` is not a name.
        """
        if not isinstance(policy, str):
            self._refuse(f"batch[{policy!r}] = ...")
        self.policy_batches[policy] = _as_sample_batch(policy, batch)

    def __delitem__(self, policy: str, /) -> None:
        """Remove the sample batch of a policy.

        Raises:
            MissingFieldError: no such policy (a ``KeyError``).
        """
        if policy not in self.policy_batches:
            raise MissingFieldError(type(self).__name__, policy, self.policy_batches)
        del self.policy_batches[policy]

    def __contains__(self, policy: object, /) -> bool:
        """True when there is a sample batch of that policy, or a field of that name."""
        return policy in self.policy_batches or policy in self.__dict__

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if name[:2] != "__":
                raise FieldNameError(
                    f"batch[{name!r}] = ... sets the sample batch of a policy; there are no other fields"
                )
            super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        """Refused: there are no rows.

        Raises:
            RowIndexError: always.
        """
        self._refuse("iteration")

    def empty_(self: M, index: Index = None) -> M:
        """Set all columns of all policies to zero, in the existing arrays.

        Raises:
            RowIndexError: ``index`` is given; rows are those of a policy's batch.
        """
        if index is not None:
            self._refuse("empty_(index)")
        for batch in self.policy_batches.values():
            batch.empty_()
        return self

    @staticmethod
    def empty(batch: B, index: Index = None) -> B:
        """A copy with zeros in all columns of all policies; see :meth:`empty_`."""
        return type(batch).empty_(copying.deep(batch, {}), index)

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
        size = at_least(1, k, "k")
        flats = [(name, *flat(batch, layout_of(batch.__dict__))) for name, batch in self.policy_batches.items()]
        batches = [(name, batch, layout.steps) for name, batch, layout in flats if layout.steps]
        if not batches:
            return []
        step, agent = _steps_and_agents(batches)
        parts: dict[int, dict[str, SampleBatch]] = defaultdict(dict)
        for (name, batch, _), steps, agents in zip(batches, step, agent, strict=True):
            order = np.lexsort([agents, steps])
            present, begins = np.unique(steps[order] // size, return_index=True)
            for number, rows in zip(present.tolist(), np.split(order, begins[1:]), strict=True):
                parts[number][name] = batch[rows]
        total = 1 + max(int(steps.max(initial=0)) for steps in step)
        return [type(self)(parts[number], min(size, total - number * size)) for number in sorted(parts)]

    @staticmethod
    def wrap_as_needed(
        policy_batches: Mapping[str, SampleBatch | Mapping[str, Any]], env_steps: int
    ) -> SampleBatch | MultiAgentBatch:
        """The batch of the default policy if there is that one alone, else a MultiAgentBatch of all.

        Args:
            policy_batches: batches by the id of their policy.
            env_steps: the number of steps of the environment.
        """
        if len(policy_batches) == 1 and DEFAULT_POLICY_ID in policy_batches:
            batch = policy_batches[DEFAULT_POLICY_ID]
            return batch if type(batch) is SampleBatch else _as_sample_batch(DEFAULT_POLICY_ID, batch)
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
        new = []
        for policy, batch in self.policy_batches.items():
            with under(policy):
                new.append(replaced(batch, columns, lambda column: compress_column(column, bulk)))
        for batch, fields in zip(self.policy_batches.values(), new, strict=True):
            batch.__dict__.update(fields)

    def decompress_if_needed(self: M, columns: Collection[str] = OBSERVATIONS) -> M:
        """Undo :meth:`compress`, in this very batch; columns that are not compressed stay."""
        for batch in self.policy_batches.values():
            batch.decompress_if_needed(columns)
        return self


def _as_sample_batch(policy: str, batch: Any) -> SampleBatch:
    with under(policy):
        if not isinstance(batch, SampleBatch):
            if kind_of(batch) not in (BATCH, MAPPING):
                raise LeafError(f"a policy's steps are a SampleBatch, got {describe(batch)}")
            batch = SampleBatch(batch)
        len(batch)
    sample_batch: SampleBatch = batch
    return sample_batch


def of_one_policy(policy: str, batch: SampleBatch) -> MultiAgentBatch:
    """A MultiAgentBatch of one policy, in which every step is one of the environment."""
    fields = {"policy_batches": new_tree(Batch, {policy: batch}), "count": np.array(len(batch))}
    made: MultiAgentBatch = new_tree(MultiAgentBatch, fields)
    return made


def _steps_and_agents(
    batches: list[tuple[str, SampleBatch, int]],
) -> tuple[list[NDArray[np.intp]], list[NDArray[np.intp]]]:
    """For each policy the number of the environment's step that each row is of, and a number for its agent."""
    eps, t, agent = (
        _numbered([_keys(policy, batch, steps, name) for policy, batch, steps in batches], name)
        for name in ("eps_id", "t", "agent_index")
    )
    step = np.unique(eps * (t.max(initial=0) + 1) + t, return_inverse=True)[1]
    ends = np.cumsum([steps for _, _, steps in batches])[:-1]
    return np.split(step, ends), np.split(agent, ends)


def _keys(policy: str, batch: SampleBatch, steps: int, name: str) -> NDArray[Any]:
    if name == "agent_index" and name not in batch.__dict__:
        return np.zeros(steps, np.intp)
    if name not in batch.__dict__:
        raise MissingFieldError(policy, name, batch.__dict__)
    value = batch.__dict__[name]
    if leading_shape(value) != (steps,):
        raise StructureError(f"one value for each step is expected, got {describe(value)}", f"{policy}.{name}")
    return np.asarray(leaf_to_numpy(value))


def _numbered(keys: list[NDArray[Any]], name: str) -> NDArray[np.intp]:
    try:
        return np.unique(np.concatenate(keys), return_inverse=True)[1]
    except TypeError as error:
        raise StructureError(f"its values cannot be put in order: {error}", name) from error
