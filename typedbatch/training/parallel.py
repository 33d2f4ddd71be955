"""``ParallelCollector``, which steps an environment of several agents and stores the rows of each in its own buffer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from typedbatch._space_values import copied, nested
from typedbatch.batch import Batch
from typedbatch.buffers import ReplayBuffer
from typedbatch.buffers.guard import prepare_change
from typedbatch.buffers.state import state_of
from typedbatch.errors import EnvironmentFailedError, SettingError, StructureError
from typedbatch.protocols import ActBatchProtocol
from typedbatch.records import RolloutBatch
from typedbatch.training.add_rollout import ContinuityToken, add_rollout, require_rings
from typedbatch.training.collector import count_of
from typedbatch.training.policy import Policy, compute_action
from typedbatch.training.stats import CollectStats, Episodes

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


class ParallelCollector:
    """A collector of the steps of several agents, each of which has its own policy and its own buffer.

    Each call continues where the last one stopped. Policies are called without gradients, with a batch of one row,
    and get no infos. An agent has no rows while it does not take part in an episode. Arrays are copied.

    If anything interrupts a call, such as an error or Ctrl-C, the steps until then are in the buffers, and the next
    call begins a new episode. The last rows before it are then marked as ``truncated``.

    Args:
        env: PettingZoo's ``ParallelEnv``, or any object with its ``agents``, ``possible_agents``, ``reset`` and
            ``step``.
        policies: Policy of each agent. Several agents may share one.

    Raises:
        SettingError: ``policies`` does not have exactly the possible agents.
    """

    def __init__(self, env: ParallelEnv, policies: Mapping[Any, Policy[ActBatchProtocol[Any, Any]]]) -> None:
        self.env: ParallelEnv = env
        """The environment that is stepped."""
        self._agents = list(env.possible_agents)
        self._require_agents(policies, "policies", "policy")
        self._policies = dict(policies)
        self._episodes = {agent: Episodes(1) for agent in self._agents}
        self._tokens = {agent: ContinuityToken() for agent in self._agents}
        self._obs: dict[Any, Any] | None = None
        """The current observations; None before the first reset, in the middle of a step, and after a failure."""
        self._number = 0
        """Number of episodes that have begun so far."""

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode.

        Args:
            seed: Seed of the environment; None for a different episode each time.

        Raises:
            EnvironmentFailedError: the environment has raised an error.
        """
        self._obs = None
        self._number += 1
        for episodes in self._episodes.values():
            episodes.forget()
        obs, _ = _call(self.env.reset, seed=seed)
        self._obs = self._current(obs)

    def collect(self, into: Mapping[Any, ReplayBuffer[RolloutBatch, Any]], n_step: int) -> dict[Any, CollectStats]:
        """Add the rows of each agent to its buffer, and return the statistics of each agent.

        Args:
            into: Buffer of each agent, with one ring.
            n_step: Number of steps of the environment, in each of which an agent has at most one row.

        Raises:
            SettingError: ``into`` does not have exactly the possible agents, or a buffer has several rings.
            LeafError: a buffer is not a buffer, or a policy does not return a batch with ``act``.
            SizeError: ``n_step`` is below 1.
            EnvironmentFailedError: the environment has raised an error.
            StructureError: an agent that acted has no observation, reward or flag.
        """
        self._require_agents(into, "into=", "buffer")
        for buffer in into.values():
            require_rings(buffer, 1)
        steps, begun = count_of(n_step, "n_step"), time.perf_counter()
        parts = {agent: _Part(self._number) for agent in self._agents}
        try:
            for _ in range(steps):
                self._step(parts)
        finally:
            obs, self._obs = self._obs, None
            for agent, part in parts.items():
                self._add(agent, part, into[agent])
            self._obs = obs  # set last: if anything interrupts these lines, a new episode begins
        seconds = time.perf_counter() - begun
        return {
            agent: CollectStats(len(part.rows), *self._episodes[agent].taken(), seconds)
            for agent, part in parts.items()
        }

    def _step(self, parts: dict[Any, _Part]) -> None:
        """Make a step, and put the row of each agent that acted into its part."""
        if not self._obs:
            self.reset()
        before: Any = self._obs
        self._obs = None
        act = {agent: copied(compute_action(self._policies[agent], copied(obs))) for agent, obs in before.items()}
        obs, rew, terminated, truncated, _ = _call(self.env.step, copied(act))
        outcome = {"obs_next": obs, "rew": rew, "terminated": terminated, "truncated": truncated}
        rows = {agent: _row(agent, before[agent], act[agent], outcome) for agent in before}
        for agent, row in rows.items():
            if not parts[agent].rows:
                parts[agent].number = self._number
            parts[agent].rows.append(row)
            ended = np.array([bool(row.terminated or row.truncated)])
            self._episodes[agent].add(row.rew[None], None, ended)
        after = self._current(obs)
        if not after:  # The episode is over, also for agents without a flag and those that wait in its last step.
            for agent, part in parts.items():
                part.is_over |= not part.rows
                if part.rows and not (part.rows[-1].terminated or part.rows[-1].truncated):
                    part.rows[-1].truncated = np.array(True)
                self._episodes[agent].end(0)
        self._obs = after

    def _current(self, obs: dict[Any, Any]) -> dict[Any, Any]:
        """Return the observations of the agents that act in the next step."""
        if missing := [agent for agent in self.env.agents if agent not in obs]:
            raise StructureError(f"agent {missing[0]!r} is to act, but the environment returned no obs for it", "obs")
        return {agent: copied(obs[agent]) for agent in self.env.agents}

    def _add(self, agent: Any, part: _Part, into: ReplayBuffer[RolloutBatch, Any]) -> None:
        """Add rows to a buffer, in which the last row is marked as truncated if they do not follow it."""
        state, token, only = state_of(into), self._tokens[agent], np.zeros(1, np.intp)
        with state.guard.lock:  # no other collector adds to the buffer between the check and the mark
            follows = token.follows(state, part.number)
            if part.rows:
                rows = Batch.stack(part.rows)
                add_rollout(into, rows, np.zeros(len(rows), np.intp), new_episodes=None if follows else only)
                token.taken(state, self._number)
            elif follows and part.is_over:
                prepare_change(state.guard, "collect")
                state.cut_episodes(only)

    def _require_agents(self, given: Mapping[Any, object], name: str, what: str) -> None:
        if {*given} != {*self._agents}:
            expected, got = (", ".join(map(repr, agents)) or "none" for agents in (self._agents, given))
            raise SettingError(f"{name} must have a {what} for each possible agent, {expected}; got {got}")


