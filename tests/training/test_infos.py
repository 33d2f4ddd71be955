"""Infos of environments: in rollouts, in buffers and in the batches passed to the policy."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from tests.training.environments import MODES, Count, Reusing, sync, zeros
from typedbatch import ActBatch, ActStateBatch, Batch, errors
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector, evaluate


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
