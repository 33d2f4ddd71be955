"""``ParallelCollector``, which steps an environment of several agents and stores the rows of each in its own buffer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
from numpy import ndarray

from typedbatch._core.kinds import describe, new_tree
from typedbatch._core.lengths import MOST_ROWS
from typedbatch._ops.conversion import no_grad, to_numpy
from typedbatch._space_values import copied, unnested
from typedbatch.batch import Batch
from typedbatch.buffers import ReplayBuffer
from typedbatch.buffers.guard import prepare_change
from typedbatch.buffers.state import state_of
from typedbatch.errors import EnvironmentFailedError, LeafError, SettingError, StructureError
from typedbatch.protocols import ActBatchProtocol, ActStateBatchProtocol
from typedbatch.records import ObsBatch, RolloutBatch
from typedbatch.training.add_rollout import ContinuityToken, add_rollout, require_rings
from typedbatch.training.agent_rows import AgentRows, JointRollout, joined, stacked
from typedbatch.training.block import rollout_class
from typedbatch.training.collector import AS, B, R_co, count_of, require_one_of
from typedbatch.training.infos import Infos
from typedbatch.training.policy import A, ObsStateBatch, Policy, RecurrentPolicy
from typedbatch.training.stats import CollectStats

T = TypeVar("T")


class ParallelEnv(Protocol):
    """An environment whose agents act at the same time, as PettingZoo's ``ParallelEnv``."""

    agents: list[Any]
    """The agents that act in the next step. It is empty after the end of an episode."""
    possible_agents: list[Any]
    """All agents."""

    def reset(self, seed: int | None = None) -> tuple[dict[Any, Any], dict[Any, dict[str, Any]]]:
        """Begin an episode, and return the observation and the info of each agent."""
        ...

    def step(
        self, actions: dict[Any, Any], /
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, dict[str, Any]]]:
        """Step, and return the observation, reward, ``terminated``, ``truncated`` and info of each agent that acted."""
        ...


