"""``Collector``, which steps environments with a policy and returns or stores the rows; and ``evaluate``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, Generic, TypeAlias, overload

import numpy as np
from gymnasium.vector import VectorEnv
from numpy import ndarray
from numpy.typing import NDArray
from typing_extensions import TypeVar

from typedbatch._core.kinds import describe, new_tree
from typedbatch._core.lengths import MOST_ROWS, require_at_least, require_at_most
from typedbatch._core.level import current_level
from typedbatch._ops.conversion import no_grad, to_numpy
from typedbatch._space_values import copied, nested, unnested
from typedbatch._typing import Array
from typedbatch.batch import Batch
from typedbatch.buffers import ReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.errors import LeafError, SettingError, SizeError, StructureError
from typedbatch.protocols import ActBatchProtocol, ActStateBatchProtocol, BatchProtocol
from typedbatch.records import ObsBatch, RolloutBatch
from typedbatch.training.add_rollout import ContinuityToken, add_rollout, has_plain_methods, require_rings
from typedbatch.training.block import Block, OneStep, Rows, rollout_class
from typedbatch.training.checks import in_dtypes, kind_of_actions, require_fit, require_rows
from typedbatch.training.env_vector import AnyEnvs, Vector
from typedbatch.training.infos import Infos
from typedbatch.training.policy import A, ArrayPolicy, Obs, ObsStateBatch, Policy, RecurrentPolicy, random_policy
from typedbatch.training.stats import CollectStats, Episodes

AS = TypeVar("AS", bound=ActStateBatchProtocol[Any, Any])
R = TypeVar("R", bound=BatchProtocol)
R_co = TypeVar("R_co", bound=BatchProtocol, covariant=True)
B = TypeVar("B", bound=RolloutBatch[Any, Any, Any])

_BLOCK = 128
"""Number of steps per environment that are added to a buffer at once."""
_Part: TypeAlias = tuple[Block | OneStep, Any, "NDArray[np.intp] | None"]
"""An empty block, the policy, and the number of episodes that each environment has left, or None for steps."""


class Collector(Generic[R_co]):
    """A collector of rows, which steps environments with a policy.

    The rows are a ``RolloutBatch``, or the result of ``record``.

    Each call continues where the last one stopped. Steps on which gymnasium resets an environment
    (``AutoresetMode.NEXT_STEP``) are left out. ``obs_next`` is the observation after the step, also at the end of an
    episode. The policy is called without gradients. Arrays have the dtypes of the environments, or wider ones if a
    later step needs them. All arrays are copies. The policy may write into the arrays that it is called with.

    An error or Ctrl-C may come at any moment. Rows of an episode in a buffer are still consecutive steps: if any are
    missing, new episodes begin, or the rows before the gap are marked as ``truncated`` when rows are added after it.

    Args:
        envs: Vector of environments, in any autoreset mode, a single ``gymnasium.Env``, which is reset by itself, or a
            function that creates either. The function is called again if a process of the vector has died or hangs.
        policy: Policy that chooses the actions; a recurrent one with ``state=``.
        record: Function that is called as ``record(rollout, out)``, once per collected block of rows, with the whole
            output of the policy. Its result is returned or stored in place of ``rollout``.
        state: Initial state of a recurrent policy in each episode, without a row dimension.
        rollout: Subclass of ``RolloutBatch`` for the rows. It may declare three columns: ``env_id``, the index of the
            environment, int64 ``(N,)``; ``t``, the step within the episode, from 0, int64 ``(N,)``; and ``state_in``,
            the state that a recurrent policy got, ``(N, ...)``. ``record`` is called with these rows.
        infos: Names in the info of the environments to store in ``batch.info``; zero for an environment that does not
            report a name. Rows in a buffer have the names that were reported so far. The policy gets the infos of the
            previous step or of the reset.
        timeout: Seconds that a step or a reset of environments in other processes may take; None for no limit.

    Raises:
        SettingError: ``envs`` is something else, or does not declare its autoreset mode or its spaces, or has
            observations that cannot be stored as arrays; or ``policy`` is not callable; or ``rollout`` declares other
            fields, or ``state_in`` without ``state``; or ``timeout`` is not above 0.
    """

    @overload
    def __init__(
        self: Collector[RolloutBatch], envs: AnyEnvs | Callable[[], AnyEnvs],
        policy: Policy[ActBatchProtocol[Any, Any], object], *, infos: Sequence[str] = ..., timeout: float | None = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: Collector[RolloutBatch[Array, Obs]], envs: AnyEnvs | Callable[[], AnyEnvs],
        policy: ArrayPolicy[ActBatchProtocol[Any, Any], Obs], *,
        infos: Sequence[str] = ..., timeout: float | None = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, envs: AnyEnvs | Callable[[], AnyEnvs],
        policy: ArrayPolicy[A, Obs], record: Callable[[RolloutBatch[Array, Obs], A], R_co], *,
        infos: Sequence[str] = ..., timeout: float | None = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: Collector[RolloutBatch], envs: AnyEnvs | Callable[[], AnyEnvs],
        policy: RecurrentPolicy[ActStateBatchProtocol[Any, Any]], *, state: Any,
        infos: Sequence[str] = ..., timeout: float | None = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, envs: AnyEnvs | Callable[[], AnyEnvs],
        policy: RecurrentPolicy[AS], record: Callable[[RolloutBatch, AS], R_co], *, state: Any,
        infos: Sequence[str] = ..., timeout: float | None = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: Collector[B], envs: AnyEnvs | Callable[[], AnyEnvs],
        policy: Policy[ActBatchProtocol[Any, Any]], *, rollout: type[B],
        infos: Sequence[str] = ..., timeout: float | None = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, envs: AnyEnvs | Callable[[], AnyEnvs],
        policy: Policy[A], record: Callable[[B, A], R_co], *, rollout: type[B],
        infos: Sequence[str] = ..., timeout: float | None = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: Collector[B], envs: AnyEnvs | Callable[[], AnyEnvs],
        policy: RecurrentPolicy[ActStateBatchProtocol[Any, Any]], *, state: Any, rollout: type[B],
        infos: Sequence[str] = ..., timeout: float | None = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, envs: AnyEnvs | Callable[[], AnyEnvs],
        policy: RecurrentPolicy[AS], record: Callable[[B, AS], R_co], *, state: Any, rollout: type[B],
        infos: Sequence[str] = ..., timeout: float | None = ...,
    ) -> None: ...  # fmt: skip
    def __init__(
        self,
        envs: Any,
        policy: Any,
        record: Any = None,
        *,
        state: Any = None,
        rollout: Any = RolloutBatch,
        infos: Sequence[str] = (),
        timeout: float | None = None,
    ) -> None:
        if not callable(policy):
            raise SettingError(f"a policy must be callable with observations, got {describe(policy)}")
        self._vector = Vector(envs, timeout)
        require_rows(self._vector.envs.single_observation_space)
        self._policy = policy
        self._record: Callable[[Any, Any], Any] | None = record
        self._rollout: Any = rollout_class(rollout, recurrent=state is not None)
        self._infos = Infos(infos)
        self._info: Any = None
        """The infos that come with the next observation, for the policy."""
        self._initial_state: Any = None
        if state is not None:
            self._initial_state = Batch.stack([Batch(state=state)] * self.num_envs)["state"]
        self._state: Any = None
        self._episodes = Episodes(self.num_envs)
        self._continuity = ContinuityToken()
        self._last_position = -1
        """The position after the last row that :meth:`rows` returned."""
        self._checked_kind: Any = None
        """The dtypes and shapes of actions that have passed the check against the action space."""
        self._act_dtype = self._vector.envs.single_action_space.dtype
        self._spare: Block | OneStep | None = None
        self._random: Policy[Any] | None = None
        self.seed: int | None = None
        """The seed of the last seeded reset, or None before the first reset."""
        self.last_stats: CollectStats = CollectStats()
        """Statistics of the last call. ``epoch.collected`` has those of all calls of an epoch."""
        self.steps: int = 0
        """Total number of environment steps so far."""
        self.continues: bool = False
        """Whether the rows of the last call of :meth:`rows` follow those of the call before."""

    @property
    def num_envs(self) -> int:
        """The number of environments."""
        return self._vector.num_envs

    @property
    def envs(self) -> VectorEnv[Any, Any, Any]:
        """The vector of environments."""
        return self._vector.envs

    # ---- collecting -----------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode in each environment.

        Args:
            seed: Seed of the first environment and of random actions; the other environments get ``seed + 1`` and so
                on. With None, episodes differ at each reset.

        Raises:
            SettingError: ``seed`` is not a whole number >= 0.
            EnvironmentFailedError: an environment has raised an error.
            LeafError: the observations have no rows.
            StructureError: the observations do not have a row for each environment.
        """
        seed = None if seed is None else require_seed(seed)
        if seed is not None or self.seed is None:
            seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
            self._random = random_policy(self.envs, seed)
            self.seed = seed
        obs, info = self._vector.reset(seed)
        if self._infos.names:
            self._info = Batch(self._infos.of(info))
        self._infos.begin(info, np.ones(self.num_envs, bool))
        self._episodes.forget()
        self._state = deepcopy(self._initial_state)  # the policy may write into its state
        self._vector.obs = obs  # set last: after an interruption before this line, the next call resets again

    def rollout(self, n_step: int) -> R_co:
        """Collect ``n_step`` steps, grouped by environment, in time order.

        The last row of an unfinished episode is marked as ``truncated``, so that no sum over rows crosses into the next
        environment. The next call continues the episode. The arrays are new.

        Args:
            n_step: Number of steps in all environments together, rounded up to the same number for each.

        Raises:
            SizeError: ``n_step`` is below 1.
            EnvironmentFailedError: an environment has raised an error. The steps of this call are discarded.
            StructureError: the policy's actions do not match the action space or the number of environments, or the
                shape or the fields of a value differ from those in earlier steps.
            LeafError: a value is not an array or tensor, or no dtype holds the values of two steps unchanged.
        """
        block, parts = self._block(-(-count_of(n_step, "n_step") // self.num_envs)), list[Rows]()

        def take(_: Block | OneStep) -> int:
            parts.append(block.rows(cut=True))
            return len(parts[-1].envs)

        self._run([(block, self._policy, None)], take)
        batch: R_co = self._recorded(parts[-1])
        return batch

    def collect(
        self,
        into: ReplayBuffer[R_co, Any],
        n_step: int | None = None,
        n_episode: int | None = None,
        *,
        random: bool = False,
    ) -> CollectStats:
        """Add a number of steps or episodes to a buffer, those of each environment to its own ring.

        Unfinished episodes are not marked as truncated, since the next call continues them. If the new rows do not
        follow this collector's last rows in the buffer, the last rows there are marked as ``truncated``, so that no two
        episodes are joined. Steps that were gathered before an error or Ctrl-C are in the buffer.

        Args:
            into: Buffer with a ring for each environment.
            n_step: Number of steps in all environments together, rounded up to the same number for each.
            n_episode: Number of whole episodes. All environments are reset, and each contributes an equal share; if it
                does not divide, the first environments contribute one more. So short episodes are not overrepresented.
            random: Whether to take random actions instead of the policy's; only without ``record``.

        Raises:
            SettingError: both or neither of ``n_step`` and ``n_episode`` are given, the buffer has another number of
                rings, or actions are random although ``record`` needs the output of the policy.
            SizeError: ``n_step`` or ``n_episode`` is below 1.
            EnvironmentFailedError: an environment has raised an error.
            StructureError: the policy's actions do not match the action space or the number of environments, or the
                shape or the fields of a value differ from those in earlier steps.
            LeafError: a value is not an array or tensor, or no dtype holds the values of two steps unchanged.
        """
        require_rings(into, self.num_envs)
        reuse = self._record is None and has_plain_methods(into)
        self._run(self._blocks(n_step, n_episode, random, reuse=reuse), partial(self._add, into))
        return self.last_stats

    def rows(
        self, n_step: int | None = None, n_episode: int | None = None, *, random: bool = False
    ) -> tuple[R_co, NDArray[np.intp]]:
        """Collect rows like :meth:`collect`, but return them, and the environment of each row, instead of storing them.

        Raises:
            SettingError: both or neither of ``n_step`` and ``n_episode`` are given, or actions are random although
                ``record`` needs the output of the policy.
            SizeError: ``n_step`` or ``n_episode`` is below 1.
            EnvironmentFailedError: an environment has raised an error. The steps of this call are discarded.
            StructureError: the policy's actions do not match the action space or the number of environments, or the
                shape or the fields of a value differ from those in earlier steps.
            LeafError: a value is not an array or tensor, or no dtype holds the values of two steps unchanged.
        """
        blocks, parts = list[Block | OneStep](), list[Rows]()

        def take(block: Block | OneStep) -> int:
            blocks.append(block)
            parts.append(block.rows())
            return len(parts[-1].envs)

        self._run(self._blocks(n_step, n_episode, random), take)
        batches = [self._recorded(rows) for rows in parts]
        batch: R_co = batches[0] if len(batches) == 1 else Batch.cat(batches)
        result = batch, np.concatenate([rows.envs for rows in parts])
        self.continues = blocks[0].position == self._last_position
        self._last_position = blocks[-1].position + blocks[-1].count
        return result

    def evaluate(self, n_episode: int, seed: int | None = None) -> CollectStats:
        """Return statistics of ``n_episode`` whole episodes in these environments; see :func:`evaluate`.

        All environments are reset, and no rows are stored.
        """
        quota = episode_quotas(count_of(n_episode, "n_episode"), self.num_envs)
        begun = time.perf_counter()
        self.reset(seed)
        self._gather(None, MOST_ROWS, self._policy, quota)
        returns, lengths = self._episodes.taken()
        self.last_stats = CollectStats(int(lengths.sum()), returns, lengths, time.perf_counter() - begun)
        return self.last_stats

    # ---- stepping -------------------------------------------------------------------------------------------------

    def _run(self, parts: Iterable[_Part], take: Callable[[Block | OneStep], int]) -> None:
        """Gather the steps of each block, and call a function that takes its rows and returns their number."""
        steps, begun = 0, time.perf_counter()
        try:
            for block, policy, quota in parts:
                try:
                    self._gather(block, block.steps, policy, quota)
                finally:
                    steps += take(block)
        finally:
            self.steps += steps
            self.last_stats = CollectStats(steps, *self._episodes.taken(), time.perf_counter() - begun)
        if self._infos.names and self.last_stats.episodes:
            self._infos.require()

    def _blocks(
        self, n_step: int | None, n_episode: int | None, random: bool, *, reuse: bool = False
    ) -> Iterator[_Part]:
        """Yield an empty block for each part of a call; with ``reuse``, rows are copied before the next is yielded."""
        require_one_of(n_step, n_episode)
        if random and self._record is not None:
            raise SettingError("record() needs the output of the policy, which random actions do not have")
        if random and self._random is None:
            self.reset()
        policy = self._random if random else self._policy
        if n_step is not None:
            steps, quota = -(-count_of(n_step, "n_step") // self.num_envs), None
        else:
            steps, quota = MOST_ROWS, episode_quotas(count_of(n_episode, "n_episode"), self.num_envs)
            self.reset()
        for before in range(0, steps, _BLOCK):
            count = min(steps - before, _BLOCK)
            block = self._spare if reuse else None
            if block is None or block.steps != count:
                one = reuse and count == 1 and not self._infos.names and self._rollout is RolloutBatch
                block = OneStep(self.num_envs) if one else self._block(count)
            if reuse:
                self._spare = block
            block.begin(before)
            yield block, policy, quota
            if quota is not None and not quota.any():
                return

    def _block(self, steps: int) -> Block:
        return Block(self.num_envs, steps, self._infos, self._rollout, store_output=self._record is not None)

    def _gather(
        self, block: Block | OneStep | None, steps: int, policy: Any, quota: NDArray[np.intp] | None = None
    ) -> None:
        """Make at most ``steps`` steps, fewer if each environment has ended as many episodes as ``quota`` says."""
        vector, episodes = self._vector, self._episodes
        values, has_infos = current_level() == "values", bool(self._infos.names)
        optional = block if isinstance(block, Block) and block.optional else None
        if not vector.goes_on:
            self.reset()
        if block is not None:
            block.position = vector.position
        with no_grad():
            for _ in range(steps):
                if optional is not None:
                    optional.before_policy(episodes.lengths(), self._state)
                out = policy(self._policy_input(vector.obs))
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
                if has_infos:
                    self._info = Batch(self._infos.of(step.info, step.first_info, step.ended))
                    self._infos.begin(step.info if step.first_info is None else step.first_info, step.begins)
                episodes.add(step.rew, left_out, step.ended)
                if self._initial_state is not None:
                    self._state = _next_state(out, self._initial_state, step.begins)
                if quota is not None and step.ended is not None:
                    quota -= step.ended & (quota > 0)
                    if not quota.any():
                        return  # obs stays None: the other environments are in episodes that must not be continued
                # Set last. If anything interrupts the step before this line, the environments have advanced but nothing
                # was recorded, so the next call must reset them.
                vector.obs = step.obs

    def _policy_input(self, obs: Any) -> ObsBatch[Any, Any]:
        """Return the batch for the policy. It is a copy, since the policy may write into it."""
        obs = obs.copy() if type(obs) is ndarray else nested(copied(obs))
        info: Any = object.__new__(Batch) if self._info is None else copied(self._info)
        if self._initial_state is None:  # hot path: the values need no conversion by the constructor
            return new_tree(ObsBatch, {"obs": obs, "info": info})
        return ObsStateBatch(obs=obs, info=info, state=self._state)

    def _action(self, out: Any) -> Any:
        try:
            act = out.act
        except AttributeError:
            raise LeafError(f"a policy must return a batch with act, got {describe(out)}") from None
        if self._initial_state is not None and getattr(out, "state", None) is None:
            raise LeafError("a recurrent policy must return its state for the next step, got None", "state")
        act = act if type(act) is ndarray else to_numpy(act)
        kind = (act.dtype, act.shape) if type(act) is ndarray else kind_of_actions(act)
        if kind == self._checked_kind and type(act) is ndarray and act.dtype is self._act_dtype:  # hot path
            return act
        if kind != self._checked_kind:
            require_fit(unnested(act), self.envs.single_action_space, self.num_envs)
            self._checked_kind = kind
        return in_dtypes(act, self.envs.single_action_space)

    def _recorded(self, rows: Rows) -> Any:
        return rows.rollout if self._record is None else self._record(rows.rollout, rows.out)

    def _add(self, into: Any, block: Block | OneStep) -> int:
        state, token = state_of(into), self._continuity
        rows = block.rows()
        if not len(rows.envs):
            return 0
        batch = self._recorded(rows)
        with state.guard.lock:  # no other collector adds to the buffer between the check and the mark
            restarted = None if token.follows(state, block.position) else np.arange(self.num_envs)
            one_each = block.count == 1 and len(rows.envs) == self.num_envs > 1
            add_rollout(into, batch, rows.envs, one_each=one_each, new_episodes=restarted)
            token.taken(state, block.position + block.count)
        return len(rows.envs)


def evaluate(
    envs: AnyEnvs | Callable[[], AnyEnvs],
    policy: Policy[ActBatchProtocol[Any, Any]],
    n_episode: int,
    *,
    seed: int | None = None,
    infos: Sequence[str] = (),
) -> CollectStats:
    """Reset environments, run ``n_episode`` whole episodes and return their returns and lengths.

    Each environment contributes an equal share, so short episodes are not overrepresented. A Collector of the same
    environments begins new episodes at its next call.

    Args:
        envs: Vector of environments, a single one, or a function that creates either.
        policy: Policy that chooses the actions; it is called without gradients.
        n_episode: Number of episodes.
        seed: Seed of the first environment; the others get ``seed + 1`` and so on.
        infos: Names in the info of the environments that the policy gets in ``batch.info``.

    Raises:
        SizeError: ``n_episode`` is below 1.
        EnvironmentFailedError: an environment has raised an error.
    """
    return Collector(envs, policy, infos=infos).evaluate(n_episode, seed)


def require_seed(seed: Any) -> int:
    """Return the seed, or raise a SettingError if gymnasium's environments do not accept it."""
    try:
        return require_at_least(0, seed, "seed")
    except SizeError:
        raise SettingError(f"seed= must be a whole number >= 0 or None, got {seed!r}") from None


def _require_numbers(rew: NDArray[Any], episodes: Episodes) -> None:
    wrong = np.flatnonzero(~np.isfinite(rew))
    if len(wrong):
        env = int(wrong[0])
        text = f"environment {env} gave {rew[env]} for step {episodes.lengths()[env] + 1} of its episode"
        raise StructureError(text, "rew")


def _next_state(out: Any, first: Any, begins: Any) -> Any:
    state = out.state
    if begins is None:
        return state
    rows = deepcopy(Batch(state=state))
    rows[begins] = Batch(state=first)[begins]
    return rows["state"]


def count_of(value: object, name: str) -> int:
    """Return ``value`` as an int, or raise a SizeError about ``name`` if it is below 1 or no array has as many rows."""
    return require_at_most(MOST_ROWS, require_at_least(1, value, name), name)


def require_one_of(n_step: int | None, n_episode: int | None) -> None:
    """Raise an error unless exactly one of ``n_step`` and ``n_episode`` is given."""
    if (n_step is None) == (n_episode is None):
        raise SettingError("pass either n_step or n_episode: the number of steps or of episodes to collect")


def episode_quotas(count: int, envs: int) -> NDArray[np.intp]:
    """Return the number of episodes for each environment, distributed as evenly as possible."""
    return (count + np.arange(envs)[::-1]) // envs
