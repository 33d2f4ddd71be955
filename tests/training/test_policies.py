"""Policies by themselves, what they may write into, and how good they are."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.vector import AutoresetMode

from tests.training.environments import MODES, Count, Nested, sync, zeros
from typedbatch import ActBatch, ActStateBatch, Batch, errors
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector, CollectStats, compute_action, evaluate, random_policy


class Sees(Count):
    """Notes the actions that it is given."""

    def __init__(self, space, seen):
        super().__init__(10)
        self.action_space = space
        self.seen = seen

    def step(self, action):
        self.seen.append(action)
        return super().step(0)


@pytest.mark.parametrize("mode", MODES)
def test_short_episodes_are_not_more_likely_than_long_ones(mode):
    envs = sync(*[Count(1) for _ in range(4)], *[Count(49) for _ in range(4)], mode=mode)
    stats = evaluate(envs, zeros, 16)
    assert sorted(stats.lengths.tolist()) == [1] * 8 + [49] * 8
    assert (stats.mean, stats.episodes, stats.steps) == (25, 16, 8 * 50)


def test_evaluation_begins_anew_with_its_seed():
    def first_of(seed):
        seen = []

        def policy(batch):
            seen.append(batch.obs.copy())
            return ActBatch(act=np.zeros(2, np.int64))

        evaluate(gym.make_vec("CartPole-v1", 2), policy, 2, seed=seed)
        return seen[0]

    assert (first_of(3) == first_of(3)).all()
    assert (first_of(3) != first_of(4)).any()
    with pytest.raises(errors.SizeError, match="n_episode is 1 or more"):
        evaluate(sync(Count(1)), zeros, 0)


def test_policies_are_called_without_gradients():
    net = torch.nn.Linear(1, 3)

    def policy(batch):
        logits = net(torch.as_tensor(batch.obs))
        assert not logits.requires_grad
        return ActBatch(act=logits.argmax(-1).numpy())

    assert evaluate(sync(Count(2)), policy, 1).episodes == 1


@pytest.mark.parametrize("wanted", [True, False])
def test_gradients_are_after_it_what_they_were_before(wanted):
    inner = sync(Count(2))

    def searching(batch):  # a policy that plays episodes to choose, as a planner does
        evaluate(inner, zeros, 1)
        assert not torch.is_grad_enabled()
        return ActBatch(act=np.zeros(1, np.int64))

    def failing(batch):
        raise ZeroDivisionError

    with torch.set_grad_enabled(wanted):
        evaluate(sync(Count(2)), searching, 1)
        assert torch.is_grad_enabled() == wanted
        with pytest.raises(ZeroDivisionError):
            evaluate(sync(Count(2)), failing, 1)
        assert torch.is_grad_enabled() == wanted


def test_torch_may_come_after_the_first_call():
    program = """
import sys
from typedbatch._ops.conversion import no_grad
with no_grad():
    assert "torch" not in sys.modules
import torch
with no_grad():
    assert not torch.is_grad_enabled()
assert torch.is_grad_enabled()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_random_actions_are_of_the_space():
    envs = sync(Nested(3), Nested(3))
    policy = random_policy(envs, seed=1)
    batch = Batch(obs=np.zeros((2, 1)))
    first, second, again = policy(batch).act, policy(batch).act, random_policy(envs, seed=1)(batch).act
    assert first == again != second
    assert (abs(first.arm) <= 1).all()
    assert first.arm.shape == (2, 2)
    assert first.grip.dtype == np.int64


def test_one_action_for_one_observation():
    def policy(batch):
        assert batch.obs.shape == (1, 4)
        return ActBatch(act=torch.as_tensor(batch.obs).sum(-1).long())

    assert compute_action(policy, np.arange(4.0)) == 6
    nested = compute_action(
        lambda batch: ActBatch(act=Batch(arm=batch.obs.place["0"], grip=np.array([1]))),
        {"place": (np.ones(2), 3), "goal": np.zeros(1)},
        {"lives": 3},
    )
    assert nested["arm"].tolist() == [1, 1]
    assert nested["grip"] == 1


def test_a_recurrent_policy_is_handed_its_state_for_one_observation():
    def policy(batch):
        assert batch.state.h.shape == (1, 2)
        return ActStateBatch(act=batch.obs[:, 0], state=Batch(h=batch.state.h + 1))

    act, state = compute_action(policy, np.array([3, 4]), state=Batch(h=np.zeros(2)))
    assert act == 3
    assert state.h.tolist() == [1, 1]
    assert compute_action(policy, np.array([3, 4]), state=state)[1].h.tolist() == [2, 2]


@pytest.mark.parametrize("space", ["Box", "Dict", "Tuple"])
def test_actions_are_kept_in_the_dtype_that_environments_take(space):
    box, number = Box(-1, 1, (2,), np.float32), Discrete(3)
    spaces = {"Box": box, "Dict": Dict({"arm": box, "grip": number}), "Tuple": Tuple((box, number))}
    seen = []
    envs = sync(*[Sees(spaces[space], seen) for _ in range(2)])
    arm, grip = np.full((2, 2), 0.5), np.array([1, 2], np.int32)
    acts = {"Box": arm, "Dict": Batch(arm=arm, grip=grip), "Tuple": Batch({"0": arm, "1": grip})}
    rollout = Collector(envs, lambda batch: ActBatch(act=acts[space])).rollout(4)
    kept = rollout.act if space == "Box" else rollout.act["arm" if space == "Dict" else "0"]
    assert kept.dtype == np.float32
    assert all(action in spaces[space] for action in seen)
    assert len(seen) == 4


def test_statistics_of_several_as_one():
    one = CollectStats(5, np.array([1.0, 2.0]), np.array([2, 3]), 0.5)
    both = CollectStats.sum([one, CollectStats(3, np.array([6.0]), np.array([3]), 0.25, lost=2)])
    assert (both.steps, both.mean, both.episodes, both.seconds, both.lost) == (8, 3, 3, 0.75, 2)
    assert np.isnan(CollectStats.sum([]).mean)


def test_random_actions_of_spaces_in_spaces():
    spaces = gym.spaces
    inner = spaces.Dict(grip=spaces.Discrete(2), turn=spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,)))))
    space = spaces.Dict(arm=inner, leg=spaces.Discrete(2))

    class Arm(Count):
        def __init__(self, length):
            super().__init__(length)
            self.action_space = space

        def step(self, action):
            assert space.contains(action)
            return super().step(0)

    envs = sync(Arm(3), Arm(3))
    rollout = Collector(envs, random_policy(envs, 0)).rollout(4)
    assert rollout.act.arm.grip.shape == (4,)
    assert rollout.act.arm.turn["1"].shape == (4, 2)
    with pytest.raises(errors.StructureError, match=r"act\.arm.*expected a batch of grip, turn, got grip"):
        Collector(envs, lambda _: ActBatch(act={"arm": {"grip": np.zeros(2, int)}, "leg": np.zeros(2, int)})).rollout(2)


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
