"""Collecting: what becomes a row, in which order, and with what in it; from one environment and from several."""

from __future__ import annotations

import copy
import pickle
import types
import weakref
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor
from typing_extensions import override

from tests.interruptions import interrupted
from tests.training.environments import MODES, Count, Nested, Reusing, sync, zeros
from tests.training.test_following import unmarked
from typedbatch import ActBatch, ActStateBatch, Batch, RolloutBatch, checking, convert, errors, extend
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERVectorReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from typedbatch.buffers.state import state_of
from typedbatch.errors import EnvironmentFailedError, SettingError
from typedbatch.training import Collector, ObsStateBatch, evaluate


def steps_of(batch):
    return batch.obs[:, 0].astype(int).tolist()


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


class Walk(gym.Env[Any, int]):
    """A walk of five steps, with infos, and an observation of any space."""

    def __init__(self, observation_space: gym.Space[Any], *, wrong: Any = None) -> None:
        self.observation_space, self.action_space = observation_space, gym.spaces.Discrete(2)
        self.steps, self.wrong = 0, wrong

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {"steps": 0}

    @override
    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        obs = self.observation_space.sample() if self.wrong is None else self.wrong
        return obs, float(action), self.steps == 5, self.steps == 7, {"steps": self.steps}


BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
SPACES = {
    "array": BOX,
    "number": gym.spaces.Discrete(5),
    "scalar": gym.spaces.Box(-9, 9, ()),
    "image": gym.spaces.Box(0, 255, (2, 2, 3), np.uint8),
    "dict": gym.spaces.Dict(cam=BOX, pos=gym.spaces.Tuple([BOX, gym.spaces.Discrete(3)])),
}


def alternating(batch: Any) -> ActBatch:
    return ActBatch(act=(batch.info["steps"].astype(np.int64) % 2))


def rollouts(envs: Any) -> list[Batch]:
    collector = Collector(envs, alternating, infos=["steps"])
    collector.reset(3)
    return [collector.rollout(count) for count in (3, 1, 9)]


@pytest.mark.parametrize("space", SPACES)
def test_rollouts_are_those_of_a_vector_of_one(space: str) -> None:
    of_vector = rollouts(SyncVectorEnv([lambda: Walk(SPACES[space])], autoreset_mode=AutoresetMode.SAME_STEP))
    assert rollouts(Walk(SPACES[space])) == of_vector
    assert rollouts(lambda: Walk(SPACES[space])) == of_vector


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_environments_of_gymnasium(name: str) -> None:
    def collected(envs: Any) -> Batch:
        space = envs.action_space if isinstance(envs, gym.Env) else envs.single_action_space
        zeros = np.zeros((1, *space.shape), space.dtype)
        collector, buffer = Collector(envs, lambda _: ActBatch(act=zeros.copy())), ReplayBuffer(300)
        collector.reset(5)
        for count in (1, 4, 60, 200):
            collector.collect(buffer, n_step=count)
        return buffer[:]

    vector = gym.make_vec(name, 1, vectorization_mode="sync", vector_kwargs={"autoreset_mode": "SameStep"})
    assert collected(gym.make(name)) == collected(vector)


def test_flags_in_arrays_of_one_value() -> None:
    class Arrays(Walk):
        @override
        def step(self, action: int) -> Any:
            obs, rew, terminated, truncated, info = super().step(action)
            return obs, np.array([rew]), np.array([terminated]), np.array(truncated), info

    assert rollouts(Arrays(BOX)) == rollouts(Walk(BOX))


def test_a_buffer_that_stores_rows_in_a_way_of_its_own() -> None:
    class Doubled(ReplayBuffer[Any, Any]):
        @override
        def add(self, batch: Any, buffer_ids: Any = None) -> Any:
            batch.rew = 2 * batch.rew
            return super().add(batch, buffer_ids)

    buffer = Doubled(10)
    Collector(Walk(BOX), lambda _: ActBatch(act=np.ones(1, np.int64))).collect(buffer, n_step=3)
    assert buffer[:].rew.tolist() == [2, 2, 2]


