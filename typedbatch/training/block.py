"""Blocks of steps: all steps of the first environment in time order, then those of the second, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, get_origin

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core.kinds import describe, new_tree
from typedbatch._space_values import copied, nested
from typedbatch.batch import Batch
from typedbatch.errors import SettingError, TypedBatchError, did_you_mean
from typedbatch.records import RolloutBatch
from typedbatch.training.env_vector import Mask, Step
from typedbatch.training.infos import Infos
from typedbatch.training.step_columns import StepColumns

_STORED = ("obs", "act", "obs_next", "rew", "terminated", "truncated")
_OUT = ""
"""Name of the column of the policy output, which is not a field of the rollout."""

OPTIONAL: Final = ("env_id", "t", "state_in")
"""Names of the columns that a subclass of ``RolloutBatch`` may declare."""


def rollout_class(rollout: Any, *, recurrent: bool) -> type[RolloutBatch[Any, Any, Any]]:
    """Return a class of rollouts, or raise a SettingError if it is not one or declares other columns."""
    cls = get_origin(rollout) or rollout
    if not (isinstance(cls, type) and issubclass(cls, RolloutBatch)):
        got = cls.__name__ if isinstance(cls, type) else describe(cls)
        raise SettingError(f"rollout= must be a subclass of RolloutBatch, got {got}")
    declared = [name for name in cls.__record_fields__ if name not in RolloutBatch.__record_fields__]
    for name in declared:
        if name not in OPTIONAL:
            raise SettingError(
                f"rollout= declares {cls.__name__}.{name}, but a collector adds only {', '.join(OPTIONAL)}"
                f"{did_you_mean(name, OPTIONAL)}; let record= add other fields"
            )
    if "state_in" in declared and not recurrent:
        raise SettingError(
            f"rollout= declares {cls.__name__}.state_in, but the policy has no state; pass its initial state as state="
        )
    return cls


class Rows(NamedTuple):
    """The rows of a block."""

    rollout: Any
    """A ``RolloutBatch``, or None without steps."""
    out: Any
    """Policy output per row, or None if not recorded."""
    envs: NDArray[np.intp]
    """Index of the environment of each row."""


class Block:
    """Storage for at most ``steps`` steps of each environment."""

    def __init__(self, envs: int, steps: int, infos: Infos, rollout: Any, *, store_output: bool) -> None:
        self.count: int = 0
        """Number of complete steps so far."""
        self.steps: int = steps
        self.position: int = 0
        """Position of the environments before the first step."""
        self._before = 0
        self._envs = envs
        self._infos = infos
        self._rollout = rollout
        self._store_output = store_output
        self._names = (*_STORED, *(name for name in rollout.__record_fields__ if name in OPTIONAL))
        self._columns = {name: StepColumns(name, envs, steps) for name in (*self._names, _OUT)}
        self._chosen = [self._columns[name] for name in ("obs", "act")]
        self._outcome = [self._columns[name] for name in ("obs_next", "rew", "terminated", "truncated")]
        self.optional: list[StepColumns] = [self._columns[name] for name in self._names if name in OPTIONAL]
        """Columns that only some classes of rows have."""
        self._info_columns = {name: StepColumns(f"info.{name}", envs, steps, late=True) for name in infos.names}
        self._fields: dict[str, Any] | None = None
        """The fields of all rows, as long as no column gets another storage."""
        self._included: NDArray[np.bool_] | None = None
        self._numbers: NDArray[np.intp] = np.repeat(np.arange(envs), steps)
        self._env_id: NDArray[np.int64] = np.arange(envs, dtype=np.int64)

    def begin(self, before: int = 0) -> None:
        """Discard the steps so far; ``before`` is the number of steps of the same call in earlier blocks."""
        self.count, self._before, self._included = 0, before, None

    def before_policy(self, t: NDArray[np.int64], state: Any) -> None:
        """Store the optional columns of the next step, before the policy is called, which may write into its state."""
        values = {"env_id": self._env_id, "t": t, "state_in": state}
        self._write(self.optional, [values[column.name] for column in self.optional])

    def choose(self, obs: Any, act: Any, out: Any) -> None:
        """Store the choice of the next step, before the environments step, which may write into observations."""
        self._write(self._chosen, (obs, act))
        if self._store_output:
            self._write([self._columns[_OUT]], [out])

    def add(self, step: Step, left_out: Mask | None) -> None:
        """Store the outcome of a step, but for the environments in ``left_out``."""
        self._write(self._outcome, (step.obs_next, step.rew, step.terminated, step.truncated))
        if self._info_columns:
            try:
                infos = self._infos.of_step(step.info, step.last_info, step.ended)
            except TypedBatchError as error:
                raise self._with_step(error) from error.__cause__
            self._write([self._info_columns[name] for name in infos], list(infos.values()))
        if left_out is not None:
            if self._included is None:
                self._included = np.ones((self._envs, self.steps), bool)
            self._included[:, self.count] = ~left_out
        self.count += 1  # last: from here on, the step counts as stored even after Ctrl-C

    def _write(self, columns: Sequence[StepColumns], values: Sequence[Any]) -> None:
        """Write a value of the next step to each column."""
        count = self.count
        for column, value in zip(columns, values, strict=True):
            if type(value) is ndarray and value.dtype is column.dtype and value.shape == column.shape:
                column.by_step[count] = value  # hot path
                continue
            self._fields = None
            try:
                column.write(count, value)
            except TypedBatchError as error:
                raise self._with_step(error.under(column.name) if column.name else error) from error.__cause__

    def _with_step(self, error: TypedBatchError) -> TypedBatchError:
        """Add the number of the step to an error, and return it."""
        error.reason = f"{error.reason}; this is step {self._before + self.count + 1} of the call"
        error.args = (error.reason, error.path)
        return error

    def rows(self, *, cut: bool = False) -> Rows:
        """Return the rows gathered so far.

        With ``cut``, unfinished episodes are marked as truncated at the end of the block, and infos that were never
        reported are zeros. Otherwise the buffer fills in zeros later, when it knows the dtype.
        """
        if not self.count:
            return Rows(None, None, self._numbers[:0])
        live = None if self._included is None else self._included[:, : self.count]
        kept = None if live is None else np.flatnonzero(live.reshape(-1))
        is_complete = self.count == self.steps and live is None
        fields = self._fields if is_complete else None
        if fields is None:
            fields = {name: self._columns[name].flat(self.count, kept) for name in self._names}
            self._fields = fields if is_complete else None
        envs = self._numbers if self.count == self.steps else np.repeat(np.arange(self._envs), self.count)
        envs = envs if kept is None else envs[kept]
        if cut and len(envs):
            last = np.append(envs[1:] != envs[:-1], True)
            fields["truncated"][last] |= ~fields["terminated"][last]
        info = {name: column.flat(self.count, kept) for name, column in self._info_columns.items() if column.laid_out}
        if cut:
            info |= {name: np.zeros(len(envs)) for name in self._info_columns.keys() - info.keys()}
        # The values need no conversion by the constructor.
        rollout: RolloutBatch = new_tree(self._rollout, {"info": new_tree(Batch, info), **fields})
        return Rows(rollout, self._columns[_OUT].flat(self.count, kept) if self._store_output else None, envs)


class OneStep:
    """A block of a single step, with the interface of :class:`Block`, which takes 5% less time for the step.

    Observations and actions are copied, since environments may write into the observations that they returned.
    """

    steps: int = 1

    def __init__(self, envs: int) -> None:
        self.count: int = 0
        self.position: int = 0
        self._numbers: NDArray[np.intp] = np.arange(envs)
        self._obs: Any = None
        self._act: Any = None
        self._step: Any = None
        self._left_out: Mask | None = None

    def begin(self, before: int = 0) -> None:
        """Discard the step."""
        self.count = 0

    def choose(self, obs: Any, act: Any, out: Any) -> None:
        """Store the observation and action of the step, like :meth:`Block.choose`."""
        self._obs = obs.copy() if type(obs) is ndarray else copied(obs)
        self._act = act.copy() if type(act) is ndarray else copied(act)

    def add(self, step: Step, left_out: Mask | None) -> None:
        """Store the outcome of the step, like :meth:`Block.add`."""
        self._step, self._left_out = step, left_out
        self.count = 1  # set last: from here on, the step counts as stored even after Ctrl-C

    def rows(self) -> Rows:
        """Return the rows of the step, like :meth:`Block.rows`."""
        if not self.count:
            return Rows(None, None, self._numbers[:0])
        fields: dict[str, Any] = {"info": new_tree(Batch, {})}
        for name, value in zip(_STORED, (self._obs, self._act, *self._step), strict=False):
            fields[name] = value if type(value) is ndarray else nested(value)
        rollout: RolloutBatch = new_tree(RolloutBatch, fields)  # the values need no conversion by the constructor
        if self._left_out is None:
            return Rows(rollout, None, self._numbers)
        kept = np.flatnonzero(~self._left_out)
        return Rows(rollout[kept], None, kept)
