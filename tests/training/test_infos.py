"""Infos of environments, and columns whose values get wider: in rollouts, in buffers and in batches of the policy."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from tests.interruptions import interrupted
from tests.training.environments import MODES, Count, Reusing, sync, zeros
from typedbatch import ActBatch, ActStateBatch, Batch, errors
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector, evaluate
from typedbatch.training.step_columns import StepColumns


class Says(Count):
    """Says at each step which one it is, at the end that it succeeded, and at the beginning how it begins."""

    def reset(self, **given):
        obs, _ = super().reset(**given)
        return obs, {"step": 0, "begins": self.episode, "mask": np.array([1, 0, 0])}

    def step(self, action):
        *out, _ = super().step(action)
        info = {"step": self.step_, "mask": np.array([0, self.step_, 1])}
        if self.step_ == self.length:
            info |= {"success": True, "end": {"length": self.step_, "by": {"steps": np.full(2, self.step_)}}}
        elif self.step_ == 1:
            info |= {"end": {"early": 1.5}}
        return *out, info


def test_what_the_environments_say_besides_is_kept_where_it_is_asked_for():
    rollout = Collector(sync(Count(3), Count(5)), zeros, infos=["lives"]).rollout(12)
    step = rollout.obs[:, 0] % 100 + 1
    length = np.where(np.arange(12) < 6, 3, 5)
    assert (rollout.info.lives == np.where(step % 2 == 1, length - step, 0)).all()
    assert Collector(sync(Count(3)), zeros).rollout(3).info == Batch()


@pytest.mark.parametrize("mode", MODES)
def test_rows_have_what_was_said_with_their_step_also_where_an_episode_ends(mode):
    collector = Collector(sync(Says(3), Says(5), mode=mode), zeros, infos=["step", "success", "end"])
    for _ in range(3):
        rollout = collector.rollout(24)
        step = rollout.obs_next[:, 0].astype(int) % 100
        assert rollout.info.step.tolist() == step.tolist()
        assert rollout.info.success.dtype == bool
        assert (rollout.info.success == rollout.terminated).all()
        assert (rollout.info.end.length == step * rollout.terminated).all()
        assert (rollout.info.end.by.steps == (step * rollout.terminated)[:, None]).all()
        assert (rollout.info.end.early == 1.5 * (step == 1)).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wrapper", ["of each", "of all"])
def test_statistics_of_episodes(mode, wrapper):
    if wrapper == "of each":
        each = gym.wrappers.RecordEpisodeStatistics
        envs = sync(each(Count(3)), each(Count(5)), mode=mode)
    else:
        envs = gym.wrappers.vector.RecordEpisodeStatistics(sync(Count(3), Count(5), mode=mode))
    rollout = Collector(envs, zeros, infos=["episode"]).rollout(16)
    assert ((rollout.info.episode.l > 0) == rollout.terminated).all()
    if wrapper == "of each":  # that of all miscounts where environments reset themselves at once, or not at all
        assert rollout.info.episode.l.max() == 5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_step", [2, 4, 1000])
def test_a_buffer_has_a_column_from_the_first_value_on(mode, n_step):
    buffer = VectorReplayBuffer(2000, 2)
    collector = Collector(sync(Says(3), Says(5), mode=mode), zeros, infos=["success", "end"])
    for _ in range(8):
        collector.collect(buffer, n_step)
    rows = buffer[:]
    assert rows.info.success.dtype == bool
    assert (rows.info.success == rows.terminated).all()
    assert (rows.info.end.length == rows.obs_next[:, 0] % 100 * rows.terminated).all()
    batch, _ = collector.rows(300)
    assert (batch.info.success == batch.terminated).all()


def test_rows_of_a_collection_of_which_the_first_block_has_nothing():
    batch, _ = Collector(sync(Says(200), Says(200)), zeros, infos=["success"]).rows(800)
    assert batch.info.success.dtype == bool
    assert (batch.info.success == batch.terminated).all()
    assert batch.info.success.sum() == 4


def test_a_name_that_never_comes():
    collector = Collector(sync(Says(3), Says(5)), zeros, infos=["step", "succes"])
    assert collector.rollout(4).info.succes.tolist() == [0, 0, 0, 0], "no episode has ended yet"
    text = r"^infos= names 'succes', which no environment has reported .* they report step, begins, mask, end, success$"
    with pytest.raises(errors.SettingError, match=text):
        collector.rollout(20)
    with pytest.raises(errors.SettingError, match="they report nothing"):
        Collector(gym.make_vec("CartPole-v1", 2), zeros, infos=["lives"]).collect(VectorReplayBuffer(900, 2), 400)


def test_what_is_no_row_for_each_environment():
    class Talks(gym.vector.VectorWrapper):
        def step(self, actions):
            return *self.env.step(actions)[:4], {"word": {"one": "hello"}}

    with pytest.raises(errors.LeafError, match=r"field 'info\.word\.one': a row for each of 1 environments"):
        Collector(Talks(sync(Count(30))), zeros, infos=["word"]).rollout(4)


@pytest.mark.parametrize("mode", MODES)
def test_a_policy_is_handed_what_came_with_the_observations(mode):
    seen = []

    def policy(batch):
        step = batch.obs[:, 0].astype(int) % 100
        seen.append(step.tolist())
        assert batch.info.step.tolist() == step.tolist()
        assert (batch.info.mask[:, 0] == (step == 0)).all()
        assert (batch.info.begins == (step == 0) * batch.obs[:, 0] // 100).all()
        assert "never" not in batch.info
        return zeros(batch)

    names = ["step", "mask", "begins"]
    Collector(sync(Says(3), Says(5), mode=mode), policy, infos=names).rollout(20)
    evaluate(sync(Says(3), Says(5), mode=mode), policy, 4, infos=names)
    assert len(seen) >= 20
    assert [0, 0] in seen


def test_an_action_mask():
    def policy(batch):
        return ActBatch(act=batch.info.action_mask.argmax(1))

    envs = gym.make_vec(next(name for name in gym.registry if name.startswith("Taxi")), 2)
    rollout = Collector(envs, policy, infos=["action_mask"]).rollout(40)
    assert (rollout.act[1:] == rollout.info.action_mask[:-1].argmax(1))[rollout.obs[1:] == rollout.obs_next[:-1]].all()


def test_a_recurrent_policy_is_handed_them_too():
    def policy(batch):
        assert (batch.info.step == batch.obs[:, 0] % 100).all()
        return ActStateBatch(act=np.zeros(2, np.int64), state=batch.state)

    Collector(sync(Says(3), Says(5)), policy, state=np.zeros(1), infos=["step"]).rollout(20)


def test_without_infos_a_policy_is_handed_none():
    def policy(batch):
        assert batch.info == Batch()
        return zeros(batch)

    Collector(sync(Says(3)), policy).rollout(5)


@pytest.mark.parametrize("names", ["lives", [1], [None]])
def test_names_that_are_none(names):
    with pytest.raises(errors.SettingError, match=r"^infos= must be a list of names in the info, as \['lives'\], got "):
        Collector(sync(Count(3)), zeros, infos=names)


def test_objects_in_infos_stay_the_very_same():
    class Handle:
        def __deepcopy__(self, memo):
            raise TypeError("it cannot be copied")

    class Holds(Count):
        def step(self, action):
            *out, _ = super().step(action)
            return *out, {"handle": self.handle}

    envs = sync(Holds(2), Holds(9))
    for env in envs.envs:
        env.handle = Handle()
    seen = []
    collector = Collector(envs, lambda batch: (seen.append(batch.info), zeros(batch))[1], infos=["handle"])
    rollout = collector.rollout(6)
    assert rollout.info.handle.tolist() == [env.handle for env in envs.envs for _ in range(3)]
    assert seen[1].handle.tolist() == [env.handle for env in envs.envs]


class Levels(Says):
    """Resets report a part of a name whose other part steps report, and one name only in every second episode."""

    def reset(self, **given):
        obs, _ = super().reset(**given)
        return obs, {"both": {"level": self.episode}, **({"even": self.episode} if self.episode % 2 == 0 else {})}

    def step(self, action):
        *out, info = super().step(action)
        return *out, info | {"both": {"time": self.step_}}


@pytest.mark.parametrize("envs", ["single", "wrapped", *MODES])
def test_parts_that_only_resets_report_are_in_the_first_row_of_the_episode(envs):
    seen = []

    def policy(batch):
        seen.append((batch.obs[:, 0] % 100 == 0, batch.info.success if "success" in batch.info else None))
        return zeros(batch)

    made = {"single": lambda: Levels(3), "wrapped": lambda: gym.wrappers.RecordEpisodeStatistics(Levels(3))}
    vector = made[envs]() if envs in made else sync(Levels(3), Levels(2), mode=envs)
    collector = Collector(vector, policy, infos=["both", "even", "success"])
    for _ in range(3):
        rollout = collector.rollout(16)
        episode, step = np.divmod(rollout.obs[:, 0].astype(int), 100)
        first = np.where(step == 0, episode, 0)
        assert rollout.info.both.level.tolist() == first.tolist()
        assert rollout.info.both.time.tolist() == (step + 1).tolist()
        assert rollout.info.even.tolist() == np.where(episode % 2 == 0, first, 0).tolist()
    assert not any((success & begins).any() for begins, success in seen if success is not None)


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_what_only_resets_report_is_in_the_first_row_of_the_episode(mode, length):
    collector = Collector(sync(Reusing(length), Reusing(2), mode=mode), zeros, infos=["level", "time"])
    for _ in range(3):
        rollout = collector.rollout(14)
        episode, step = np.divmod(rollout.obs[:, 0].astype(int), 100)
        assert rollout.info.level.tolist() == np.where(step == 0, episode, 0).tolist()
        assert rollout.info.time[:, 1].tolist() == (step + 1).tolist()


DAY = np.datetime64("2026-01-01")


class Scores(gym.vector.VectorWrapper):
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
    for x in (recorded(values), Collector(Scores(values), zeros, infos=["score"]).rollout(2 * len(values)).info.score):
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
        Collector(Scores(NO_DTYPE[name]), zeros, infos=["score"]).rollout(4)


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
    collector = Collector(Scores(pairs(0, 0.5, 1, 0.25)), zeros, infos=["score"])
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