def test_evaluation() -> None:
    stats = evaluate(Walk(BOX), lambda batch: ActBatch(act=np.ones(1, np.int64)), 3, seed=1)
    assert stats.returns.tolist() == [5, 5, 5]


def test_another_collector_of_the_same_environment_begins_a_new_episode() -> None:
    env = Walk(BOX)
    one, other = (Collector(env, lambda _: ActBatch(act=np.ones(1, np.int64)), infos=["steps"]) for _ in range(2))
    one.rollout(2)
    other.rollout(2)
    assert one.rollout(1).info["steps"].tolist() == [1]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (np.zeros(2, np.float32), r"observations of shape \(3,\) are declared, got one of \(2,\)"),
        (np.zeros((1, 3), np.float32), r"observations of shape \(3,\) are declared, got one of \(1, 3\)"),
        (np.zeros(3, complex), "Cannot cast"),
    ],
    ids=["shape", "rows", "dtype"],
)
def test_observations_that_do_not_fit_their_space(wrong: Any, text: str) -> None:
    collector = Collector(Walk(BOX, wrong=wrong), lambda _: ActBatch(act=np.ones(1, np.int64)))
    with pytest.raises(EnvironmentFailedError, match=f"an environment raised .*{text}"):
        collector.rollout(1)


def test_what_is_no_environment_is_refused() -> None:
    envs: Any = [Walk(BOX)]
    with pytest.raises(SettingError, match=r"expected a gymnasium.vector.VectorEnv or a gymnasium.Env, got list"):
        Collector(envs, alternating)


