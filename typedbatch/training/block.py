"""A block of steps, as they are gathered: all of the first environment in the order of time, then the second, ...."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._spaces import nested
from typedbatch._tree.leaves import new_tree
from typedbatch.batch import Batch
from typedbatch.errors import TypedBatchError
from typedbatch.records import RolloutBatch
from typedbatch.training.columns import Columns
from typedbatch.training.infos import Infos
from typedbatch.training.vector import Mask, Step, copied

_AFTER = ("obs_next", "rew", "terminated", "truncated")
"""What a step has, in its order."""


class Rows(NamedTuple):
    """What a block holds."""

    rollout: Any
    """A ``RolloutBatch``; None without rows."""
    out: Any
    """What the policy gave for each row; None if nobody wants it."""
    envs: NDArray[np.intp]
    """The environment of each row."""


class Block:
    """Room for some steps of each environment.

    Args:
        envs: how many environments.
        steps: how many steps.
        infos: what is kept of the info.
        keeps_out: whether all that the policy gives is kept.
    """

    def __init__(self, envs: int, steps: int, infos: Infos, *, keeps_out: bool) -> None:
        self.count: int = 0
        """Whole steps so far."""
        self.steps: int = steps
        self.position: int = 0
        """That of the environments before the first step."""
        self.before: int = 0
        """Steps of the same call that are in blocks before this one."""
        self._envs = envs
        self._columns: dict[str, Columns] = {name: Columns(envs, steps) for name in ("obs", "act", *_AFTER)}
        self._after = [self._columns[name] for name in _AFTER]
        self._infos = infos
        self._said = {name: Columns(envs, steps, late=True) for name in infos.names}
        self._out = Columns(envs, steps) if keeps_out else None
        self._live: NDArray[np.bool_] | None = None
        self._numbers: NDArray[np.intp] = np.repeat(np.arange(envs), steps)

    def begin(self) -> None:
        """Forget the steps so far; those that come are written over them."""
        self.count, self._live = 0, None

    def choose(self, obs: Any, act: Any, out: Any) -> None:
        """Take over what the next step begins with, before it is made: environments may write into what they gave."""
        name, columns, step = "obs", self._columns, self.count
        try:
            columns["obs"].write(step, obs)
            name = "act"
            columns["act"].write(step, act)
            if self._out is not None:
                name = ""
                self._out.write(step, out)
        except TypedBatchError as error:
            raise self._placed(error, name) from error.__cause__

    def add(self, step: Step, left_out: Mask | None) -> None:
        """Take over a step.

        Args:
            step: what it led to.
            left_out: environments whose row is not kept; None if all are.
        """
        name = ""
        try:
            for place, column in enumerate(self._after):
                name = _AFTER[place]
                column.write(self.count, step[place])
            if self._said:
                name = ""
                for said, value in self._infos.of(step.info, step.last_info, step.ended).items():
                    name = f"info.{said}"
                    self._said[said].write(self.count, value)
        except TypedBatchError as error:
            raise self._placed(error, name) from error.__cause__
        if left_out is not None:
            if self._live is None:
                self._live = np.ones((self._envs, self.steps), bool)
            self._live[:, self.count] = ~left_out
        self.count += 1

    def _placed(self, error: TypedBatchError, name: str) -> TypedBatchError:
        """An error with the field and the step that it is about."""
        error.reason = f"{error.reason}; this is step {self.before + self.count + 1} of the call"
        error.args = (error.reason, error.path)
        return error.under(name) if name else error

    def rows(self, *, cut: bool = False) -> Rows:
        """What was gathered.

        Args:
            cut: whether the rows stand for themselves: episodes that go on count as truncated where the block ends, and
                infos that have not come are zeros, where a buffer would fill in zeros of their dtype later.
        """
        if not self.count:
            return Rows(None, None, self._numbers[:0])
        live = None if self._live is None else self._live[:, : self.count]
        kept = None if live is None else np.flatnonzero(live.reshape(-1))
        fields = {name: column.flat(self.count, kept) for name, column in self._columns.items()}
        envs = self._numbers if self.count == self.steps else np.repeat(np.arange(self._envs), self.count)
        envs = envs if kept is None else envs[kept]
        if cut and len(envs):
            last = np.append(envs[1:] != envs[:-1], True)
            fields["truncated"][last] |= ~fields["terminated"][last]
        info = {name: column.flat(self.count, kept) for name, column in self._said.items() if column.laid_out}
        if cut:
            info |= {name: np.zeros(len(envs)) for name in self._said.keys() - info.keys()}
        rollout = RolloutBatch(info=new_tree(Batch, info), **fields)
        return Rows(rollout, None if self._out is None else self._out.flat(self.count, kept), envs)


class OneStep:
    """A block of a single step. What it begins with is copied, since environments write into what they gave.

    Args:
        envs: how many environments.
    """

    steps: int = 1

    def __init__(self, envs: int) -> None:
        self.count: int = 0
        self.position: int = 0
        self.before: int = 0
        self._numbers: NDArray[np.intp] = np.arange(envs)
        self._obs: Any = None
        self._act: Any = None
        self._step: Step | None = None
        self._left_out: Mask | None = None

    def begin(self) -> None:
        """Forget the step."""
        self.count, self._step = 0, None

    def choose(self, obs: Any, act: Any, out: Any) -> None:
        """As :meth:`Block.choose`."""
        self._obs = obs.copy() if type(obs) is ndarray else copied(obs)
        self._act = act.copy() if type(act) is ndarray else copied(act)

    def add(self, step: Step, left_out: Mask | None) -> None:
        """As :meth:`Block.add`."""
        self._step, self._left_out = step, left_out
        self.count = 1  # last, as the step is there from now on

    def rows(self) -> Rows:
        """As :meth:`Block.rows`."""
        if self._step is None or not self.count:
            return Rows(None, None, self._numbers[:0])
        obs_next, rew, terminated, truncated = self._step[:4]
        fields = {
            "obs": _leaf(self._obs),
            "info": new_tree(Batch, {}),
            "obs_next": _leaf(obs_next),
            "act": _leaf(self._act),
            "rew": rew,
            "terminated": terminated,
            "truncated": truncated,
        }
        rollout: RolloutBatch = new_tree(RolloutBatch, fields)  # the constructor would find nothing to convert
        if self._left_out is None:
            return Rows(rollout, None, self._numbers)
        kept = np.flatnonzero(~self._left_out)
        return Rows(rollout[kept], None, kept)


def _leaf(value: Any) -> Any:
    return value if type(value) is ndarray else nested(value)
