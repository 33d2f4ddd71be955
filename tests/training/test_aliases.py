"""Recorded rows do not change when the arrays of the environments or of the policy are written to later."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from tests.training.environments import MODES, Count, Nested, sync, zeros
from typedbatch import ActBatch, ActStateBatch, Batch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


def gathered(collector, n_step):
    """The rows of several calls, in a buffer, and those of a rollout."""
    buffer = VectorReplayBuffer(200, 2)
    for _ in range(16 // n_step):
        collector.collect(buffer, n_step)
    yield buffer[:]
    yield collector.rollout(12)


def halving(batch):
    batch.obs /= 2
    return zeros(batch)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_step", [2, 4])
def test_a_policy_writes_into_its_observations(mode, n_step, copy):
    for rows in gathered(Collector(sync(Count(3), Count(30), mode=mode, copy=copy), halving), n_step):
        assert (rows.obs_next == rows.obs + 1).all()


@pytest.mark.parametrize("n_step", [2, 4])
def test_a_policy_writes_into_parts_of_its_observations(n_step):
    def policy(batch):
        batch.obs.goal[:] = 0
        batch.obs.place["0"] /= 2
        return ActBatch(act=Batch(arm=np.zeros((2, 2), np.float32), grip=np.zeros(2, np.int64)))

    for rows in gathered(Collector(sync(Nested(3), Nested(30)), policy), n_step):
        assert (rows.obs_next.goal == rows.obs.goal - 1).all()
        assert (rows.obs_next.place["0"] == rows.obs.place["0"] + 1).all()


class OneMemory(gym.vector.VectorWrapper):
    """Gives a new view of the same memory in each step."""

    def __init__(self, envs):
        super().__init__(envs)
        self.memory = np.zeros((2, 1), np.float32)

    def reset(self, **given):
        obs, info = self.env.reset(**given)
        self.memory[:] = obs
        return self.memory[:], info

    def step(self, actions):
        obs, *rest = self.env.step(actions)
        self.memory[:] = obs
        actions[:] = 1
        return self.memory[:], *rest


class OneMemoryForAll(OneMemory):
    """Writes rewards, flags and infos again too, also when it is reset."""

    def __init__(self, envs):
        super().__init__(envs)
        self.outcome = np.zeros(2), np.zeros(2, bool), np.zeros(2, bool)
        self.info = {"time": np.zeros(2, int)}

    def reset(self, **given):
        for array in (*self.outcome, *self.info.values()):
            array[:] = 0
        return super().reset(**given)[0], self.info

    def step(self, actions):
        obs, *outcome, _ = super().step(actions)
        for array, value in zip(self.outcome, outcome, strict=True):
            array[:] = value
        self.info["time"][:] = obs[:, 0] % 100
        return obs, *self.outcome, self.info


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
@pytest.mark.parametrize("n_step", [2, 4])
@pytest.mark.parametrize("infos", [[], ["time"]])
def test_environments_write_into_all_that_they_gave(mode, n_step, infos):
    for rows in gathered(Collector(OneMemoryForAll(sync(Count(3), Count(3), mode=mode)), zeros, infos=infos), n_step):
        assert (rows.obs_next == rows.obs + 1).all()
        assert (rows.rew == 1).all()
        assert (rows.terminated == (rows.obs_next[:, 0] % 100 == 3)).all()
        if infos:
            assert (rows.info.time == rows.obs_next[:, 0] % 100).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_step", [2, 4])
def test_environments_write_into_the_memory_that_they_gave_and_into_actions(mode, n_step):
    for rows in gathered(Collector(OneMemory(sync(Count(3), Count(30), mode=mode)), zeros), n_step):
        assert (rows.obs_next == rows.obs + 1).all()
        assert (rows.act == 0).all()


def test_a_policy_that_failed_after_it_wrote():
    calls = []

    def policy(batch):
        calls.append(batch)
        batch.obs += 50
        if len(calls) == 3:
            raise ValueError("for once")
        return zeros(batch)

    buffer = VectorReplayBuffer(200, 2)
    collector = Collector(sync(Count(30), Count(30)), policy)
    with pytest.raises(ValueError, match="for once"):
        collector.collect(buffer, 20)
    collector.collect(buffer, 8)
    assert (buffer[:].obs_next == buffer[:].obs + 1).all()
    assert [batch.obs[0, 0] for batch in calls] == [150, 151, 152, 152, 153, 154, 155], "what it keeps stays"


def test_tensors_of_environments_and_actions_of_a_policy():
    class Tensors(gym.vector.VectorWrapper):
        def reset(self, **given):
            obs, info = self.env.reset(**given)
            self.memory = torch.as_tensor(obs).clone()
            return self.memory, info

        def step(self, actions):
            obs, *rest = self.env.step(actions)
            return self.memory.copy_(torch.as_tensor(obs)), *rest

    for n_step in (2, 4):
        for rows in gathered(Collector(Tensors(sync(Count(3), Count(30))), halving), n_step):
            assert (rows.obs_next == rows.obs + 1).all()


def test_the_first_state_of_a_recurrent_policy():
    def policy(batch):
        batch.state.h += 1
        return ActStateBatch(act=np.zeros(2, np.int64), state=batch.state)

    def keep(rollout, out):
        rollout["h"] = out.state.h
        return rollout

    collector = Collector(sync(Count(3), Count(30)), policy, keep, state=Batch(h=np.zeros(1)))
    for _ in range(2):
        collector.reset()
        rollout = collector.rollout(12)
        assert (rollout.h == rollout.obs % 100 + 1).all()


def test_infos_that_a_policy_writes_into():
    class Rarely(Count):
        def step(self, action):
            *out, _ = super().step(action)
            return *out, {"lives": 5} if self.step_ == 1 else {}

    def policy(batch):
        if "lives" in batch.info:
            batch.info.lives += 7
        batch.info.more = np.ones(2)
        return zeros(batch)

    rollout = Collector(sync(Rarely(4), Rarely(4)), policy, infos=["lives"]).rollout(16)
    assert rollout.info.lives.tolist() == [5, 0, 0, 0] * 4
    seen = []
    Collector(sync(Count(4), Count(4)), lambda batch: (seen.append(batch.info), zeros(batch))[1]).rollout(4)
    assert seen == [Batch(), Batch()]
