"""The contract of collectors for several agents: episodes, evaluation, records, states, infos, joint rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from tests.training.test_parallel import LENGTHS, POLICIES, NestedRace, Race, buffers, obs_of
from typedbatch import ActBatch, Batch, BatchRecord, RolloutBatch, checking, errors, extend
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer
from typedbatch.training import JointRollout, ParallelCollector


def test_whole_episodes():
    collector, into = ParallelCollector(Race(), POLICIES), buffers()
    collector.collect(into, 3)
    stats = collector.collect(into, n_episode=2)
    assert obs_of(into["long"]) == [100, 101, 102, 200, 201, 202, 203, 300, 301, 302, 303]
    assert into["long"][:].truncated.tolist() == [False, False, True] + [False] * 8
    assert stats["long"].returns.tolist() == [10.0, 10.0]
    assert stats["short"].lengths.tolist() == [2, 2]
    with pytest.raises(errors.SettingError, match="pass either n_step or n_episode"):
        collector.collect(into, 3, 2)
    with pytest.raises(errors.SizeError, match="n_episode is 1 or more"):
        collector.collect(into, n_episode=0)


def test_evaluation_stores_nothing_and_begins_anew():
    collector, into = ParallelCollector(Race(), POLICIES), buffers()
    collector.collect(into, 1)
    stats = collector.evaluate(3, seed=7)
    assert {name: each.lengths.tolist() for name, each in stats.items()} == {"long": [4] * 3, "short": [2] * 3}
    assert collector.env.seeds == [None, 7, None, None]
    collector.collect(into, 1)
    assert obs_of(into["long"]) == [100, 500]
    assert into["long"][:].truncated.tolist() == [True, False]


class Steps(RolloutBatch):
    t: NDArray[np.int64]


class Kept(Steps):
    value: NDArray[np.float64]


class Choice(ActBatch):
    value: NDArray[np.float64]


def test_rows_get_the_step_and_what_record_makes_of_the_outputs():
    def policy(batch: Any) -> Choice:
        return Choice(act=np.zeros(len(batch.obs), np.int64), value=batch.obs[:, 0].astype(np.float64) * 2)

    def record(rollout: Steps, out: Choice) -> Kept:
        return extend(rollout, Kept, value=out.value)

    into: Any = {name: ReplayBuffer[Kept](50) for name in LENGTHS}
    env: Any = Race()
    env.action_spaces["short"] = env.action_spaces["long"]
    collector = ParallelCollector(env, dict.fromkeys(LENGTHS, policy), record, rollout=Steps)
    collector.collect(into, 3)
    collector.collect(into, 3)
    assert into["long"][:].t.tolist() == [0, 1, 2, 3, 0, 1]
    assert into["short"][:].t.tolist() == [0, 1, 0, 1]
    assert (into["long"][:].value == 2 * into["long"][:].obs[:, 0]).all()


class Counted(ActBatch[Tensor]):
    state: Tensor


class Remembered(RolloutBatch):
    state_in: Tensor


@pytest.mark.parametrize("by_agent", [False, True])
def test_states_begin_with_each_episode_and_belong_to_the_row_before(by_agent: bool):
    def count(batch: Any) -> Counted:
        assert batch.state.shape == (len(batch.obs), 1)
        return Counted(act=torch.zeros(len(batch.obs), dtype=torch.int64), state=batch.state + 1)

    state: Any = {name: torch.full((1,), 10.0 * (name == "short")) for name in LENGTHS} if by_agent else torch.zeros(1)
    into: Any = {name: ReplayBuffer[Remembered](50) for name in LENGTHS}
    collector = ParallelCollector(Race(), dict.fromkeys(LENGTHS, count), state=state, rollout=Remembered)
    for _ in range(3):
        collector.collect(into, 2)
    assert into["long"][:].state_in[:, 0].tolist() == [0, 1, 2, 3, 0, 1]
    assert into["short"][:].state_in[:, 0].tolist() == ([10, 11, 10, 11] if by_agent else [0, 1, 0, 1])
    forgets = ParallelCollector(Race(), POLICIES, state=torch.zeros(1))
    with pytest.raises(errors.LeafError, match="a recurrent policy must return its state"):
        forgets.collect(buffers(), 1)


class Telling(Race):
    def step(self, actions: Any) -> Any:
        *rest, _ = super().step(actions)
        return *rest, {
            name: {"lives": self.now, "odd": 1.5} if self.now % 2 else {"lives": self.now} for name in actions
        }


def test_infos_of_each_agent():
    collector, into = ParallelCollector(Telling(), POLICIES, infos=["lives", "odd"]), buffers()
    collector.collect(into, 4)
    assert into["long"][:].info.lives.tolist() == [1, 2, 3, 4]
    assert into["long"][:].info.odd.tolist() == [1.5, 0, 1.5, 0]
    assert into["short"][:].info.lives.tolist() == [1, 2]
    with pytest.raises(errors.StructureError, match=r"'info\.health': agent 'long' got no 'health', but "):
        ParallelCollector(Telling(), POLICIES, infos=["health"]).collect(buffers(), 2)
    with pytest.raises(errors.SettingError, match="infos= must be a list of names"):
        ParallelCollector(Telling(), POLICIES, infos="lives")


def test_agents_that_share_a_policy_are_rows_of_one_call():
    calls: list[int] = []

    class Shared:
        def act(self, batch: Any) -> ActBatch:
            calls.append(len(batch.obs))
            return ActBatch(act=batch.obs[:, 0].astype(np.int64))

    shared, into = Shared(), buffers()
    env: Any = Race()
    ParallelCollector(env, {"long": shared.act, "short": shared.act}).collect(into, 4)
    assert calls == [2, 2, 1, 1]
    for buffer in into.values():
        assert (buffer[:].act == buffer[:].obs[:, 0]).all()
    with pytest.raises(errors.StructureError, match="an action for each of 2 rows, got i64"):
        ParallelCollector(env, dict.fromkeys(LENGTHS, lambda _: ActBatch(act=np.zeros(3, np.int64)))).collect(into, 1)


ONE = dict.fromkeys(LENGTHS, lambda batch: ActBatch(act=batch.obs[:, 0].astype(np.int64)))


@pytest.mark.parametrize("n_step", [1, 2, 3, 4, 5, 9])
def test_joint_rows_are_those_of_the_agents(n_step: int):
    joint, each, into = ParallelCollector(Race(), ONE), ParallelCollector(Race(), ONE), buffers()
    buffer = ReplayBuffer[JointRollout](50)
    for _ in range(12 // n_step):
        stats = joint.collect(buffer, n_step)
        assert {name: one.lengths.tolist() for name, one in each.collect(into, n_step).items()} == {
            name: one.lengths.tolist() for name, one in stats.items()
        }
    rows = buffer[:]
    assert rows.obs.shape == (12 // n_step * n_step, 2, 1)
    for number, name in enumerate(LENGTHS):
        own, there = into[name][:], rows.agent_mask[:, number]
        for field in ("obs", "act", "obs_next", "rew"):
            assert rows[field][there, number].tolist() == own[field].tolist()
            assert not rows[field][~there, number].any()
        assert rows.ended[there, number].tolist() == own.terminated.tolist()
    assert rows.terminated.tolist() == [step % 4 == 3 for step in range(len(rows))]
    assert not rows.truncated.any()


def test_a_rollout_of_joint_rows_is_cut_at_its_end():
    collector = ParallelCollector(Race(), ONE)
    first, second = collector.rollout(6), collector.rollout(3)
    assert type(first) is JointRollout
    assert first.obs[:, 0, 0].tolist() == [100, 101, 102, 103, 200, 201]
    assert first.truncated.tolist() == [False] * 5 + [True]
    assert second.obs[:, 0, 0].tolist() == [202, 203, 300]
    assert second.agent_mask.tolist() == [[True, False], [True, False], [True, True]]
    assert (second.terminated.tolist(), second.truncated.tolist()) == ([False, True, False], [False, False, True])


def test_an_episode_of_all_that_ends_by_a_time_limit_is_truncated():
    class Late(Race):
        def step(self, actions: Any) -> Any:
            obs, rew, terminated, truncated, infos = super().step(actions)
            return obs, rew, truncated, terminated, infos

    rows = ParallelCollector(Late(), ONE).rollout(8)
    assert rows.truncated.tolist() == [step % 4 == 3 for step in range(8)]
    assert not rows.terminated.any()
    assert rows.ended[:, 1].tolist() == [False, True, False, False] * 2


def test_joint_rows_of_agents_that_differ_are_refused():
    class Wide(Race):
        def step(self, actions: Any) -> Any:
            obs, *rest = super().step(actions)
            return {name: value if name == "long" else np.zeros(3) for name, value in obs.items()}, *rest

    with pytest.raises(errors.StructureError, match="'obs_next': agents differ in it, so their rows cannot be joined"):
        ParallelCollector(Wide(), ONE).rollout(1)
    with pytest.raises(errors.SettingError, match="joint rows are of all agents, and have neither record="):
        ParallelCollector(Race(), ONE, rollout=Steps).rollout(1)
    with pytest.raises(errors.SettingError, match="a ring for each of 1 environments"):
        ParallelCollector(Race(), ONE).collect(VectorReplayBuffer(8, 2), 1)


def test_another_collector_cuts_joint_rows():
    one, other, buffer = ParallelCollector(Race(), ONE), ParallelCollector(Race(), ONE), ReplayBuffer[JointRollout](50)
    one.collect(buffer, 2)
    other.collect(buffer, 1)
    one.collect(buffer, 2)
    assert buffer[:].truncated.tolist() == [False, True, True, False, False]


def test_a_reward_that_is_no_number_is_refused_at_the_level_of_values():
    class Broken(Race):
        def step(self, actions: Any) -> Any:
            obs, rew, *rest = super().step(actions)
            return obs, {**rew, "long": np.nan if self.now == 2 else 1.0}, *rest

    with checking("values"), pytest.raises(errors.StructureError, match="agent 'long' got nan for step 2 of this call"):
        ParallelCollector(Broken(), POLICIES).collect(buffers(), 3)


def test_other_columns_are_refused():
    class Other(RolloutBatch):
        env_id: NDArray[np.int64]

    with pytest.raises(errors.SettingError, match="env_id, but there is a single environment"):
        ParallelCollector(Race(), POLICIES, rollout=Other)
    with pytest.raises(errors.SettingError, match="state_in, but the policy has no state"):
        ParallelCollector(Race(), POLICIES, rollout=Remembered)


def test_nested_observations_are_joined():
    policy = {name: lambda batch: ActBatch(act=np.zeros(len(batch.obs.at), np.int64)) for name in LENGTHS}
    rows = ParallelCollector(NestedRace(), policy).rollout(4)
    assert rows.obs.at[:, :, 0].tolist() == [[100, 100], [101, 101], [102, 0], [103, 0]]
    assert isinstance(Batch(rows), Batch)
    assert not isinstance(rows.obs, BatchRecord)


def test_windows_of_joint_rows():
    buffer = ReplayBuffer[JointRollout](50)
    ParallelCollector(Race(), ONE).collect(buffer, 12)
    windows, _ = buffer.sample_sequences(0, 3, stride=2)
    assert windows.obs[:, :, 0, 0].tolist()[:2] == [[100, 101, 102], [102, 103, 0]]
    assert windows.agent_mask.shape == (6, 3, 2)
    assert windows.mask.tolist()[:2] == [[True] * 3, [True, True, False]]