class _Part:
    """The rows of an agent within a call."""

    def __init__(self, number: int) -> None:
        self.rows: list[RolloutBatch] = []
        self.number: int = number
        """Number of the episode of the first row, or of the one at the begin of the call."""
        self.is_over: bool = False
        """Whether the episode that an earlier call began has ended, before the agent had a row in this call."""


def _row(agent: Any, obs: Any, act: Any, outcome: dict[str, dict[Any, Any]]) -> RolloutBatch:
    """Return the row of an agent, or raise a StructureError if the outcome of the step lacks a value for it."""
    for name, values in outcome.items():
        if agent not in values:
            raise StructureError(f"agent {agent!r} acted, but the environment returned no {name} for it", name)
    return RolloutBatch(
        obs=nested(obs),
        act=nested(act),
        obs_next=nested(copied(outcome["obs_next"][agent])),
        rew=np.array(outcome["rew"][agent], np.float64),
        terminated=np.array(outcome["terminated"][agent], bool),
        truncated=np.array(outcome["truncated"][agent], bool),
        info=Batch(),
    )


def _call(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function of an environment, and raise an EnvironmentFailedError if it raises anything."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        reason = f"the environment raised {type(error).__name__}: {error}; the next call begins a new episode"
        raise EnvironmentFailedError(reason) from error
