"""Collection from one environment, call after call, into a buffer of one ring."""

from __future__ import annotations

import copy
import pickle
import types
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tests.interruptions import interrupted
from tests.training.environments import Count, Nested, sync
from tests.training.test_following import unmarked
from typedbatch import ActBatch, Batch, RolloutBatch, checking, errors
from typedbatch.buffers import ReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.training import Collector


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
