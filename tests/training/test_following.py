"""Episodes that are abandoned do not go on in a buffer into the next one; those that go on are not cut."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from tests.training.environments import MODES, Count, sync, zeros
from typedbatch import Batch, checking, errors
from typedbatch.buffers import CachedReplayBuffer, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.training import Collector, evaluate, off_policy

BUFFERS = {
    "vector": lambda _: VectorReplayBuffer(200, 2),
    "prioritized": lambda _: PrioritizedVectorReplayBuffer(200, 2, 0.6, 0.4),
    "cached": lambda _: CachedReplayBuffer(ReplayBuffer(200), 2, 10),
    "on disk": lambda folder: VectorReplayBuffer(200, 2, path=folder),
    "in frames": lambda _: VectorReplayBuffer(200, 2, stack_num=2, ignore_obs_next=True),
}

BETWEEN = {
    "reset": lambda collector: collector.reset(),
    "rollout": lambda collector: collector.rollout(4),
    "rows": lambda collector: collector.rows(4),
    "evaluate": lambda collector: collector.evaluate(1),
    "episodes": lambda collector: collector.collect(VectorReplayBuffer(50, 2), n_episode=1),
    "another buffer": lambda collector: collector.collect(VectorReplayBuffer(50, 2), 2),
}


def unmarked(buffer):
    """Rows behind which another episode, or a later step, is stored, though they do not say that anything ends."""
    out = []
    for ring in buffer.buffers:
        rows = np.arange(len(ring) - 1)
        after, first = ring.get(rows + 1, "obs", stack_num=1)[:, 0], ring.get(rows, "obs", stack_num=1)[:, 0]
        out += first[(after != first + 1) & ~ring.done[rows]].tolist()
    return out


def cuts(buffer):
    return sum(int(ring.truncated[: len(ring)].sum()) for ring in buffer.buffers)


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("name", BUFFERS)
def test_an_abandoned_episode_ends_where_it_was_left(name, between, tmp_path):
    buffer = BUFFERS[name](tmp_path)
    collector = Collector(sync(Count(9), Count(30)), zeros)
    collector.collect(buffer, 6)
    BETWEEN[between](collector)
    collector.collect(buffer, 6)
    assert (unmarked(buffer), cuts(buffer), len(buffer)) == ([], 2, 12)
    rows = buffer[buffer.truncated.nonzero()[0]]
    assert (rows.done & rows.truncated & ~rows.terminated).all()
    if name == "cached":
        assert len(buffer.main_buffer) == 6, "they are moved as those that end by themselves"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BUFFERS)
def test_an_episode_that_goes_on_is_not_cut(name, mode, tmp_path):
    buffer = BUFFERS[name](tmp_path)
    collector = Collector(sync(Count(3), Count(30), mode=mode), zeros)
    for steps in (2, 2, 6, 2, 20, 8):
        collector.collect(buffer, steps)
    assert (unmarked(buffer), cuts(buffer)) == ([], 0)


def test_a_training_whose_state_is_asked_for():
    buffer = VectorReplayBuffer(200, 2)
    collector = Collector(sync(Count(5), Count(30)), zeros)
    settings = {"n_step": 2, "updates_per_step": 0, "batch_size": 1, "epoch_steps": 6, "epochs": 5}
    training = off_policy(collector, buffer, lambda *_: {}, **settings)
    for _ in training:
        training.state_dict()
    assert (unmarked(buffer), cuts(buffer)) == ([], 8)


def test_an_environment_that_failed():
    buffer = VectorReplayBuffer(200, 2)
    collector = Collector(sync(Count(9), Count(9, fails_at=4)), zeros)
    with pytest.raises(errors.EnvironmentFailedError):
        collector.collect(buffer, 20)
    collector.collect(buffer, 20)
    assert (unmarked(buffer), cuts(buffer)) == ([], 2)


def test_a_step_that_could_not_be_kept():
    class Endless(Count):
        def step(self, action):
            obs, rew, *rest = super().step(action)
            return obs, np.nan if self.steps == 3 else rew, *rest

    buffer = VectorReplayBuffer(200, 2)
    collector = Collector(sync(Count(9), Endless(9)), zeros)
    with checking("values"), pytest.raises(errors.StructureError):
        collector.collect(buffer, 20)
    collector.collect(buffer, 4)
    assert (len(buffer), unmarked(buffer), cuts(buffer)) == (8, [], 2)


def test_a_policy_that_failed_for_once_goes_on_with_the_episode():
    calls = []

    def policy(batch):
        calls.append(batch)
        if len(calls) == 4:
            raise ValueError("for once")
        return zeros(batch)

    buffer = VectorReplayBuffer(200, 2)
    collector = Collector(sync(Count(9), Count(9)), policy)
    with pytest.raises(ValueError, match="for once"):
        collector.collect(buffer, 20)
    collector.collect(buffer, 10)
    assert (len(buffer), unmarked(buffer), cuts(buffer)) == (16, [], 0)


def test_rows_that_did_not_fit():
    def record(rollout, _):
        rollout["extra"] = np.zeros((len(rollout), size))
        return rollout

    size, buffer = 2, VectorReplayBuffer(200, 2)
    collector = Collector(sync(Count(9), Count(9)), zeros, record)
    collector.collect(buffer, 4)
    size = 3
    with pytest.raises(errors.RowAssignmentError):
        collector.collect(buffer, 4)
    size = 2
    collector.collect(buffer, 4)
    assert (unmarked(buffer), len(buffer)) == ([], 8)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wrapped", [False, True])
def test_environments_that_something_else_has_stepped(mode, wrapped):
    envs = sync(Count(30), Count(30), mode=mode)
    other = gym.wrappers.vector.RecordEpisodeStatistics(envs) if wrapped else envs
    buffer = VectorReplayBuffer(200, 2)
    collector = Collector(envs, zeros)
    collector.collect(buffer, 4)
    evaluate(other, zeros, 2)
    collector.collect(buffer, 4)
    assert (unmarked(buffer), cuts(buffer)) == ([], 2)
    assert (collector.rollout(4).obs_next[:, 0] % 100).tolist() == [3, 4, 3, 4], "its own environments again"
    second = Collector(envs, zeros)
    assert (second.rollout(4).obs_next[:, 0] % 100).tolist() == [1, 2, 1, 2]
    assert (collector.rollout(4).obs_next[:, 0] % 100).tolist() == [1, 2, 1, 2]


def test_several_collectors_and_buffers():
    first, second = VectorReplayBuffer(200, 2), VectorReplayBuffer(200, 2)
    one, other = (Collector(sync(Count(90), Count(90)), zeros) for _ in range(2))
    for collector, buffer in ((one, first), (other, first), (one, first), (other, second), (other, second)):
        collector.collect(buffer, 4)
    assert (unmarked(first), cuts(first)) == ([], 4)
    assert (unmarked(second), cuts(second)) == ([], 0)


def test_a_buffer_that_was_opened_again(tmp_path):
    buffer = VectorReplayBuffer(200, 2, path=tmp_path)
    collector = Collector(sync(Count(90), Count(90)), zeros)
    collector.collect(buffer, 4)
    buffer.close()
    again = VectorReplayBuffer.open(tmp_path)
    Collector(sync(Count(90), Count(90)), zeros).collect(again, 4)
    again.close()
    rows = VectorReplayBuffer.open(tmp_path, mode="r")
    assert (unmarked(rows), cuts(rows)) == ([], 2)


def test_statistics_of_the_next_episode_are_its_own():
    buffer = ReplayBuffer(100)
    collector = Collector(sync(Count(5)), zeros)
    collector.collect(buffer, 3)
    collector.reset()
    collector.collect(buffer, 4)
    rings = state_of(buffer).rings
    assert (rings.ep_return.tolist(), rings.ep_len.tolist(), rings.ep_start.tolist()) == ([4], [4], [3])


def test_flags_that_are_tensors():
    def record(rollout, _):
        rollout["truncated"] = torch.as_tensor(rollout.truncated)
        return rollout

    buffer = VectorReplayBuffer(50, 2)
    collector = Collector(sync(Count(9), Count(9)), zeros, record)
    collector.collect(buffer, 4)
    collector.reset()
    collector.collect(buffer, 4)
    assert np.flatnonzero(buffer.done[:4]).tolist() == np.flatnonzero(buffer.truncated[:4]).tolist() == [1]


def test_rows_say_whether_they_continue():
    collector = Collector(sync(Count(9), Count(9)), zeros)
    said = []
    for before in (None, None, "rollout", None, "reset", None):
        if before:
            BETWEEN[before](collector)
        collector.rows(4)
        said.append(collector.continues)
    collector.rows(n_episode=1)
    assert [*said, collector.continues] == [False, True, False, True, False, True, False]


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
@pytest.mark.parametrize("steps", [2, 8])
@pytest.mark.parametrize("name", BUFFERS)
def test_collectors_in_threads_join_no_episodes(name, steps, tmp_path):
    buffer = BUFFERS[name](tmp_path)
    collectors = [Collector(sync(Count(30), Count(7)), zeros) for _ in range(2)]
    with ThreadPoolExecutor() as threads:
        for _ in range(12):  # no ring is full
            for done in [threads.submit(collector.collect, buffer, steps) for collector in collectors]:
                done.result()
    assert unmarked(buffer) == []


def by_hand(count, *, done):
    """Rows of an episode for each of two rings, in turns."""
    obs = 1000 + np.repeat(np.arange(count), 2)[:, None].astype(np.float32)
    flags = {"terminated": np.full(len(obs), done), "truncated": np.zeros(len(obs), bool)}
    return Batch(obs=obs, obs_next=obs + 1, act=np.zeros(len(obs), np.int64), rew=np.zeros(len(obs)), **flags)


def other_buffer(rows):
    other = VectorReplayBuffer(40, 2)
    other.extend(rows, [0, 1] * (len(rows) // 2))
    return other


BY_HAND = {
    "add": lambda buffer, rows: buffer.add(rows[:2]),
    "add to one": lambda buffer, rows: buffer.add(rows[:1], [1]),
    "extend": lambda buffer, rows: buffer.extend(rows, [0, 1] * (len(rows) // 2)),
    "ring": lambda buffer, rows: buffer.buffers[1].add(rows[0]),
    "update": lambda buffer, rows: buffer.update(other_buffer(rows)),
}


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("how", BY_HAND)
@pytest.mark.parametrize("name", BUFFERS)
def test_rows_that_are_added_by_hand_do_not_go_on_with_those_of_a_collector(name, how, done, tmp_path):
    if name == "cached" and how == "update":
        pytest.skip("it adds whole episodes to the main buffer")
    buffer = BUFFERS[name](tmp_path)
    collector = Collector(sync(Count(9), Count(30)), zeros)
    for _ in range(3):
        collector.collect(buffer, 6)
        BY_HAND[how](buffer, by_hand(3, done=done))
        assert unmarked(buffer) == []
    collector.collect(buffer, 2)
    assert unmarked(buffer) == []


def test_a_row_that_is_refused_cuts_nothing():
    buffer = VectorReplayBuffer(200, 2)
    collector = Collector(sync(Count(9), Count(30)), zeros)
    collector.collect(buffer, 6)
    rows = by_hand(1, done=False)
    rows.obs = np.zeros((2, 7), np.float32)
    with pytest.raises(errors.RowAssignmentError):
        buffer.add(rows)
    collector.collect(buffer, 6)
    assert (unmarked(buffer), cuts(buffer), len(buffer)) == ([], 0, 12)


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
@pytest.mark.parametrize("n_step", [2, 8])
@pytest.mark.parametrize("name", BUFFERS)
def test_a_collector_beside_a_thread_that_adds_rows(name, n_step, tmp_path):
    buffer = BUFFERS[name](tmp_path)
    collector = Collector(sync(Count(30), Count(7)), zeros)
    rows = [by_hand(3, done=False)[i : i + 2] for i in (0, 2, 4)]
    with ThreadPoolExecutor() as threads:
        for i in range(12):
            jobs = [threads.submit(buffer.add, rows[i % 3]), threads.submit(collector.collect, buffer, n_step)]
            for job in jobs:
                job.result()
    assert unmarked(buffer) == [1002.0] * unmarked(buffer).count(1002.0), (
        "the thread says itself where its episodes end"
    )


class OwnExtend(ReplayBuffer[Any, Any]):
    """A buffer that stores the batches that it is given."""

    def extend(self, batch, buffer_ids=None):
        self.__dict__.setdefault("given", []).append(batch)
        return super().extend(batch, buffer_ids)


class OwnAdd(VectorReplayBuffer[Any, Any]):
    """The same, for several environments."""

    def add(self, batch, buffer_ids=None):
        self.__dict__.setdefault("given", []).append(batch)
        return super().add(batch, buffer_ids)


@pytest.mark.parametrize("n_step", [1, 4, 200])
@pytest.mark.parametrize(("make", "envs"), [(lambda: OwnExtend(900), 1), (lambda: OwnAdd(900, 2), 2)])
def test_a_class_with_its_own_methods_may_store_what_it_is_given(make, envs, n_step):
    buffer = make()
    collector = Collector(sync(*[Count(5) for _ in range(envs)], copy=False), zeros)
    for _ in range(4):
        collector.collect(buffer, n_step)
    given = np.concatenate([batch.obs[:, 0] for batch in buffer.given])
    assert sorted(given) == sorted(buffer[:].obs[:, 0])
    assert sorted(np.concatenate([batch.obs_next[:, 0] for batch in buffer.given])) == sorted(buffer[:].obs_next[:, 0])
