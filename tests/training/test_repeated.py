"""Repeated collection from one environment, whose rows the buffer checks only the first times."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interruptions import interrupted
from tests.training.environments import MODES, Count, Nested, sync
from tests.training.test_following import unmarked
from typedbatch import ActBatch, Batch, RolloutBatch, checking, errors
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer, repeated
from typedbatch.buffers.state import state_of
from typedbatch.training import Collector

BUFFERS: dict[str, Any] = {
    "a ring": (ReplayBuffer, 7),
    "a ring that is smaller than a call": (ReplayBuffer, 2),
    "a vector of one": (VectorReplayBuffer, 7, 1),
    "prioritized": (PrioritizedReplayBuffer, 7, 0.6, 0.4),
    "in frames, without obs_next": (partial(ReplayBuffer, stack_num=2, ignore_obs_next=True), 7),
    "last frames": (partial(ReplayBuffer, stack_num=2, save_only_last_obs=True), 7),
    "declared": (ReplayBuffer[RolloutBatch], 7),
    "on disk": (ReplayBuffer, 7),
}


class OfItsOwn:
    """A buffer that adds rows in a way of its own, so that they are checked each time."""

    def add(self, *args: Any) -> Any:
        return super().add(*args)  # type: ignore[misc]  # of the buffer that it is mixed with


def two(base: Any = ReplayBuffer, *args: Any, **options: Any) -> list[Any]:
    """The same buffer twice; the second one checks rows each time."""
    if isinstance(base, partial):
        base, options = base.func, base.keywords
    return [types.new_class("Mine", bases)(*args, **options) for bases in ((base,), (OfItsOwn, base))]


def by_step(batch: Any) -> ActBatch:
    return ActBatch(act=(batch.obs.reshape(len(batch.obs), -1)[:, 0] % 3).astype(np.int64))


def collector_of(*lengths: int, **more: Any) -> Collector[Any]:
    return Collector(sync(*map(Count, lengths), **more), by_step)


def require_same(one: Any, other: Any) -> None:
    state, wanted = state_of(one), state_of(other)
    assert state.columns == wanted.columns
    assert (state.rings.counts == wanted.rings.counts).all()
    assert (state.rings.ep_return == wanted.rings.ep_return).all()
    if isinstance(one, PrioritizedReplayBuffer):
        assert (state.weight.values == wanted.weight.values).all()


@pytest.fixture
def runs(monkeypatch):
    """The results of all attempts to add rows again."""
    results, run = [], repeated.RepeatedWrite.run

    def counted(*args: Any) -> bool:
        results.append(run(*args))
        return results[-1]

    monkeypatch.setattr(repeated.RepeatedWrite, "run", counted)
    return results


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BUFFERS)
def test_the_buffer_is_as_if_each_row_were_checked(name, mode, tmp_path, runs):
    base, *args = BUFFERS[name]
    buffers = two(base, *args)
    if name == "on disk":
        buffers = [type(buffer)(*args, path=tmp_path / str(i)) for i, buffer in enumerate(buffers)]
    collectors = [collector_of(9, mode=mode) for _ in buffers]
    for _ in range(12):
        for collector, buffer in zip(collectors, buffers, strict=True):
            collector.collect(buffer, 3)
        require_same(*buffers)
    assert collectors[0].last_stats.steps == collectors[1].last_stats.steps
    assert any(runs) == (name not in ("a ring that is smaller than a call", "last frames"))


OPERATIONS = {
    "other rows": lambda _, buffer: buffer.extend(rows_of(2)),
    "rows with a new field": lambda _, buffer: buffer.extend(rows_of(2, **{f"extra{len(buffer)}": np.ones(2)})),
    "all values": lambda collector, buffer: collect_at_values(collector, buffer),
    "reset": lambda collector, _: collector.reset(),
    "empty": lambda _, buffer: buffer.reset(),
    "episode": lambda collector, buffer: collector.collect(buffer, n_episode=1),
    "another buffer": lambda collector, _: collector.collect(ReplayBuffer(5), 3),
}


def collect_at_values(collector: Any, buffer: Any) -> None:
    with checking("values"):
        collector.collect(buffer, 3)


def rows_of(count: int, **more: Any) -> Batch:
    zeros = np.zeros(count)
    flags = {"terminated": np.ones(count, bool), "truncated": np.zeros(count, bool)}
    obs = np.zeros((count, 1), np.float32)
    return Batch(obs=obs, act=zeros.astype(int), rew=zeros, obs_next=obs, **flags, **more)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(1, 5), st.sampled_from(sorted(OPERATIONS))), max_size=25))
def test_whatever_happens_between_the_calls(operations):
    buffers = two(ReplayBuffer, 11)
    collectors = [collector_of(4) for _ in buffers]
    for operation in operations:
        for collector, buffer in zip(collectors, buffers, strict=True):
            if isinstance(operation, int):
                collector.collect(buffer, operation)
            else:
                OPERATIONS[operation](collector, buffer)
        require_same(*buffers)


class Wider(gym.vector.VectorWrapper):
    """Observations of which a later one needs a wider dtype."""

    steps = 0

    def step(self, actions: Any) -> Any:
        obs, *rest = super().step(actions)
        self.steps += 1
        return obs + np.float64(1e-9) if self.steps == 14 else obs, *rest


def test_a_dtype_that_widens(runs):
    buffers = two(ReplayBuffer, 50)
    for buffer in buffers:
        collector = Collector(Wider(sync(Count(9))), by_step)
        for _ in range(9):
            collector.collect(buffer, 3)
    require_same(*buffers)
    assert runs == [True, True], "from then on, the observations of each step are converted"


def test_rewards_that_the_buffer_stores_in_another_dtype(runs):
    buffers = two(ReplayBuffer, 50)
    for buffer in buffers:
        first = rows_of(1)
        first.rew = first.rew.astype(np.float32)
        buffer.extend(first)
        collector = collector_of(9)
        for _ in range(6):
            collector.collect(buffer, 3)
    require_same(*buffers)
    assert runs
    assert not any(runs)


@pytest.mark.parametrize("field", ["obs", "act", "rew"])
def test_columns_that_are_tensors(field, runs):
    buffers = two(ReplayBuffer, 50)
    for buffer in buffers:
        first = rows_of(1)
        first[field] = torch.as_tensor(first[field])
        buffer.extend(first)
        collector = collector_of(9)
        for _ in range(6):
            collector.collect(buffer, 3)
    require_same(*buffers)
    assert not any(runs), "a tensor is a copy of the array"


class WithExtra(RolloutBatch):
    extra: np.ndarray


def test_a_plan_that_was_made_without_checks_is_not_repeated_with_them():
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


def test_nested_observations_and_records_are_checked_each_time(runs):
    def act(batch: Any) -> ActBatch:
        arm, grip = np.zeros((1, 2), np.float32), np.zeros(1, np.int64)
        return ActBatch(act=Batch(arm=arm, grip=grip))

    for made in (Collector(sync(Nested(4)), act), Collector(sync(Count(4)), by_step, lambda rollout, _: rollout)):
        buffer: Any = ReplayBuffer(20)
        for _ in range(5):
            made.collect(buffer, 3)
        assert (buffer[:].terminated == (np.arange(15) % 4 == 3)).all()
    assert not runs


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


def test_a_repeated_write_warns_of_truncated_rows_without_obs_next() -> None:
    buffer = ReplayBuffer[Any, Any](7, ignore_obs_next=True)
    fields = {"obs": np.zeros((2, 3)), "act": np.zeros(2), "rew": np.zeros(2)}
    fields |= {"terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool)}
    buffer.extend(Batch(fields, info={}))
    assert not repeated.add_again(buffer, fields)
    assert repeated.add_again(buffer, fields)
    fields["truncated"][1] = True
    with pytest.warns(UserWarning, match="values at time limits are wrong"):
        assert repeated.add_again(buffer, fields)
    assert (len(buffer), buffer.truncated.sum()) == (6, 1)
