"""Several agents at once: rows of each in its own buffer, in environments of PettingZoo."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv
from pettingzoo.test import parallel_api_test

from typedbatch import ActBatch, Batch, errors
from typedbatch.buffers import CachedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from typedbatch.training import ParallelCollector

LENGTHS = {"long": 4, "short": 2}


class Race(ParallelEnv[str, Any, Any]):
    """The observation is ``100 * episode + step``; each agent ends after its number of steps, one by a time limit."""

    metadata = {"name": "race"}  # noqa: RUF012  # PettingZoo declares it so

    def __init__(self, *, fails_at: int = 0, error: type[BaseException] = ValueError) -> None:
        self.possible_agents = list(LENGTHS)
        self.agents: list[str] = []
        self.observation_spaces = {name: Box(0, np.inf, (1,)) for name in LENGTHS}
        self.action_spaces = {"long": Discrete(3), "short": Box(-1, 1, (2,))}
        self.episode = self.steps = self.now = 0
        self.fails_at, self.error = fails_at, error
        self.acts: list[Any] = []
        self.seeds: list[Any] = []

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        self.episode, self.now, self.agents = self.episode + 1, 0, list(LENGTHS)
        self.seen = {name: np.array([100.0 * self.episode], np.float32) for name in LENGTHS}
        return self.seen, {name: {} for name in LENGTHS}

    def step(self, actions: Any) -> Any:
        self.steps += 1
        if self.steps == self.fails_at:
            raise self.error("gone")
        assert {*actions} == {*self.agents}
        self.acts.append(actions)
        self.now += 1
        for name in self.agents:
            self.seen[name] += 1  # environments may write into arrays that they have returned
        over = {name: self.now == LENGTHS[name] for name in self.agents}
        out = (
            {name: self.seen[name] for name in self.agents},
            {name: float(self.now) for name in self.agents},
            {name: over[name] and name == "long" for name in self.agents},
            {name: over[name] and name == "short" for name in self.agents},
            {name: {} for name in self.agents},
        )
        self.agents = [name for name in self.agents if not over[name]]
        return out


class NestedRace(Race):
    """The same with observations in dicts."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        obs, info = super().reset(seed, options)
        return {name: {"at": value} for name, value in obs.items()}, info

    def step(self, actions: Any) -> Any:
        obs, *rest = super().step(actions)
        return {name: {"at": value} for name, value in obs.items()}, *rest


def first(batch: Any) -> ActBatch:
    assert batch.obs.shape == (1, 1)
    batch.obs[:] = -1
    return ActBatch(act=np.array([2]))


def second(batch: Any) -> Any:
    assert not torch.is_grad_enabled()
    return ActBatch(act=torch.full((1, 2), 0.5))


POLICIES = {"long": first, "short": second}


def buffers(size: int = 50) -> dict[str, Any]:
    return {name: ReplayBuffer(size) for name in LENGTHS}


def obs_of(buffer: Any) -> list[int]:
    return buffer[:].obs[:, 0].astype(int).tolist()


def test_the_environment_is_one_of_pettingzoo():
    parallel_api_test(Race(), 20)


def test_each_agent_has_its_rows_in_its_buffer():
    collector, into = ParallelCollector(Race(), POLICIES), buffers()
    collector.reset(seed=3)
    stats = [collector.collect(into, 5), collector.collect(into, 4)]
    assert obs_of(into["long"]) == [100, 101, 102, 103, 200, 201, 202, 203, 300]
    assert obs_of(into["short"]) == [100, 101, 200, 201, 300]
    rows = into["long"][:]
    assert (rows.obs_next == rows.obs + 1).all()
    assert rows.terminated.tolist() == [False, False, False, True] * 2 + [False]
    assert not rows.truncated.any()
    assert rows.act.tolist() == [2] * 9
    short = into["short"][:]
    assert short.truncated.tolist() == [False, True, False, True, False]
    assert short.act.shape == (5, 2)
    assert short.act.dtype == np.float32
    assert [each["long"].returns.tolist() for each in stats] == [[10.0], [10.0]]
    assert [each["short"].lengths.tolist() for each in stats] == [[2], [2]]
    assert [(each["long"].steps, each["short"].steps) for each in stats] == [(5, 3), (4, 2)]
    assert collector.env.seeds == [3, None, None]
    assert {name: act.shape for name, act in collector.env.acts[0].items()} == {"long": (), "short": (2,)}


