"""Rows that are added together are as if they had been added one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.buffers.helpers import BUFFERS, distance, goal_transitions, is_hindsight, transition, transitions
from typedbatch import Batch, RolloutBatch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from typedbatch.buffers.state import state_of

ONE: dict[str, Any] = {
    "ring": ReplayBuffer,
    "prioritized": lambda size: PrioritizedReplayBuffer(size, 0.5, 0.5),
    "hindsight": lambda size: HERReplayBuffer(size, distance, 4),
    "stacked": lambda size: ReplayBuffer(size, stack_num=3, ignore_obs_next=True),
}
SEVERAL: dict[str, Any] = {
    "vector": VectorReplayBuffer,
    "cached": lambda size, rings: CachedReplayBuffer(ReplayBuffer(size), rings, 3),
}


def drawn_rows(name: str, data: Any, count: int) -> Batch:
    numbers = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    ends = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    cut = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    make = goal_transitions if is_hindsight(name) else transitions
    return make(numbers, np.array(ends, bool), truncated=np.array(cut, bool))


def assert_alike(together: Any, apart: Any, added: Any, one_by_one: list[Any]) -> None:
    for got, wanted in zip(added, zip(*one_by_one, strict=True), strict=True):
        np.testing.assert_allclose(got, np.concatenate(wanted))
    assert len(together) == len(apart)
    if len(apart):
        assert together[:] == apart[:]
        assert together.unfinished_index().tolist() == apart.unfinished_index().tolist()
    for part in ("counts", "ep_return"):
        np.testing.assert_allclose(getattr(state_of(together).rings, part), getattr(state_of(apart).rings, part))
    if isinstance(apart, PrioritizedReplayBuffer):
        every = np.arange(apart.maxsize)
        np.testing.assert_array_equal(together.weight[every], apart.weight[every])


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
@pytest.mark.parametrize("name", ONE)
@given(size=st.integers(1, 6), data=st.data())
def test_rows_of_one_ring(name, size, data):
    together, apart = ONE[name](size), ONE[name](size)
    for _ in range(data.draw(st.integers(1, 4))):
        batch = drawn_rows(name, data, data.draw(st.integers(1, 15)))
        added = together.extend(batch)
        assert_alike(together, apart, added, [apart.add(row) for row in batch])


@pytest.mark.parametrize("name", SEVERAL)
@given(rings=st.integers(1, 4), size=st.integers(1, 6), data=st.data())
def test_rows_of_several_rings(name, rings, size, data):
    together, apart = SEVERAL[name](rings * size, rings), SEVERAL[name](rings * size, rings)
    for _ in range(data.draw(st.integers(1, 4))):
        ids = data.draw(st.lists(st.integers(0, rings - 1), min_size=1, max_size=12))
        batch = drawn_rows(name, data, len(ids))
        added = together.extend(batch, ids)
        assert_alike(together, apart, added, [apart.add(batch[[i]], ids[i : i + 1]) for i in range(len(ids))])


@pytest.mark.parametrize("name", BUFFERS)
def test_every_buffer_takes_no_rows_and_stays_empty(name):
    buffer = BUFFERS[name]()
    none = transitions([])
    added = buffer.extend(none, [] if state_of(buffer).many else None)
    assert [len(column) for column in added] == [0, 0, 0, 0]
    assert len(buffer) == 0


def test_what_a_sample_gives_is_taken_again():
    buffer = ReplayBuffer[RolloutBatch](4)
    buffer.extend(RolloutBatch(**transitions(range(6)).to_dict(recursive=False)))
    other = ReplayBuffer[RolloutBatch](10)
    other.extend(buffer[:])
    other.extend(buffer.sample(3)[0])
    assert other[:4] == buffer[:]
    assert len(other) == 7


def test_on_disk(tmp_path):
    buffer = ReplayBuffer(5, path=tmp_path)
    buffer.extend(transitions(range(7)))
    buffer.extend(transitions([7]))
    buffer.close()
    assert ReplayBuffer.open(tmp_path)[:].act.tolist() == [3, 4, 5, 6, 7]
    with pytest.raises(errors.StorageError, match=r"extend\(\) changes the buffer"):
        ReplayBuffer.open(tmp_path, "r").extend(transitions([8]))


def test_a_ring_of_a_buffer():
    buffer = VectorReplayBuffer(6, 2)
    buffer.extend(transitions([0]), [0])
    buffer.buffers[1].extend(transitions(range(1, 6)))
    assert buffer[:].act.tolist() == [0, 3, 4, 5]


WRONG: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "no batch": ([1], None, errors.LeafError, r"extend\(\) takes a Batch"),
    "one row": (transition(3), None, errors.RowAssignmentError,
                r"extend\(\) takes rows, got .*; add\(\) takes a single"),
    "no rewards": (Batch(obs=np.zeros(3)), None, errors.MissingFieldError, "no field 'rew'"),
    "fields of other lengths": (transitions(range(3), obs=np.zeros((2, 2))), None,
                                errors.RowAssignmentError, "field 'obs'"),
    "flags of other lengths": (
        transitions(range(3), truncated=np.zeros(2, bool)), None, errors.RowAssignmentError, "field 'truncated'",
    ),
    "too few rings": (transitions(range(3)), [0, 0], errors.StructureError, "for each of 3 rows, got 2"),
    "a ring that is not there": (transitions(range(3)), [0, 0, 1], errors.StructureError, "rings 0 to 0"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused_and_nothing_is_added(what):
    rows, ids, error, text = WRONG[what]
    buffer = ReplayBuffer(5)
    buffer.extend(transitions(range(2)))
    with pytest.raises(error, match=text):
        buffer.extend(rows, ids)
    assert buffer[:].act.tolist() == [0, 1]


@pytest.mark.parametrize("name", SEVERAL)
def test_of_several_rings_one_is_given_for_each_row(name):
    buffer = SEVERAL[name](6, 2)
    with pytest.raises(
        errors.StructureError, match="2 rings needs the ring of each of 3 rows, got none; pass buffer_ids="
    ):
        buffer.extend(transitions(range(3)))
    wrong = transitions(range(3), obs=np.zeros((2, 2)))
    with pytest.raises(errors.RowAssignmentError, match="field 'obs'"):
        buffer.extend(wrong, [0, 0, 1])
    assert len(buffer) == 0


def test_set_batch_says_who_takes_fewer_rows():
    with pytest.raises(errors.SizeError, match=r"takes 5 rows, one for each slot, got 3; extend\(\) adds any"):
        ReplayBuffer(5).set_batch(transitions(range(3)))


def test_tensors():
    row = transitions(range(3)).to_torch()
    buffer = ReplayBuffer(2)
    buffer.extend(row)
    assert torch.equal(buffer[:].obs, row.obs[1:])
