"""A Batch with the members of RLlib's ``MultiAgentBatch``: one sample batch for each policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import BATCH, MAPPING, describe, kind_of, leading_shape, new_tree
from typedbatch._core.lengths import require_at_least
from typedbatch._ops import copying
from typedbatch._ops.construct import refuse_on_instances
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._typing import Index
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, LeafError, MissingFieldError, RowIndexError, StructureError, under
from typedbatch.records import ClosedBatch
from typedbatch.sample_batches.compression import compress_column
from typedbatch.sample_batches.layout import flat, layout_of
from typedbatch.sample_batches.sample_batch import DEFAULT_POLICY_ID, OBSERVATIONS, SampleBatch, replaced

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device

M = TypeVar("M", bound="MultiAgentBatch")
B = TypeVar("B", bound=Batch)


class MultiAgentBatch(ClosedBatch):
    """Sample batches by policy, and the number of env steps that they come from.

    It is a Batch of two fields, ``policy_batches`` and ``count``, so conversion, copies, equality and pickles are those
    of Batch. Only a policy's batch has rows.

    Args:
        policy_batches: Batches or dicts of columns by the id of their policy. They are shared.
        env_steps: Number of steps of the environment. At least one agent has acted in each of them.

    Raises:
        LeafError: a policy's batch is neither a batch nor a dict of columns.
        StructureError: there are more env steps than agent steps, or columns have different lengths.
        SizeError: ``env_steps`` is negative.

    Modeled on ``ray.rllib.policy.sample_batch.MultiAgentBatch``.
    """

    def __init__(self, policy_batches: Mapping[str, SampleBatch | Mapping[str, Any]], env_steps: int) -> None:
        by_policy: Any = policy_batches
        if kind_of(by_policy) not in (BATCH, MAPPING):
            raise LeafError(f"MultiAgentBatch() takes sample batches by policy, got {describe(by_policy)}")
        batches = {name: _as_sample_batch(name, batch) for name, batch in by_policy.items()}
        count = require_at_least(0, env_steps, "env_steps")
        agent_steps = sum(map(len, batches.values()))
        if count > agent_steps:
            text = f"each env step has at least one agent step, got {count} env steps and {agent_steps} agent steps"
            raise StructureError(text)
        super().__init__(policy_batches=batches, count=count)

    @property
    def policy_batches(self) -> dict[str, SampleBatch]:
        """The sample batches by policy, as a dict that may be modified."""
        if "policy_batches" not in self.__dict__:  # it was cleared, or an operation created an empty batch
            self.__dict__["policy_batches"] = Batch()
        batches: dict[str, SampleBatch] = self.__dict__["policy_batches"].__dict__
        return batches

    @property
    def count(self) -> int:
        """Number of env steps."""
        count = np.asarray(self.__dict__.get("count", 0))
        if count.ndim:
            text = "must be a single number; the operation that created this batch has combined several counts"
            raise StructureError(text, "count")
        return int(count)

    def __len__(self) -> int:
        """Return the number of env steps."""
        return self.count

    def env_steps(self) -> int:
        """Return the number of env steps."""
        return self.count

    def agent_steps(self) -> int:
        """Return the number of steps of all agents together, which is at least one for each env step."""
        return sum(map(len, self.policy_batches.values()))

    def __getitem__(self, key: Any, /) -> Any:
        """Return the sample batch of a policy, or one of the two fields, by its name.

        Raises:
            MissingFieldError: the policy does not exist (a ``KeyError``).
            RowIndexError: ``key`` is not a name. Only a policy's batch has rows.
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
            LeafError: ``batch`` is neither a batch nor a dict of columns.
            RowIndexError: ``policy`` is not a name.
        """
        if not isinstance(policy, str):
            self._refuse(f"batch[{policy!r}] = ...")
        self.policy_batches[policy] = _as_sample_batch(policy, batch)

    def __delitem__(self, policy: str, /) -> None:
        """Remove the sample batch of a policy.

        Raises:
            MissingFieldError: the policy does not exist (a ``KeyError``).
        """
        if policy not in self.policy_batches:
            raise MissingFieldError(type(self).__name__, policy, self.policy_batches)
        del self.policy_batches[policy]

    def __contains__(self, policy: object, /) -> bool:
        """Return whether a policy or a field has that name."""
        return policy in self.policy_batches or policy in self.__dict__

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if name[:2] != "__":
                has = "a MultiAgentBatch has no other fields"
                raise FieldNameError(f"{has}; set the sample batch of a policy by batch[{name!r}] = ...")
            super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        """Refuse iteration, because a MultiAgentBatch has no rows.

        Raises:
            RowIndexError: always.
        """
        self._refuse("iteration")

    def empty_(self: M, index: Index = None) -> M:
        """Set all columns of all policies to zero, in the existing arrays.

        Raises:
            RowIndexError: ``index`` is passed. Only a policy's batch has rows.
        """
        if index is not None:
            self._refuse("empty_(index)")
        for batch in self.policy_batches.values():
            batch.empty_()
        return self

    @staticmethod
    def empty(batch: B, index: Index = None) -> B:
        """Return a copy with zeros in all columns of all policies; see :meth:`empty_`."""
        return type(batch).empty_(copying.deep(batch, {}), index)

    def split(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Refuse to split, because a MultiAgentBatch has no rows; see :meth:`timeslices`.

        Raises:
            RowIndexError: always.
        """
        self._refuse("split()")

    def _refuse(self, operation: str) -> NoReturn:
        names = ", ".join(map(repr, self.policy_batches)) or "none yet"
        raise RowIndexError(
            f"{operation} needs rows, which only a policy's batch has; use batch.policy_batches[...] ({names}), or "
            "timeslices() for steps of all policies"
        )

    def timeslices(self: M, k: int) -> list[M]:
        """Return batches of ``k`` env steps each, with the steps of every agent in them, for replay in lockstep.

        Env steps are ordered by ``eps_id`` and then ``t``, and the agents of a step by ``agent_index`` if it exists. A
        batch has the policies that acted in it. Data is copied.

        Raises:
            SizeError: ``k`` is below 1.
            MissingFieldError: a policy's batch lacks ``eps_id`` or ``t`` (a ``KeyError``).
        """
        size = require_at_least(1, k, "k")
        flats = [(name, *flat(batch, layout_of(batch.__dict__))) for name, batch in self.policy_batches.items()]
        batches = [(name, batch, layout.steps) for name, batch, layout in flats if layout.steps]
        if not batches:
            return []
        eps, t, agents_of_rows = (_numbered(batches, name) for name in ("eps_id", "t", "agent_index"))
        step_of_rows = np.unique(eps * (t.max(initial=0) + 1) + t, return_inverse=True)[1]
        ends = np.cumsum([steps for _, _, steps in batches])[:-1]
        step, agent = np.split(step_of_rows, ends), np.split(agents_of_rows, ends)
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
        """Return the default policy's batch if it is the only one, or else a MultiAgentBatch of all.

        Args:
            policy_batches: Batches by the id of their policy.
            env_steps: Number of steps of the environment.
        """
        if len(policy_batches) == 1 and DEFAULT_POLICY_ID in policy_batches:
            batch = policy_batches[DEFAULT_POLICY_ID]
            return batch if type(batch) is SampleBatch else _as_sample_batch(DEFAULT_POLICY_ID, batch)
        return MultiAgentBatch(policy_batches, env_steps)

    def copy(self: M) -> M:  # like RLlib's; Batch.copy() shares the arrays
        """Return a new batch with copies of all columns."""
        return copying.deep(self, {})

    def as_multi_agent(self: M) -> M:
        """Return this batch itself."""
        return self

    def to_device(self: M, device: Device, framework: Literal["torch"] = "torch") -> M:
        """Convert the columns of every policy, as :meth:`SampleBatch.to_device` does."""
        for batch in self.policy_batches.values():
            batch.to_device(device, framework)
        return self

    def size_bytes(self) -> int:
        """Return the number of bytes of all columns of all policies; see :meth:`SampleBatch.size_bytes`."""
        return sum(batch.size_bytes() for batch in self.policy_batches.values())

    def compress(self, bulk: bool = False, columns: Collection[str] = OBSERVATIONS) -> None:
        """Compress columns of every policy of this batch; see :meth:`SampleBatch.compress`."""
        new = []
        for policy, batch in self.policy_batches.items():
            with under(policy):
                new.append(replaced(batch, columns, lambda column: compress_column(column, bulk)))
        for batch, fields in zip(self.policy_batches.values(), new, strict=True):
            batch.__dict__.update(fields)

    def decompress_if_needed(self: M, columns: Collection[str] = OBSERVATIONS) -> M:
        """Decompress columns of this batch. Columns that are not compressed are left unchanged."""
        for batch in self.policy_batches.values():
            batch.decompress_if_needed(columns)
        return self