@pytest.mark.parametrize("way", ["rollout", "rows", "collect", "collect by step"])
@pytest.mark.parametrize("kind", Reusing.KINDS)
def test_an_environment_may_write_into_the_arrays_that_it_returned(kind: str, way: str) -> None:
    env = Reusing(3, kind)
    collector, buffer = Collector(env, act_zero, infos=["time", "level"]), ReplayBuffer(20)
    if way == "rollout":
        rows = collector.rollout(10)
    elif way == "rows":
        rows = collector.rows(10)[0]
    else:
        for _ in range(10 if way == "collect by step" else 1):
            collector.collect(buffer, 1 if way == "collect by step" else 10)
        rows = buffer[:]
    leaves = {"array": (), "dict": ("a",), "tuple": ("1",), "nested": ("a", "b", "0")}[kind]
    obs, obs_next = rows.obs, rows.obs_next
    for name in leaves:
        obs, obs_next = obs[name], obs_next[name]
    assert [*zip(obs[:, 0].tolist(), obs_next[:, 0].tolist(), strict=True)] == env.log
    assert (rows.info.time[:, 0] == obs_next[:, 0] % 100).all()
    assert (rows.info.level == np.where(obs[:, 0] % 100 == 0, obs[:, 0] // 100, 0)).all()


def act_zero(batch: Any) -> ActBatch:
    """Return the action 0 for each row, whatever the observations are."""
    return ActBatch(act=np.zeros(1, np.int64))


def by_step(batch: Any) -> ActBatch:
    return ActBatch(act=(batch.obs.reshape(len(batch.obs), -1)[:, 0] % 3).astype(np.int64))


def collector_of(*lengths: int, **more: Any) -> Collector[Any]:
    return Collector(sync(*map(Count, lengths), **more), by_step)


def rows_of(count: int, **more: Any) -> Batch:
    zeros = np.zeros(count)
    flags = {"terminated": np.ones(count, bool), "truncated": np.zeros(count, bool)}
    obs = np.zeros((count, 1), np.float32)
    return Batch(obs=obs, act=zeros.astype(int), rew=zeros, obs_next=obs, **flags, **more)


class WithExtra(RolloutBatch):
    extra: np.ndarray


def test_rows_are_checked_once_checks_are_on_again():
    buffer: Any = ReplayBuffer[WithExtra](50)
    buffer.extend(WithExtra(**rows_of(2), info=Batch(), extra=np.ones(2)))
    collector = collector_of(30)
    with checking("off"):
        for _ in range(4):
            collector.collect(buffer, 3)
    with pytest.raises(errors.SchemaError, match="extra"):
        collector.collect(buffer, 3)


@pytest.mark.parametrize("way", ["class", "object", "patched"])
def test_methods_that_were_replaced_are_called(way, monkeypatch):
    calls: list[int] = []
    extend = ReplayBuffer.extend

    def counted(self: Any, batch: Any, buffer_ids: Any = None) -> Any:
        calls.append(len(batch))
        return extend(self, batch, buffer_ids)

    buffer: Any = types.new_class("Counted", (ReplayBuffer,))(50)
    collector = collector_of(30)
    for _ in range(3):
        collector.collect(buffer, 3)
    if way == "class":
        monkeypatch.setattr(type(buffer), "extend", counted, raising=False)
    elif way == "object":
        buffer.extend = partial(counted, buffer)
    else:
        monkeypatch.setattr(ReplayBuffer, "extend", counted)
    for _ in range(3):
        collector.collect(buffer, 3)
    assert calls == [3, 3, 3]


def test_record_may_drop_rows():
    buffer: Any = ReplayBuffer(50)
    collector = Collector(sync(Count(30)), by_step, lambda rollout, _: rollout[::2])
    for _ in range(3):
        collector.collect(buffer, 4)
    assert len(buffer) == 6


def test_nested_observations_and_records_are_stored():
    def act(batch: Any) -> ActBatch:
        arm, grip = np.zeros((1, 2), np.float32), np.zeros(1, np.int64)
        return ActBatch(act=Batch(arm=arm, grip=grip))

    for made in (Collector(sync(Nested(4)), act), Collector(sync(Count(4)), by_step, lambda rollout, _: rollout)):
        buffer: Any = ReplayBuffer(20)
        for _ in range(5):
            made.collect(buffer, 3)
        assert (buffer[:].terminated == (np.arange(15) % 4 == 3)).all()


def test_a_buffer_that_was_closed(tmp_path):
    buffer: Any = ReplayBuffer(20, path=tmp_path)
    collector = collector_of(9)
    for _ in range(4):
        collector.collect(buffer, 3)
    buffer.close()
    with pytest.raises(errors.StorageError, match="closed"):
        collector.collect(buffer, 3)


def test_copies_are_on_their_own_and_nothing_is_kept_alive():
    buffer: Any = ReplayBuffer(20)
    collector = collector_of(30)
    for _ in range(3):
        collector.collect(buffer, 3)
    for copied in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        before = copied[:]
        collector.collect(buffer, 3)
        assert copied[:] == before
        collector.collect(copied, 3)
        assert copied[:].truncated.tolist()[8] is True, "the rows do not follow those of the copy"
    state = weakref.ref(state_of(buffer))
    column = weakref.ref(buffer.obs)
    buffer.columns.obs = np.zeros((20, 1), np.float32)
    assert column() is None, "a column that was replaced"
    del buffer, copied
    assert state() is None


@pytest.fixture
def gradients():
    """An interrupt on the last line of ``no_grad`` leaves them off, and tests share a process."""
    yield
    torch.set_grad_enabled(True)


@pytest.mark.slow
def test_no_step_is_missing_after_an_interruption(gradients):
    def started() -> tuple[Any, Any]:
        buffer: Any = ReplayBuffer(40)
        collector = collector_of(30)
        for _ in range(3):
            collector.collect(buffer, 3)
        return collector, buffer

    def call(collector: Any, buffer: Any) -> Any:
        return lambda: collector.collect(buffer, 3)

    for moment in range(interrupted(call(*started()), 10**9)):
        collector, buffer = started()
        interrupted(call(collector, buffer), moment)
        collector.collect(buffer, 3)
        collector.collect(buffer, 3)
        rows = buffer[:]
        assert (rows.obs_next == rows.obs + 1).all(), moment
        assert (rows.done == (rows.terminated | rows.truncated)).all(), moment
        assert unmarked(VectorView(buffer)) == [], moment


class VectorView:
    """A buffer of one ring with the list of its rings."""

    def __init__(self, buffer: Any) -> None:
        self.buffers = [buffer]