class ParallelCollector(Generic[R_co]):
    """A collector of the steps of several agents, each of which has its own policy and its own buffer.

    Each call continues where the last one stopped. Policies are called without gradients, with a row for each agent
    that acts by them: for one agent a batch of one row. Agents that share a policy, and have observations of the same
    shape, are the rows of one call. An agent has no rows while it does not take part in an episode. Arrays are copied.

    If anything interrupts a call, such as an error or Ctrl-C, the steps until then are in the buffers, and the next
    call begins a new episode. The last rows before it are then marked as ``truncated``.

    Args:
        env: PettingZoo's ``ParallelEnv``, or any object with its ``agents``, ``possible_agents``, ``reset`` and
            ``step``.
        policies: Policy of each agent. Several agents may share one.
        record: Function that is called as ``record(rollout, out)`` with the rows of an agent and the outputs of its
            policy. Its result is stored in place of ``rollout``; not for joint rows.
        state: Initial state of recurrent policies in each episode, without a row dimension, or a dict of it by agents.
        rollout: Subclass of ``RolloutBatch`` for the rows of an agent. It may declare ``t``, the step within the
            episode, from 0, int64 ``(N,)``; and ``state_in``, the state that a recurrent policy got, ``(N, ...)``.
        infos: Names in the infos of agents to store in ``batch.info``; zero in steps in which a name is not reported.

    Raises:
        SettingError: ``policies`` does not have exactly the possible agents; or ``rollout`` declares other fields, or
            ``state_in`` without ``state``; or ``infos`` is not a list of names.
    """

    @overload
    def __init__(
        self: ParallelCollector[RolloutBatch], env: ParallelEnv,
        policies: Mapping[Any, Policy[ActBatchProtocol[Any, Any]]], *, infos: Sequence[str] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: ParallelCollector[RolloutBatch], env: ParallelEnv,
        policies: Mapping[Any, RecurrentPolicy[ActStateBatchProtocol[Any, Any]]], *, state: Any,
        infos: Sequence[str] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: ParallelCollector[B], env: ParallelEnv,
        policies: Mapping[Any, Policy[ActBatchProtocol[Any, Any]]], *, rollout: type[B], infos: Sequence[str] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: ParallelCollector[B], env: ParallelEnv,
        policies: Mapping[Any, RecurrentPolicy[ActStateBatchProtocol[Any, Any]]], *, state: Any, rollout: type[B],
        infos: Sequence[str] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, env: ParallelEnv, policies: Mapping[Any, Policy[A]], record: Callable[[RolloutBatch, A], R_co], *,
        infos: Sequence[str] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, env: ParallelEnv, policies: Mapping[Any, Policy[A]], record: Callable[[B, A], R_co], *,
        rollout: type[B], infos: Sequence[str] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, env: ParallelEnv, policies: Mapping[Any, RecurrentPolicy[AS]], record: Callable[[B, AS], R_co], *,
        state: Any, rollout: type[B], infos: Sequence[str] = ...,
    ) -> None: ...  # fmt: skip
    def __init__(
        self,
        env: ParallelEnv,
        policies: Mapping[Any, Any],
        record: Any = None,
        *,
        state: Any = None,
        rollout: Any = RolloutBatch,
        infos: Sequence[str] = (),
    ) -> None:
        self.env: ParallelEnv = env
        """The environment that is stepped."""
        self._agents = list(env.possible_agents)
        self._require_agents(policies, "policies", "policy")
        self._policies: dict[Any, Any] = dict(policies)
        every = [*self._policies.values()]
        self._numbers = {agent: every.index(policy) for agent, policy in self._policies.items()}
        """Number of the policy of each agent, which agents that share one have in common."""
        self._record = record
        self._rollout = rollout_class(rollout, recurrent=state is not None)
        if "env_id" in self._rollout.__record_fields__:
            raise SettingError(f"rollout= declares {self._rollout.__name__}.env_id, but there is a single environment")
        self._kept = [name for name in ("t", "state_in") if name in self._rollout.__record_fields__]
        self._infos = Infos(infos).names
        self._first_state = self._states_of(state)
        self._states: dict[Any, Any] = {}
        self._tokens = {agent: ContinuityToken() for agent in self._agents}
        self._joint_token = ContinuityToken()
        self._obs: dict[Any, Any] | None = None
        """The current observations; None before the first reset, in the middle of a step, and after a failure."""
        self._number = 0
        """Number of episodes that have begun so far."""
        self._running = {agent: [0.0, 0] for agent in self._agents}
        """Return and length so far of the episode of each agent."""
        self._finished: dict[Any, list[tuple[float, int]]] = {agent: [] for agent in self._agents}
        """Return and length of the episodes that have ended in this call."""

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode.

        Args:
            seed: Seed of the environment; None for a different episode each time.

        Raises:
            EnvironmentFailedError: the environment has raised an error.
        """
        self._obs = None
        self._number += 1
        for running in self._running.values():
            running[:] = 0.0, 0
        obs, _ = _call(self.env.reset, seed=seed)
        self._states = dict(self._first_state)
        self._obs = self._current({agent: copied(value) for agent, value in obs.items()})

    def collect(
        self,
        into: Mapping[Any, ReplayBuffer[R_co, Any]] | ReplayBuffer[JointRollout[Any, Any], Any],
        n_step: int | None = None,
        n_episode: int | None = None,
    ) -> dict[Any, CollectStats]:
        """Add a number of steps or episodes to buffers, and return the statistics of each agent.

        Args:
            into: Buffer of each agent, with one ring; or one buffer for joint rows, see :class:`JointRollout`.
            n_step: Number of steps of the environment, in each of which an agent has at most one row.
            n_episode: Number of whole episodes; the environment is reset first.

        Raises:
            SettingError: both or neither of ``n_step`` and ``n_episode`` are given; or ``into`` does not have exactly
                the possible agents, or a buffer has several rings; or joint rows are collected with ``record``.
            LeafError: a buffer is not a buffer, or a policy does not return a batch with ``act``.
            SizeError: ``n_step`` or ``n_episode`` is below 1.
            EnvironmentFailedError: the environment has raised an error.
            StructureError: an agent that acted has no observation, reward or flag, or agents of joint rows differ in
                the shapes of their observations or actions.
        """
        if not isinstance(into, Mapping):
            require_rings(into, 1)
            self._require_joint()
            return self._run(n_step, n_episode, self._add_joint, into)
        self._require_agents(into, "into=", "buffer")
        for buffer in into.values():
            require_rings(buffer, 1)
        return self._run(n_step, n_episode, self._add_each, into)

    def rollout(self, n_step: int) -> JointRollout[Any, Any]:
        """Return the joint rows of a number of steps. The last row of an unfinished episode is marked as truncated.

        The next call continues the episode. Errors are those of :meth:`collect`.
        """
        rows: list[JointRollout[Any, Any]] = []
        self._require_joint()

        def take(call: _Call, _: None) -> None:
            rollout = joined(call.parts, call.count, self._infos, call.ends)
            rollout.truncated[-1] |= not rollout.terminated[-1]
            rows.append(rollout)

        self._run(n_step, None, take, None)
        return rows[0]

    def evaluate(self, n_episode: int, seed: int | None = None) -> dict[Any, CollectStats]:
        """Return the statistics of each agent in ``n_episode`` whole episodes, of which no rows are stored."""
        count_of(n_episode, "n_episode")
        self.reset(seed)
        return self._run(None, n_episode, lambda *_: None, None, is_reset=True)

    # ---- stepping -------------------------------------------------------------------------------------------------

    def _run(
        self, n_step: int | None, n_episode: int | None, take: Callable[[_Call, Any], None], into: Any, *,
        is_reset: bool = False,
    ) -> dict[Any, CollectStats]:  # fmt: skip
        """Make steps, call a function that takes their rows, also after an error, and return the statistics."""
        require_one_of(n_step, n_episode)
        steps = MOST_ROWS if n_step is None else count_of(n_step, "n_step")
        episodes, begun = None if n_episode is None else count_of(n_episode, "n_episode"), time.perf_counter()
        call = _Call({agent: AgentRows(self._number) for agent in self._agents})
        if episodes is not None and not is_reset:
            self.reset()
        try:
            with no_grad():
                while call.count < steps and (episodes is None or len(call.ends) < episodes):
                    self._step(call)
        finally:
            obs, self._obs = self._obs, None
            if call.count:
                take(call, into)
            self._obs = obs  # set last: if anything interrupts these lines, a new episode begins
        return {agent: self._stats(agent, len(part), begun) for agent, part in call.parts.items()}

    def _stats(self, agent: Any, steps: int, begun: float) -> CollectStats:
        finished, self._finished[agent] = self._finished[agent], []
        returns = np.array([total for total, _ in finished], np.float64)
        lengths = np.array([length for _, length in finished], np.int64)
        return CollectStats(steps, returns, lengths, time.perf_counter() - begun)

    def _step(self, call: _Call) -> None:
        """Make a step, and put the row of each agent that acted into its part."""
        if not self._obs:
            self.reset()
        before: Any = self._obs
        self._obs = None
        states = dict(self._states)
        act, outs = self._choose(before)
        step = _call(self.env.step, {agent: copied(one) for agent, one in act.items()})
        obs, rew, terminated, truncated, infos = step
        outcome = {"obs_next": obs, "rew": rew, "terminated": terminated, "truncated": truncated}
        for name, values in outcome.items():
            for agent in before:
                if agent not in values:
                    text = f"agent {agent!r} acted, but the environment returned no {name} for it"
                    raise StructureError(text, name)
        after = {agent: copied(value) for agent, value in obs.items()}
        number, call.count = call.count, call.count + 1
        for agent, seen in before.items():
            part = call.parts[agent]
            columns, running, ended = part.columns, self._running[agent], bool(terminated[agent])
            if not part.steps:
                part.number = self._number
            for name in self._kept:
                part.optional.setdefault(name, []).append(running[1] if name == "t" else states[agent])
            if self._record is not None:
                part.optional.setdefault("out", []).append(outs[agent])
            if self._infos:
                part.infos.append({name: copied(infos[agent][name]) for name in self._infos if name in infos[agent]})
            reward = float(rew[agent])
            columns["obs"].append(seen)
            columns["act"].append(act[agent])
            columns["obs_next"].append(after[agent])
            columns["rew"].append(reward)
            columns["terminated"].append(ended)
            columns["truncated"].append(bool(truncated[agent]))
            part.steps.append(number)
            running[0] += reward
            running[1] += 1
            if ended or truncated[agent]:
                self._finish(agent)
        following = self._current(after)
        if not following:  # The episode is over, also for agents without a flag and those that wait in its last step.
            call.ends.append(number)
            for agent, part in call.parts.items():
                part.is_over |= not part.steps
                if part.steps:
                    part.end()
                self._finish(agent)
        self._obs = following

    def _finish(self, agent: Any) -> None:
        total, length = self._running[agent]
        if length:
            self._finished[agent].append((total, int(length)))
            self._running[agent][:] = 0.0, 0

    def _choose(self, obs: dict[Any, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return the action of each agent, and the row of the output of its policy if outputs are recorded."""
        chosen, outs = dict[Any, Any](), dict[Any, Any]()
        for agents in self._sharing(obs):
            values = [obs[agent] for agent in agents]
            rows = values[0][None].copy() if len(values) == 1 and type(values[0]) is ndarray else stacked(values)
            fields: dict[str, Any] = {"obs": rows, "info": Batch()}
            if self._states:
                fields["state"] = stacked([self._states[agent] for agent in agents])
            out = self._policies[agents[0]](new_tree(ObsStateBatch if self._states else ObsBatch, fields))
            act = self._actions(out, len(agents))
            for row, agent in enumerate(agents):
                chosen[agent] = copied(act[row] if type(act) is ndarray else unnested(Batch(act=act)[row]["act"]))
                if self._record is not None:
                    outs[agent] = out[row]
                if self._states:
                    self._states[agent] = Batch(state=out.state)[row]["state"]
        return chosen, outs

    def _actions(self, out: Any, rows: int) -> Any:
        """Return the actions in the output of a policy."""
        try:
            act = out.act
        except AttributeError:
            raise LeafError(f"a policy must return a batch with act, got {describe(out)}") from None
        if self._states and getattr(out, "state", None) is None:
            raise LeafError("a recurrent policy must return its state for the next step, got None", "state")
        act = act if type(act) is ndarray else to_numpy(act)
        if len(act) != rows:
            raise StructureError(f"a policy must return an action for each of {rows} rows, got {describe(act)}", "act")
        return act

    def _sharing(self, obs: dict[Any, Any]) -> list[list[Any]]:
        """Return the agents that are rows of each call of a policy."""
        groups: dict[Any, list[Any]] = {}
        for agent, value in obs.items():
            shape = value.shape if type(value) is ndarray else agent
            groups.setdefault((self._numbers[agent], shape), []).append(agent)
        return [*groups.values()]

    def _states_of(self, state: Any) -> dict[Any, Any]:
        if state is None:
            return {}
        if isinstance(state, Mapping) and {*state} == {*self._agents}:
            return {agent: Batch(state=state[agent])["state"] for agent in self._agents}
        return {agent: Batch(state=state)["state"] for agent in self._agents}

    def _current(self, obs: dict[Any, Any]) -> dict[Any, Any]:
        """Return the observations of the agents that act in the next step."""
        if missing := [agent for agent in self.env.agents if agent not in obs]:
            raise StructureError(f"agent {missing[0]!r} is to act, but the environment returned no obs for it", "obs")
        return {agent: obs[agent] for agent in self.env.agents}

    # ---- rows -----------------------------------------------------------------------------------------------------

    def _add_each(self, call: _Call, into: Mapping[Any, ReplayBuffer[Any, Any]]) -> None:
        """Add the rows of each agent to its buffer."""
        for agent, part in call.parts.items():
            rows = None
            if part.steps:
                rows = part.rollout(self._rollout, agent, self._infos)
                rows = rows if self._record is None else self._record(rows, part.out())
            self._add(self._tokens[agent], part.number, part.is_over, rows, into[agent])

    def _add_joint(self, call: _Call, into: ReplayBuffer[Any, Any]) -> None:
        """Add the joint rows to a buffer."""
        rows = joined(call.parts, call.count, self._infos, call.ends)
        number = min(part.number for part in call.parts.values() if part.steps)
        self._add(self._joint_token, number, False, rows, into)

    def _add(self, token: ContinuityToken, number: int, is_over: bool, rows: Any, into: ReplayBuffer[Any, Any]) -> None:
        """Add rows to a buffer, in which the last row is marked as truncated if they do not follow it."""
        state, only = state_of(into), np.zeros(1, np.intp)
        with state.guard.lock:  # no other collector adds to the buffer between the check and the mark
            follows = token.follows(state, number)
            if rows is not None:
                add_rollout(into, rows, np.zeros(len(rows), np.intp), new_episodes=None if follows else only)
                token.taken(state, self._number)
            elif follows and is_over:
                prepare_change(state.guard, "collect")
                state.cut_episodes(only)

    def _require_joint(self) -> None:
        if self._record is not None or self._kept:
            raise SettingError("joint rows are of all agents, and have neither record= nor columns of rollout=")

    def _require_agents(self, given: Mapping[Any, object], name: str, what: str) -> None:
        if {*given} != {*self._agents}:
            expected, got = (", ".join(map(repr, agents)) or "none" for agents in (self._agents, given))
            raise SettingError(f"{name} must have a {what} for each possible agent, {expected}; got {got}")


class _Call:
    """The steps of a call: the rows of each agent, and the numbers of the last steps of episodes."""

    def __init__(self, parts: dict[Any, AgentRows]) -> None:
        self.parts: dict[Any, AgentRows] = parts
        self.count = 0
        self.ends: list[int] = []


def _call(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function of an environment, and raise an EnvironmentFailedError if it raises anything."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        reason = f"the environment raised {type(error).__name__}: {error}; the next call begins a new episode"
        raise EnvironmentFailedError(reason) from error