refuse_on_instances(MultiAgentBatch, "wrap_as_needed")


def _as_sample_batch(policy: str, batch: Any) -> SampleBatch:
    with under(policy):
        if kind_of(batch) not in (BATCH, MAPPING):
            raise LeafError(f"a policy's steps must be a SampleBatch, got {describe(batch)}")
        steps = batch if isinstance(batch, SampleBatch) else SampleBatch(batch)
        len(steps)
    return steps


def of_one_policy(policy: str, batch: SampleBatch) -> MultiAgentBatch:
    """Return a MultiAgentBatch of one policy, in which every step is an env step."""
    fields = {"policy_batches": new_tree(Batch, {policy: batch}), "count": np.array(len(batch))}
    return new_tree(MultiAgentBatch, fields)


def _numbered(batches: list[tuple[str, SampleBatch, int]], name: str) -> NDArray[np.intp]:
    """Return the rank of each value of a field among those of all policies, end to end."""
    keys: list[NDArray[Any]] = []
    for policy, batch, steps in batches:
        if name not in batch.__dict__ and name != "agent_index":
            raise MissingFieldError(policy, name, batch.__dict__)
        value = batch.__dict__.get(name, np.zeros(steps, np.intp))
        if leading_shape(value) != (steps,):
            raise StructureError(f"must have one value for each step, got {describe(value)}", f"{policy}.{name}")
        keys.append(np.asarray(leaf_to_numpy(value)))
    try:
        return np.unique(np.concatenate(keys), return_inverse=True)[1]
    except TypeError as error:
        raise StructureError(f"its values cannot be sorted: {error}", name) from error
