"""Collecting: what becomes a row, in which order, and with what in it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from tests.training.environments import MODES, Count, Nested, in_processes, sync, zeros
from typedbatch import ActBatch, ActStateBatch, Batch, RolloutBatch, convert, errors, extend
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERVectorReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from typedbatch.training import Collector, ObsStateBatch


def steps_of(batch):
    return batch.obs[:, 0].astype(int).tolist()


# ---- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_each_row_is_a_step_of_an_environment_whichever_way_it_is_reset(mode, copy):
    collector = Collector(sync(Count(3), Count(5, cut=True), mode=mode, copy=copy), zeros)
    seen = [collector.rollout(40) for _ in range(3)]
    for rollout in seen:
        assert (rollout.obs_next == rollout.obs + 1).all()
        assert (rollout.rew == 1).all()
        assert (rollout.terminated == (rollout.obs[:, 0] % 100 == 2) * (np.arange(len(rollout)) < len(rollout))).any()
    rows = {0: [], 1: []}
    for rollout in seen:
        first_of_second = np.flatnonzero(np.diff(rollout.obs[:, 0]) < 0)[0] + 1
        rows[0] += steps_of(rollout)[:first_of_second]
        rows[1] += steps_of(rollout)[first_of_second:]
    for env, length in ((0, 3), (1, 5)):  # no step is missing, none is there twice, none is the reset
        assert rows[env] == [100 * (1 + i // length) + i % length for i in range(len(rows[env]))]


def test_ends_are_told_apart_and_the_last_row_of_what_goes_on_is_cut():
    collector = Collector(sync(Count(3), Count(4, cut=True)), zeros)
    rollout = collector.rollout(10)
    assert steps_of(rollout) == [100, 101, 102, 200, 201, 100, 101, 102, 103, 200]
    assert rollout.terminated.tolist() == [False, False, True] + [False] * 7
    assert np.flatnonzero(rollout.truncated).tolist() == [4, 8, 9]
    assert steps_of(collector.rollout(2)) == [202, 201], "it goes on where it stopped"
    assert rollout.obs.shape == (10, 1), "arrays of before are not written to"
    assert steps_of(rollout)[0] == 100


def test_statistics_are_of_the_episodes_that_ended():
    collector = Collector(sync(Count(3), Count(5)), lambda batch: ActBatch(act=np.array([2, 1])))
    collector.rollout(8)
    stats = collector.last_stats
    assert (stats.steps, stats.returns.tolist(), stats.lengths.tolist()) == (8, [9], [3])
    collector.rollout(8)
    stats = collector.last_stats
    assert (stats.returns.tolist(), stats.lengths.tolist()) == ([10, 9], [5, 3])
    assert collector.steps == 16
    assert stats.mean == 9.5
    assert stats.seconds > 0


def test_so_many_steps_as_there_are_environments_or_a_multiple():
    collector = Collector(sync(Count(9), Count(9), Count(9)), zeros)
    assert [len(collector.rollout(n)) for n in (1, 3, 4, 7)] == [3, 3, 6, 9]
    with pytest.raises(errors.SizeError, match="n_step is 1 or more, got 0"):
        collector.rollout(0)


def test_nested_observations_and_actions():
    def policy(batch):
        assert batch.obs.place["0"].shape == (2, 1)
        return ActBatch(act=Batch(arm=np.full((2, 2), 0.5, np.float32), grip=np.array([0, 1])))

    for mode in MODES:
        rollout = Collector(sync(Nested(3), Nested(2), mode=mode), policy).rollout(12)
        assert (rollout.obs_next.place["0"] == rollout.obs.place["0"] + 1).all()
        assert (rollout.obs_next.goal == -rollout.obs_next.place["0"]).all()
        assert (rollout.obs.place["1"] == rollout.obs.place["0"][:, 0] % 9).all()
        assert (rollout.rew == 2 + rollout.act.grip).all()
        assert rollout.act.arm.shape == (len(rollout), 2)


def test_environments_in_processes():
    envs = in_processes(Count(3), Count(5))
    rollout = Collector(envs, zeros).rollout(12)
    envs.close()
    assert steps_of(rollout)[:6] == [100, 101, 102, 200, 201, 202]
    assert (rollout.obs_next == rollout.obs + 1).all()


def test_a_single_row_goes_through_a_reset_once():
    envs = sync(Count(3), Count(3))
    collector = Collector(envs, zeros)
    collector.reset(seed=7)
    assert [env.seeded_with for env in envs.envs] == [7, 8]
    assert steps_of(collector.rollout(2)) == [100, 100]
    collector.reset()
    assert steps_of(collector.rollout(2)) == [200, 200]
    assert collector.last_stats.episodes == 0


def test_random_actions_are_the_same_for_the_same_seed():
    def acts(seed):
        buffer = VectorReplayBuffer(100, 2)
        collector = Collector(sync(Count(9), Count(9)), zeros)
        collector.reset(seed)
        collector.collect(buffer, 40, random=True)
        return buffer[:].act.tolist()

    assert acts(1) == acts(1) != acts(2)
    assert set(acts(1)) == {0, 1, 2}


# ---- what the policy says -------------------------------------------------------------------------------------------


class Choice(ActBatch[Tensor]):
    logp: Tensor
    value: Tensor


class Recorded(RolloutBatch[Tensor]):
    logp: Tensor
    value: Tensor


def choose(batch) -> Choice:
    obs = torch.as_tensor(batch.obs)[:, 0]
    weight = torch.ones((), requires_grad=True)
    return Choice(act=(obs % 3).long(), logp=-obs * weight, value=torch.stack([obs, obs + 1], 1))


def record(rollout: RolloutBatch, out: Choice) -> Recorded:
    return extend(convert(rollout, RolloutBatch[Tensor]), Recorded, logp=out.logp, value=out.value)


def test_record_has_all_rows_and_what_the_policy_gave_for_each():
    collector = Collector(sync(Count(3), Count(5)), choose, record)
    rollout = collector.rollout(12)
    assert type(rollout) is Recorded
    assert (rollout.logp == -rollout.obs[:, 0]).all()
    assert (rollout.value[:, 1] == rollout.obs[:, 0] + 1).all()
    assert (rollout.act == rollout.obs[:, 0].long() % 3).all()
    assert not rollout.logp.requires_grad
    buffer = VectorReplayBuffer[Recorded](100, 2)
    collector.collect(buffer, 12)
    assert (buffer[:].logp == -buffer[:].obs[:, 0]).all()


def test_what_record_drops_in_next_step_mode_is_dropped_everywhere():
    rollout = Collector(sync(Count(3), Count(4), mode=AutoresetMode.NEXT_STEP), choose, record).rollout(30)
    assert len(rollout) < 30
    assert (rollout.logp == -rollout.obs[:, 0]).all()
    assert (rollout.obs_next == rollout.obs + 1).all()


def test_random_actions_have_nothing_to_record():
    collector = Collector(sync(Count(3), Count(5)), choose, record)
    with pytest.raises(errors.SettingError, match="which random actions do not have"):
        collector.collect(VectorReplayBuffer[Recorded](100, 2), 4, random=True)


@pytest.mark.parametrize("mode", MODES)
def test_the_state_of_a_recurrent_policy_begins_anew_with_each_episode(mode):
    def policy(batch: ObsStateBatch) -> ActStateBatch:
        state = batch.state.h + 1
        return ActStateBatch(act=(state[:, 0] % 3).astype(np.int64), state=Batch(h=state))

    def keep(rollout, out):
        rollout["h"] = out.state.h
        return rollout

    collector = Collector(sync(Count(3), Count(5), mode=mode), policy, keep, state=Batch(h=np.zeros(2)))
    for _ in range(2):
        rollout = collector.rollout(24)
        assert (rollout.h[:, 0] == rollout.obs[:, 0] % 100 + 1).all()
    collector.reset()
    assert (collector.rollout(2).h == 1).all()


# ---- into a buffer --------------------------------------------------------------------------------------------------


BUFFERS = {
    "vector": lambda: VectorReplayBuffer(200, 2),
    "prioritized": lambda: PrioritizedVectorReplayBuffer(200, 2, 0.6, 0.4),
    "cached": lambda: CachedReplayBuffer(ReplayBuffer(200), 2, 10),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BUFFERS)
def test_rows_go_into_the_ring_of_their_environment(name, mode):
    buffer = BUFFERS[name]()
    collector = Collector(sync(Count(3), Count(5, cut=True), mode=mode), zeros)
    added = sum(collector.collect(buffer, n).steps for n in (2, 2, 30, 20))
    assert len(buffer) == added == collector.steps
    rows = buffer[:]
    assert (rows.obs_next == rows.obs + 1).all()
    if name == "cached":  # whole episodes in the main buffer
        assert buffer.main_buffer[:].done.sum() == collector_ends(buffer.main_buffer[:])
    else:
        assert steps_of(buffer.buffers[1][:]) == [100 * (1 + i // 5) + i % 5 for i in range(len(buffer.buffers[1]))]
        assert not rows.truncated[rows.obs[:, 0] % 100 != 4].any(), "nothing is cut"


def collector_ends(rows):
    return np.count_nonzero(rows.terminated | rows.truncated)


def test_a_buffer_on_disk(tmp_path):
    buffer = VectorReplayBuffer(50, 2, path=tmp_path)
    collector = Collector(sync(Count(3), Count(5)), zeros)
    collector.collect(buffer, 70)
    buffer.close()
    again = VectorReplayBuffer.open(tmp_path, mode="r")
    assert len(again) == 50
    assert (again[:].obs_next == again[:].obs + 1).all()


def test_goals():
    class Reach(Nested):
        def __init__(self) -> None:
            super().__init__(4)
            spaces = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), self.observation_space["goal"])
            self.observation_space = type(self.observation_space)(spaces)

        def obs(self):
            one = Count.obs(self)
            return {"observation": one, "achieved_goal": one, "desired_goal": -one}

    def policy(batch):
        return ActBatch(act=Batch(arm=np.zeros((2, 2), np.float32), grip=np.zeros(2, np.int64)))

    buffer = HERVectorReplayBuffer(100, 2, lambda achieved, desired: -abs(achieved - desired)[:, 0], 4)
    Collector(sync(Reach(), Reach()), policy).collect(buffer, 40)
    batch, _ = buffer.sample(32)
    assert (batch.obs.desired_goal > 0).any()


def test_whole_episodes_an_equal_share_from_each_environment():
    buffer = VectorReplayBuffer(1000, 3)
    collector = Collector(sync(Count(2), Count(30), Count(7)), zeros)
    collector.collect(buffer, 5)
    stats = collector.collect(buffer, n_episode=8)
    assert sorted(stats.lengths.tolist()) == [2, 2, 2, 7, 7, 30, 30, 30]
    assert stats.steps == stats.lengths.sum() == len(buffer) - 6
    assert [int(ring[:].done.sum()) for ring in buffer.buffers][1:] == [4, 3], "with what was abandoned"
    assert (buffer[:].obs_next == buffer[:].obs + 1).all()
    assert collector.collect(buffer, n_episode=1).lengths.tolist() == [2]
    assert steps_of(collector.rollout(3))[1] % 100 == 0, "then episodes begin anew"


def test_what_collect_is_not_asked_with():
    collector = Collector(sync(Count(3), Count(5)), zeros)
    buffer = VectorReplayBuffer(10, 2)
    for given in ({}, {"n_step": 2, "n_episode": 2}):
        with pytest.raises(errors.SettingError, match="pass either n_step or n_episode"):
            collector.collect(buffer, **given)
    with pytest.raises(errors.SettingError, match=r"a ring for each of 2 environments is expected, this one has 3"):
        collector.collect(VectorReplayBuffer(9, 3), 2)
    with pytest.raises(errors.LeafError, match=r"collect\(\) takes a buffer, got list"):
        collector.collect([], 2)
    assert collector.steps == 0


@pytest.mark.parametrize("count", [2**62, 10**30])
def test_more_steps_than_an_array_can_hold_are_refused_before_the_first(count):
    collector = Collector(sync(Count(3)), zeros)
    with pytest.raises(errors.SizeError, match=r"n_step must be \d+ or less, the most that an array can hold, got "):
        collector.rollout(count)
    with pytest.raises(errors.SizeError, match=r"n_episode must be \d+ or less"):
        collector.rows(n_episode=count)
    assert collector.steps == 0
