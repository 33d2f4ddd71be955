"""``Collector``: steps environments with a policy, and hands out what happened."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Generic, overload

import numpy as np
from gymnasium.vector import VectorEnv
from numpy import ndarray
from numpy.typing import NDArray
from typing_extensions import TypeVar

from typedbatch._level import current_level
from typedbatch._ops.conversion import no_grad, to_numpy
from typedbatch._spaces import nested, unnested
from typedbatch._tree.leaves import describe, new_tree
from typedbatch._tree.rows import MOST_ROWS, at_least, at_most
from typedbatch._typing import Array
from typedbatch.batch import Batch
from typedbatch.buffers import ReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.errors import LeafError, SettingError, SizeError, StructureError
from typedbatch.protocols import ActBatchProtocol, ActStateBatchProtocol, BatchProtocol
from typedbatch.records import ObsBatch, RolloutBatch
from typedbatch.training.block import Block, OneStep, Rows
from typedbatch.training.following import Following
from typedbatch.training.infos import Infos
from typedbatch.training.policy import A, ArrayPolicy, Obs, ObsStateBatch, Policy, RecurrentPolicy, random_policy
from typedbatch.training.rings import add_rows, require_rings
from typedbatch.training.spaces import in_dtypes, kind_of_actions, require_fit, require_rows
from typedbatch.training.stats import CollectStats, Episodes
from typedbatch.training.vector import Envs, Vector, copied

AS = TypeVar("AS", bound=ActStateBatchProtocol[Any, Any])
R = TypeVar("R", bound=BatchProtocol)
R_co = TypeVar("R_co", bound=BatchProtocol, covariant=True)

_BLOCK = 128
"""Steps that are gathered before they go into a buffer together."""


class Collector(Generic[R_co]):
    """Steps environments with a policy. What it hands out is a ``RolloutBatch``, or what ``record`` makes of it.

    Each call goes on where the last one stopped. Steps on which gymnasium resets an environment
    (``AutoresetMode.NEXT_STEP``) are left out, and ``obs_next`` is what a step led to, also where an episode ended. The
    policy is called without gradients. Arrays have the dtypes of the environments, or wider ones where a later step
    needs them. All of them are copies, also those that the policy is handed, which may write into them.

    After an error, or Ctrl-C, at whichever moment, rows that go on in a buffer are steps that followed each other:
    where some are missing, new episodes begin, or the rows before them count as ``truncated`` once others follow.

    Args:
        envs: a vector of environments, in whichever mode of resetting; or a function that makes one, which is called
            again when a process of it has died or hangs.
        policy: what chooses the actions; with ``state=`` a recurrent one.
        record: called once for each collection with all its rows, and with all that the policy gave beside the actions:
            ``record(rollout, out)``; gives what is to be handed out.
        state: what a recurrent policy is handed at the beginning of an episode: one row, without a row dimension.
        infos: names in the environments' info to be kept, in ``batch.info``; zero where one says nothing. Rows in a
            buffer have those that have come so far. The policy is handed those of the step before, or of the reset.
        timeout: seconds that a step or a reset of environments in other processes may take; None for ever.

    Raises:
        SettingError: a single environment, a vector that does not say how it resets its environments or what their
            spaces are, observations that arrays cannot be made of, or a timeout that is not above 0.
    """

    @overload
    def __init__(
        self: Collector[RolloutBatch],
        envs: Envs | Callable[[], Envs],
        policy: Policy[ActBatchProtocol[Any, Any], object],
        *,
        infos: Sequence[str] = ...,
        timeout: float | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Collector[RolloutBatch[Array, Obs]],
        envs: Envs | Callable[[], Envs],
        policy: ArrayPolicy[ActBatchProtocol[Any, Any], Obs],
        *,
        infos: Sequence[str] = ...,
        timeout: float | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        envs: Envs | Callable[[], Envs],
        policy: ArrayPolicy[A, Obs],
        record: Callable[[RolloutBatch[Array, Obs], A], R_co],
        *,
        infos: Sequence[str] = ...,
        timeout: float | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Collector[RolloutBatch],
        envs: Envs | Callable[[], Envs],
        policy: RecurrentPolicy[ActStateBatchProtocol[Any, Any]],
        *,
        state: Any,
        infos: Sequence[str] = ...,
        timeout: float | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        envs: Envs | Callable[[], Envs],
        policy: RecurrentPolicy[AS],
        record: Callable[[RolloutBatch, AS], R_co],
        *,
        state: Any,
        infos: Sequence[str] = ...,
        timeout: float | None = ...,
    ) -> None: ...
    def __init__(
        self,
        envs: Any,
        policy: Any,
        record: Any = None,
        *,
        state: Any = None,
        infos: Sequence[str] = (),
        timeout: float | None = None,
    ) -> None:
        if not callable(policy):
            raise SettingError(f"a policy is called with observations, got {describe(policy)}")
        self._vector = Vector(envs, timeout)
        require_rows(self._vector.envs.single_observation_space)
        self._policy = policy
        self._record: Callable[[Any, Any], Any] | None = record
        self._infos = Infos(infos)
        self._said: Any = None
        self._first: Any = None if state is None else _rows_of(state, self.num_envs)
        self._state: Any = None
        self._episodes = Episodes(self.num_envs)
        self._following = Following()
        self._given_up_to = -1
        """The position behind the last row that :meth:`rows` gave."""
        self._fits: Any = None
        """The dtypes and shapes of actions that fit."""
        self._act_dtype = self._vector.envs.single_action_space.dtype
        self._spare: Block | OneStep | None = None
        self._random: Policy[Any] | None = None
        self.seed: int | None = None
        """The seed that environments were reset with last; None before."""
        self.last_stats: CollectStats = CollectStats()
        """What the last call has brought; an epoch has those of all its calls, as ``epoch.collected``."""
        self.steps: int = 0
        """Steps of all calls."""
        self.continues: bool = False
        """Whether what :meth:`rows` gave last goes on where what it had given before ended."""

    @property
    def num_envs(self) -> int:
        """How many environments."""
        return self._vector.num_envs

    @property
    def envs(self) -> VectorEnv[Any, Any, Any]:
        """The environments."""
        return self._vector.envs

    @property
    def stats(self) -> CollectStats:
        """The old name of :attr:`last_stats`."""
        warn_of_stats()
        return self.last_stats

    # ---- what happens ---------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode in each environment.

        Args:
            seed: of the first environment; the others have the next ones. Random actions have it too. None for others
                each time.

        Raises:
            SettingError: a seed that is not a whole number from 0 on.
            EnvironmentFailedError: an environment has raised an error.
            LeafError: observations that have no rows.
            StructureError: observations that have not a row for each environment.
        """
        seed = None if seed is None else require_seed(seed)
        if seed is not None or self.seed is None:
            seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
            self._random = random_policy(self.envs, seed)
            self.seed = seed
        obs, info = self._vector.reset(seed)
        self._hear(info)
        self._episodes.forget()
        self._state = deepcopy(self._first)  # a policy may write into what it is handed
        self._vector.obs = obs  # last, so that whatever ends this in between leaves nothing that goes on

    def rollout(self, n_step: int) -> R_co:
        """So many steps: all of the first environment in the order of time, then those of the second, and so on.

        An episode that goes on behind them counts as ``truncated`` at its last row, as nothing is to be summed across
        the border to the next environment; the next call goes on with it. The arrays are new.

        Args:
            n_step: steps of all environments together; rounded up to the same number for each.

        Raises:
            SizeError: fewer than 1.
            EnvironmentFailedError: an environment has raised an error; nothing is kept of this call.
            StructureError: the policy's actions are not those of the environments, or not one for each; what
                environments or the policy give has another shape, or other fields, than in the steps before.
            LeafError: something else than arrays and tensors; no dtype holds the values of two steps unchanged.
        """
        steps = -(-count_of(n_step, "n_step") // self.num_envs)
        block = self._block(steps)
        begun = time.perf_counter()
        try:
            self._gather(block, steps, self._policy)
        finally:
            rows = block.rows(cut=True)
            self._count(len(rows.envs), begun)
        self._require_infos()
        batch: R_co = self._recorded(rows)
        return batch

    def collect(
        self,
        into: ReplayBuffer[R_co, Any],
        n_step: int | None = None,
        n_episode: int | None = None,
        *,
        random: bool = False,
    ) -> CollectStats:
        """Add so many steps, or episodes, to a buffer, each environment's to its ring. Nothing is cut.

        If what is added does not go on where this collector has ended in the buffer, the last rows there count as
        ``truncated`` from then on, so that no episode goes on into another one. What was gathered before an error, or
        before Ctrl-C, is in the buffer.

        Args:
            into: a buffer with a ring for each environment.
            n_step: steps of all environments together; rounded up to the same number for each.
            n_episode: whole episodes. All environments begin anew, each brings its share, the first ones one more where
                it does not divide; so short episodes are not more likely than long ones.
            random: choose random actions instead of the policy's; only without ``record``.

        Raises:
            SettingError: ``n_step`` and ``n_episode``, or neither; a buffer with another number of rings; random
                actions where ``record`` needs what the policy says.
            SizeError: fewer than 1 of them.
            EnvironmentFailedError: an environment has raised an error.
            StructureError: the policy's actions are not those of the environments, or not one for each; what
                environments or the policy give has another shape, or other fields, than in the steps before.
            LeafError: something else than arrays and tensors; no dtype holds the values of two steps unchanged.
        """
        require_rings(into, self.num_envs)
        added, begun = 0, time.perf_counter()

        def keep(block: Block | OneStep) -> None:
            nonlocal added
            added += self._add(into, block)

        try:
            self._fill(n_step, n_episode, random, self._reused, keep)
        finally:
            self._count(added, begun)
        self._require_infos()
        return self.last_stats

    def rows(
        self, n_step: int | None = None, n_episode: int | None = None, *, random: bool = False
    ) -> tuple[R_co, NDArray[np.intp]]:
        """What :meth:`collect` adds to a buffer, and the environment of each row; for who adds it elsewhere.

        Raises:
            SettingError: ``n_step`` and ``n_episode``, or neither; random actions where ``record`` needs what the
                policy says.
            SizeError: fewer than 1 of them.
            EnvironmentFailedError: an environment has raised an error; nothing is kept of this call.
            StructureError: the policy's actions are not those of the environments, or not one for each; what
                environments or the policy give has another shape, or other fields, than in the steps before.
            LeafError: something else than arrays and tensors; no dtype holds the values of two steps unchanged.
        """
        batches: list[Any] = []
        envs: list[NDArray[np.intp]] = []
        positions: list[int] = []
        begun = time.perf_counter()

        def keep(block: Block | OneStep) -> None:
            if block.count:
                rows = block.rows()
                batches.append(self._recorded(rows))
                envs.append(rows.envs)
                positions.extend((block.position, block.position + block.count))

        try:
            self._fill(n_step, n_episode, random, self._block, keep)
        finally:
            self._count(sum(map(len, envs)), begun)
        self._require_infos()
        batch: R_co = batches[0] if len(batches) == 1 else Batch.cat(batches)
        whole = batch, np.concatenate(envs)
        self.continues = positions[0] == self._given_up_to
        self._given_up_to = positions[-1]
        return whole

    def evaluate(self, n_episode: int, seed: int | None = None) -> CollectStats:
        """The returns and lengths of so many whole episodes, in these environments; see :func:`evaluate`.

        All environments begin anew, and nothing is kept of the episodes.
        """
        quota = shares(count_of(n_episode, "n_episode"), self.num_envs)
        begun = time.perf_counter()
        self.reset(seed)
        while quota.any():
            self._gather(None, _BLOCK, self._policy, quota)
        stats = CollectStats(0, *self._episodes.taken(), time.perf_counter() - begun)
        self.last_stats = replace(stats, steps=int(stats.lengths.sum()))
        return self.last_stats

    # ---- how ------------------------------------------------------------------------------------------------------

    def _fill(
        self,
        n_step: int | None,
        n_episode: int | None,
        random: bool,
        room: Callable[[int], Block | OneStep],
        keep: Callable[[Block | OneStep], None],
    ) -> None:
        """Make so many steps, or episodes; each block is kept, also the one in which an error was raised."""
        require_one_of(n_step, n_episode)
        policy = self._chosen(random)
        if n_step is not None:
            left, quota = -(-count_of(n_step, "n_step") // self.num_envs), None
        else:
            left, quota = _BLOCK, shares(count_of(n_episode, "n_episode"), self.num_envs)
            self.reset()
        before = 0
        while left if quota is None else quota.any():
            block = room(min(left, _BLOCK))
            block.before = before
            try:
                self._gather(block, block.steps, policy, quota)
            finally:
                keep(block)
            before += block.steps
            left -= block.steps if quota is None else 0

    def _chosen(self, random: bool) -> Any:
        """What chooses the actions."""
        if not random:
            return self._policy
        if self._record is not None:
            raise SettingError("record() needs what the policy gives, which random actions do not have")
        if self._random is None:
            self.reset()
        return self._random

    def _block(self, steps: int) -> Block:
        return Block(self.num_envs, steps, self._infos, keeps_out=self._record is not None)

    def _reused(self, steps: int) -> Block | OneStep:
        """Room for so many steps, the same as before if nobody else can have it."""
        if self._spare is None or self._spare.steps != steps or self._record is not None:
            plain = self._record is None and not self._infos.names
            self._spare = OneStep(self.num_envs) if steps == 1 and plain else self._block(steps)
        self._spare.begin()
        return self._spare

    def _gather(
        self, block: Block | OneStep | None, steps: int, policy: Any, quota: NDArray[np.intp] | None = None
    ) -> None:
        """Make steps; with ``quota``, until each environment has ended so many episodes."""
        vector, episodes = self._vector, self._episodes
        values, asks = current_level() == "values", bool(self._infos.names)
        if not vector.goes_on:
            self.reset()
        if block is not None:
            block.position = vector.position
        with no_grad():
            for _ in range(steps):
                out = policy(self._seen(vector.obs))
                act = self._action(out)
                if block is not None:
                    block.choose(vector.obs, act, out)
                step = vector.step(act)
                if values:
                    _require_numbers(step.rew, episodes)
                left_out = step.skipped
                if quota is not None:
                    left_out = (quota == 0) if left_out is None else left_out | (quota == 0)
                if block is not None:
                    block.add(step, left_out)
                if asks:
                    self._hear(step.info, step.first_info, step.ended)
                episodes.add(step.rew, left_out, step.ended)
                if self._first is not None:
                    self._state = _next_state(out, self._first, step.begins)
                if quota is not None and step.ended is not None:
                    quota -= step.ended & (quota > 0)
                    if not quota.any():
                        return  # the others are in the middle of episodes that nobody wants
                vector.obs = step.obs  # last: whatever ends this before, nothing goes on after a step that is nowhere

    def _hear(self, info: Any, first: Any = None, begins: Any = None) -> None:
        """Take note of what comes with the next observation, for the policy."""
        if self._infos.names:
            self._said = Batch(self._infos.of(info, first, begins))

    def _seen(self, obs: Any) -> ObsBatch[Any, Any]:
        """What the policy is handed, in memory of its own, as it may write into it."""
        obs = obs.copy() if type(obs) is ndarray else nested(copied(obs))
        said: Any = object.__new__(Batch) if self._said is None else copied(self._said)
        if self._first is None:  # nothing is to be converted, so not through the constructor
            seen: ObsBatch[Any, Any] = new_tree(ObsBatch, {"obs": obs, "info": said})
            return seen
        return ObsStateBatch(obs=obs, info=said, state=self._state)

    def _action(self, out: Any) -> Any:
        try:
            act = out.act
        except AttributeError:
            raise LeafError(f"a policy gives a batch with act, got {describe(out)}") from None
        if self._first is not None and getattr(out, "state", None) is None:
            raise LeafError("a recurrent policy gives what it is to be handed in the next step, got none", "state")
        act = act if type(act) is ndarray else to_numpy(act)
        kind = (act.dtype, act.shape) if type(act) is ndarray else kind_of_actions(act)
        if kind != self._fits:
            require_fit(unnested(act), self.envs.single_action_space, self.num_envs)
            self._fits = kind
        if type(act) is not ndarray or act.dtype != self._act_dtype:
            return in_dtypes(act, self.envs.single_action_space)
        return act

    def _recorded(self, rows: Rows) -> Any:
        return rows.rollout if self._record is None else self._record(rows.rollout, rows.out)

    def _add(self, into: Any, block: Block | OneStep) -> int:
        rows = block.rows()
        if len(rows.envs):
            state, following = state_of(into), self._following
            anew = None if following.follows(state, block.position) else np.arange(self.num_envs)
            one_each = block.count == 1 and len(rows.envs) == self.num_envs > 1
            add_rows(into, self._recorded(rows), rows.envs, one_each=one_each, anew=anew)
            following.taken(state, block.position + block.count)
        return len(rows.envs)

    def _require_infos(self) -> None:
        if self._infos.names and self.last_stats.episodes:
            self._infos.require()

    def _count(self, steps: int, begun: float) -> None:
        self.steps += steps
        self.last_stats = CollectStats(steps, *self._episodes.taken(), time.perf_counter() - begun)


def evaluate(
    envs: Envs | Callable[[], Envs],
    policy: Policy[ActBatchProtocol[Any, Any]],
    n_episode: int,
    *,
    seed: int | None = None,
    infos: Sequence[str] = (),
) -> CollectStats:
    """The returns and lengths of so many whole episodes, in environments that begin anew.

    Each environment brings its share of them, so short episodes are not more likely than long ones. A Collector of the
    same environments begins new episodes when it is called next.

    Args:
        envs: a vector of environments, or a function that makes one.
        policy: what chooses the actions; called without gradients.
        n_episode: how many.
        seed: of the first environment; the others have the next ones.
        infos: names in the environments' info that the policy is handed, in ``batch.info``.

    Raises:
        SizeError: fewer than 1.
        EnvironmentFailedError: an environment has raised an error.
    """
    return Collector(envs, policy, infos=infos).evaluate(n_episode, seed)


def warn_of_stats() -> None:
    """Warn that ``stats`` of a collector has another name now."""
    warnings.warn(
        "collector.stats is called last_stats, as it is about the last call; an epoch has epoch.collected",
        DeprecationWarning,
        stacklevel=3,
    )


def require_seed(seed: Any) -> int:
    """Return a seed that gymnasium's environments take.

    Raises:
        SettingError: it is not a whole number, or below 0.
    """
    try:
        return at_least(0, seed, "seed")
    except SizeError:
        raise SettingError(f"seed= is a whole number from 0 on, or None, got {seed!r}") from None


def _require_numbers(rew: NDArray[Any], episodes: Episodes) -> None:
    wrong = np.flatnonzero(~np.isfinite(rew))
    if len(wrong):
        env = int(wrong[0])
        raise StructureError(
            f"environment {env} gave {rew[env]} for step {episodes.length(env) + 1} of its episode", "rew"
        )


def count_of(value: object, name: str) -> int:
    """Return how many steps or episodes to collect.

    Raises:
        SizeError: it is not a whole number from 1 to what an array can hold.
    """
    return at_most(MOST_ROWS, at_least(1, value, name), name)


def require_one_of(n_step: int | None, n_episode: int | None) -> None:
    """Raise an error unless one of them is given."""
    if (n_step is None) == (n_episode is None):
        raise SettingError("either n_step or n_episode is given, the steps or the episodes to collect")


def shares(count: int, envs: int) -> NDArray[np.intp]:
    """So many episodes among environments, as evenly as can be."""
    return (count + np.arange(envs)[::-1]) // envs


def _rows_of(state: Any, envs: int) -> Any:
    """The state of one row, for each environment."""
    return Batch.stack([Batch(state=state)] * envs)["state"]


def _next_state(out: Any, first: Any, begins: Any) -> Any:
    state = out.state
    if begins is None:
        return state
    rows = deepcopy(Batch(state=state))
    rows[begins] = Batch(state=first)[begins]
    return rows["state"]
