"""Later steps are not cast to the dtype of the first one: a column gets wider, or an error says what does not fit."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from tests.interruptions import interrupted
from tests.training.environments import MODES, Count, sync, zeros
from typedbatch import ActBatch, Batch, errors
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector
from typedbatch.training.step_columns import StepColumns

DAY = np.datetime64("2026-01-01")


class Says(gym.vector.VectorWrapper):
    """Puts the values of a list into the info, one for each step."""

    def __init__(self, values, length=30):
        super().__init__(sync(Count(length), Count(length)))
        self.values = iter(values)

    def step(self, actions):
        value = next(self.values)
        return *self.env.step(actions)[:4], {"score": value}


def recorded(values):
    """Return the values recorded for the first of two environments, of a policy that gives ``values`` step by step."""
    given = iter(values)

    def policy(batch):
        return Batch(act=np.zeros(2, np.int64), x=next(given))

    collector = Collector(sync(Count(30), Count(30)), policy, lambda rollout, out: Batch(rollout, x=out.x))
    return collector.rollout(2 * len(values)).x


def pairs(*values, dtype=None):
    return [np.array([value, value], dtype) for value in values]


WIDER = {
    "int, then float": (pairs(0, 0.5, 0.5), np.float64, [0, 0.5, 0.5]),
    "bool, then int": (pairs(True, 7), np.int64, [1, 7]),
    "int32, then int64": ([np.zeros(2, np.int32), np.full(2, 2**40)], np.int64, [0, 2**40]),
    "int, then logp": (pairs(0, -0.7), np.float64, [0, -0.7]),
    "float32, then float64": ([np.ones(2, np.float32), np.full(2, 1e300)], np.float64, [1, 1e300]),
    "float, then complex": (pairs(1.0, 2 + 3j), np.complex128, [1, 2 + 3j]),
    "complex, then float": (pairs(2 + 3j, 1.0), np.complex128, [2 + 3j, 1]),
    "float, then int": (pairs(0.5, 3), np.float64, [0.5, 3]),
    "uint64, then -1": ([np.ones(2, np.uint64), np.full(2, -1)], np.float64, [1, -1]),
    "days, then seconds": ([np.full(2, DAY), np.full(2, DAY + np.timedelta64(1, "s"))], "M8[s]",
                           [DAY, DAY + np.timedelta64(1, "s")]),
    "objects, then numbers": (pairs("a", dtype=object) + pairs(3), object, ["a", 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDER)
def test_a_column_gets_a_dtype_that_holds_all_steps_unchanged(name):
    values, dtype, expected = WIDER[name]
    for x in (recorded(values), Collector(Says(values), zeros, infos=["score"]).rollout(2 * len(values)).info.score):
        assert x.dtype == dtype
        assert x[: len(values)].tolist() == x[len(values) :].tolist() == np.array(expected, dtype).tolist()


NO_DTYPE = {
    "integers that no float holds": [np.full(2, 2**53 + 1), np.full(2, 0.5)],
    "and the other way round": [np.full(2, 0.5), np.full(2, 2**53 + 1)],
    "the largest of all": [np.full(2, 0.5), np.full(2, 2**64 - 1, np.uint64)],
    "dates out of range": [np.full(2, np.datetime64("2026-01-01", "ns")), np.full(2, np.datetime64("9999-01-01"))],
    "dates, then numbers": [np.full(2, DAY), np.ones(2)],
    "numbers, then objects": [np.ones(2), np.array(["a", None], object)],
}


@pytest.mark.parametrize("name", NO_DTYPE)
def test_where_no_dtype_holds_all_steps_the_field_and_the_step_are_named(name):
    with pytest.raises(errors.LeafError, match=r"^field 'x': .*no dtype holds .* in every step; this is step 2 of the"):
        recorded(NO_DTYPE[name])
    with pytest.raises(errors.LeafError, match=r"^field 'info.score': .*no dtype holds "):
        Collector(Says(NO_DTYPE[name]), zeros, infos=["score"]).rollout(4)


MISFITS = {
    "one row for all": ([np.ones((2, 3)), np.ones((1, 3))], r"'x': expected shape \[2, 3\] as in .*, got f64\[1,3\]"),
    "a number for all": ([np.ones(2), np.float64(1)], r"'x': expected shape \[2\] as in .*, got f64"),
    "None, then a value": ([None, np.ones(2)], r"'x': expected None as in .*, got f64\[2\]"),
    "a value, then None": ([np.ones(2), None], r"'x': expected f64\[2\] as in .*, got None"),
    "an array, then a tensor": ([np.ones(2), torch.ones(2)], r"'x': expected f64\[2\] as in .*, got torch f32\[2\]"),
    "an array, then a batch": ([np.ones(2), Batch(a=np.ones(2))], r"'x': expected f64\[2\] as in .*, got Batch\(a\)"),
    "a batch, then an array": ([Batch(a=np.ones(2)), np.ones(2)], r"'x': expected a batch of a as in .*, got f64\[2\]"),
    "a field less": ([Batch(a=np.ones(2), b=np.ones(2)), Batch(a=np.ones(2))], r"'x\.b': it was there in the steps be"),
    "a field more": ([Batch(a=np.ones(2)), Batch(a=np.ones(2), b=np.ones(2))], r"'x\.b': it was not there in the step"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_values_of_other_shapes_or_kinds_are_refused(name):
    values, text = MISFITS[name]
    with pytest.raises(errors.StructureError, match=f"^field {text}.*; this is step 2 of the call$"):
        recorded(values)


@pytest.mark.parametrize("place", [0, 1])
def test_masks_are_not_lost(place):
    values = pairs(1.0, 2.0)
    values[place] = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(errors.LeafError, match=f"^field 'x': some values are masked.*this is step {place + 1} of the"):
        recorded(values)


def test_none_in_every_step_stays_none():
    assert recorded([None, None]) is None


def test_tensors_get_wider_too():
    assert recorded([torch.zeros(2, dtype=torch.int64), torch.full((2,), -0.7)]).dtype == torch.float32
    large = recorded([torch.full((2,), 2**24 + 1), torch.full((2,), 0.5)])
    assert (large.dtype, large[0].item()) == (torch.float64, 2**24 + 1)
    assert recorded([torch.ones(2, dtype=torch.float16), torch.full((2,), 1e30, dtype=torch.float64)])[1] == 1e30
    with pytest.raises(errors.LeafError, match="no dtype holds"):
        recorded([torch.full((2,), 2**53 + 1), torch.full((2,), 0.5)])


class Sensors(Count):
    """A Dict of observations, of which one is left out in some step."""

    def __init__(self):
        super().__init__(30)
        number = gym.spaces.Box(-np.inf, np.inf, (1,))
        self.observation_space = gym.spaces.Dict(near=number, far=number)

    def obs(self):
        return {"near": super().obs(), "far": super().obs()}


class Forgets(gym.vector.VectorWrapper):
    def step(self, actions):
        obs, *rest = self.env.step(actions)
        if obs["near"][0, 0] % 100 == 2:
            del obs["far"]
        return obs, *rest


@pytest.mark.parametrize("n_step", [2, 8])
def test_an_observation_that_lacks_a_part_leaves_no_memory_that_nobody_wrote(n_step):
    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(Forgets(sync(Sensors(), Sensors())), zeros)
    if n_step == 2:
        collector.collect(buffer, n_step)
    with pytest.raises(errors.StructureError, match=r"^field 'obs.far': the observation space has it, but"):
        collector.collect(buffer, n_step)
    assert len(buffer) == 2


def test_a_wider_column_goes_into_the_buffer_as_it_is():
    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(Says(pairs(0, 0.5, 1, 0.25)), zeros, infos=["score"])
    collector.collect(buffer, 8)
    assert buffer[:].info.score.tolist() == [0, 0.5, 1, 0.25] * 2


@pytest.mark.parametrize("mode", MODES)
def test_what_ends_an_episode_says_does_not_take_the_dtype_of_the_others(mode):
    class Ends(Count):
        def step(self, action):
            *out, _ = super().step(action)
            over = self.step_ == self.length
            return *out, {"score": 0.5 if over else 0}

    collector = Collector(sync(Ends(3), mode=mode), zeros, infos=["score"])
    assert collector.rollout(6).info.score.tolist()[:5] == [0, 0, 0.5, 0, 0]


def test_an_action_of_another_dtype_is_looked_at_when_it_comes():
    acts = iter([np.zeros(2, np.int64), np.full(2, 0.7)])
    collector = Collector(sync(Count(9), Count(9)), lambda _: ActBatch(act=next(acts)))
    with pytest.raises(errors.LeafError, match=r"^field 'act': Discrete\(3\) takes int64, got f64\[2\]"):
        collector.rollout(4)


def test_an_integer_too_large_for_the_dtype_of_the_space_is_refused():
    class Small(Count):
        def __init__(self):
            super().__init__(9)
            self.action_space = gym.spaces.MultiDiscrete([3], dtype=np.int8)

        def step(self, action):
            return super().step(int(action[0]))

    acts = iter([np.zeros((1, 1), np.int64), np.full((1, 1), 256)])
    collector = Collector(sync(Small()), lambda _: ActBatch(act=next(acts)))
    with pytest.raises(errors.RowAssignmentError, match="int8 cannot hold these int64 values unchanged"):
        collector.rollout(2)


def test_rewards_of_several_dtypes():
    class Pays(gym.vector.VectorWrapper):
        def step(self, actions):
            obs, _, *rest = self.env.step(actions)
            return obs, next(rewards), *rest

    rewards = iter([np.zeros(2, np.int64), np.full(2, 0.5, np.float32)])
    rollout = Collector(Pays(sync(Count(9), Count(9), mode=AutoresetMode.SAME_STEP)), zeros).rollout(4)
    assert rollout.rew.tolist() == [0, 0.5, 0, 0.5]


def test_a_column_stores_what_follows_an_interrupted_widening():
    def interrupted_at(moment):
        column = StepColumns("rew", 1, 3)
        column.write(0, np.float32([1]))
        moments = interrupted(lambda: column.write(1, np.float64([2])), moment)
        for step in range(3):
            column.write(step, np.float32([7 + step]))
        assert column.flat(3).tolist() == [7, 8, 9]
        assert column.flat(2).tolist() == [7, 8]
        return moments

    last = interrupted_at(10**6)
    assert last > 10
    for moment in range(last):
        interrupted_at(moment)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64, np.float32, np.longdouble])
def test_returns_are_of_one_dtype_for_all_dtypes_of_rewards(dtype):
    class Paid(gym.vector.VectorWrapper):
        def step(self, actions):
            obs, rew, *rest = self.env.step(actions)
            return obs, rew.astype(dtype), *rest

    collector = Collector(Paid(sync(Count(3), Count(4))), zeros)
    for _ in range(3):
        stats = collector.collect(VectorReplayBuffer(100, 2), 8)
        assert (stats.returns.dtype, stats.lengths.dtype) == (np.float64, np.int64)