def test_a_new_episode_cuts_the_one_that_was_running():
    collector, into = ParallelCollector(Race(), POLICIES), buffers()
    collector.collect(into, 1)
    collector.reset()
    collector.collect(into, 1)
    other = buffers()
    collector.collect(other, 1)
    collector.collect(into, 1)
    assert obs_of(into["long"]) == [100, 200, 202]
    assert into["long"][:].truncated.tolist() == [True, True, False]
    assert obs_of(other["short"]) == [201]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_steps_until_an_error_are_there_and_the_next_call_begins_an_episode(error):
    collector, into = ParallelCollector(Race(fails_at=4, error=error), POLICIES), buffers()
    text = "the environment raised ValueError: gone; the next call begins a new episode"
    with pytest.raises(
        errors.EnvironmentFailedError if error is ValueError else error, match=text if error is ValueError else "gone"
    ):
        collector.collect(into, 10)
    assert obs_of(into["long"]) == [100, 101, 102]
    collector.collect(into, 2)
    assert obs_of(into["long"]) == [100, 101, 102, 200, 201]
    assert np.flatnonzero(into["long"][:].truncated).tolist() == [2]


def test_a_buffer_that_refuses_rows_leaves_no_gap():
    collector, into = ParallelCollector(Race(), POLICIES), buffers()
    into["long"].add(Batch(obs=np.zeros(7), obs_next=np.zeros(7), act=0, rew=0.0, terminated=False, truncated=False))
    with pytest.raises(errors.TypedBatchError, match="obs"):
        collector.collect(into, 1)
    into["long"] = ReplayBuffer(20)
    collector.collect(into, 2)
    assert obs_of(into["long"]) == [200, 201]
    assert obs_of(into["short"]) == [200, 201]


def test_buffers_with_caches_and_rows_in_dicts():
    def policy(batch: Any) -> ActBatch:
        return ActBatch(act=np.zeros((1, *batch.obs.at.shape[1:]), np.int64)[:, 0])

    into: Any = {name: CachedReplayBuffer(ReplayBuffer(20), 1, 10) for name in LENGTHS}
    ParallelCollector(NestedRace(), dict.fromkeys(LENGTHS, policy)).collect(into, 6)
    assert into["long"][:].obs.at[:4, 0].tolist() == [100, 101, 102, 103]


def test_settings_that_do_not_match_the_agents():
    with pytest.raises(
        errors.SettingError, match="policies must have a policy for each possible agent, 'long', 'short'; g"
    ):
        ParallelCollector(Race(), {"long": first})
    collector = ParallelCollector(Race(), POLICIES)
    with pytest.raises(
        errors.SettingError, match=r"into= must have a buffer for each possible agent, .*; got 'long', 'x'"
    ):
        collector.collect({"long": ReplayBuffer(9), "x": ReplayBuffer(9)}, 3)
    with pytest.raises(errors.SettingError, match="a ring for each of 1 environments"):
        collector.collect({name: VectorReplayBuffer(8, 2) for name in LENGTHS}, 3)
    with pytest.raises(errors.LeafError, match=r"collect\(\) takes a buffer, got "):
        collector.collect(dict.fromkeys(LENGTHS), 3)
    with pytest.raises(errors.SizeError, match="n_step is 1 or more"):
        collector.collect(buffers(), 0)


def test_an_agent_that_the_environment_forgets_is_named():
    class Forgets(Race):
        def step(self, actions: Any) -> Any:
            obs, *rest = super().step(actions)
            return {name: obs[name] for name in self.agents if name != "short"}, *rest

    class Empty(Race):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.agents = list(LENGTHS)
            return {}, {}

    with pytest.raises(
        errors.StructureError, match="'obs_next': agent 'short' acted, but the environment returned no obs"
    ):
        ParallelCollector(Forgets(), POLICIES).collect(buffers(), 3)
    with pytest.raises(
        errors.StructureError, match="'obs': agent 'long' is to act, but the environment returned no obs"
    ):
        ParallelCollector(Empty(), POLICIES).collect(buffers(), 3)


class Leaving(Race):
    """Sets no flags: the episode ends with an empty list of agents, and "short" waits in its last step."""

    def step(self, actions: Any) -> Any:
        self.now += 1
        obs = {name: np.array([100.0 * self.episode + self.now], np.float32) for name in LENGTHS}
        self.agents = [["long"], ["long", "short"], ["long"], []][self.now - 1]
        flags = dict.fromkeys(LENGTHS, False)
        self.rew = getattr(self, "rew", {name: np.zeros(()) for name in LENGTHS})
        for rew in self.rew.values():
            rew[...] = self.now  # the same arrays each time
        return obs, self.rew, flags, dict(flags), {name: {} for name in LENGTHS}


@pytest.mark.parametrize("n_step", [1, 2, 3, 4])
def test_the_end_of_an_episode_is_marked_when_the_call_returns(n_step: int) -> None:
    collector, buffers = ParallelCollector(Leaving(), POLICIES), {name: ReplayBuffer(100) for name in LENGTHS}
    lengths = []
    for _ in range(8 // n_step):
        stats = collector.collect(buffers, n_step)
        lengths += stats["short"].lengths.tolist()
        for name, steps in (("long", 4), ("short", 2)):
            rows = buffers[name][:]
            ends = [row + 1 for row in range(len(rows)) if rows.truncated[row]]
            assert ends == [*range(steps, steps * (collector.env.episode - bool(collector.env.agents)) + 1, steps)]
    assert lengths == [2] * (8 // n_step * n_step // 4)


def test_two_collectors_in_threads_and_a_policy_that_writes_its_actions_again() -> None:
    acts = np.zeros((1, 2), np.float32)

    def policy(batch: Any) -> ActBatch:
        acts[:] = batch.obs[0, 0]
        return ActBatch(act=acts)

    buffers = {name: ReplayBuffer(2000) for name in LENGTHS}
    collectors = [ParallelCollector(Race(), {"long": first, "short": second}) for _ in range(2)]
    with ThreadPoolExecutor() as threads:
        for _ in range(30):
            for job in [threads.submit(collector.collect, buffers, 3) for collector in collectors]:
                job.result()
    for buffer in buffers.values():
        rows = buffer[:]
        follows = np.append(rows.obs[1:, 0] == rows.obs_next[:-1, 0], True)
        assert (rows.truncated | rows.terminated | follows).all()
    buffers = {name: ReplayBuffer(50) for name in LENGTHS}
    ParallelCollector(Race(), {"long": first, "short": policy}).collect(buffers, 9)
    assert buffers["short"][:].act[:, 0].tolist() == buffers["short"][:].obs[:, 0].tolist()


@pytest.mark.parametrize("calls", [[20], [1] * 20, [3, 4, 5, 8]])
def test_an_episode_that_ends_without_flags_is_truncated(calls: list[int]) -> None:
    collector, buffers = ParallelCollector(Leaving(), POLICIES), {name: ReplayBuffer(100) for name in LENGTHS}
    stats = [collector.collect(buffers, n_step) for n_step in calls]
    for name, acts_in in (("long", [0, 1, 2, 3]), ("short", [0, 2])):
        rows = buffers[name][:]
        assert rows.obs[:, 0].tolist() == [100 * episode + step for episode in range(1, 6) for step in acts_in]
        assert rows.rew.tolist() == [step + 1 for _ in range(5) for step in acts_in]
        ended = rows.truncated.reshape(5, len(acts_in))
        assert not ended[:, :-1].any()
        assert ended[:4, -1].all()
        assert not rows.terminated.any()
        lengths = [length for one in stats for length in one[name].lengths.tolist()]
        assert lengths[:4] == [len(acts_in)] * 4
