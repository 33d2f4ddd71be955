"""Rows with gaps, dropped from a buffer that goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.buffers.helpers import BUFFERS, ids_for, rows_for, transition, transitions
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer


def with_gaps(name: str) -> Any:
    """Four rows in each ring, all in one episode, of which the second and the fourth lack a value."""
    buffer = BUFFERS[name]()
    for i in range(4):
        gap = np.full(2, np.nan if i % 2 else float(i))
        rows = rows_for(name, [i, i + 10], deep={"gap": gap, "vector": np.full((2, 3), i)})
        buffer.add(rows, buffer_ids=ids_for(name))
    return buffer


@pytest.mark.parametrize("name", [name for name in BUFFERS if name != "cached"])
def test_dropping_rows_with_gaps_keeps_shapes_and_the_size(name):
    buffer = with_gaps(name)
    assert buffer.hasnull()
    assert buffer.isnull().deep.gap.sum() == 4
    buffer.dropnull()
    assert not buffer.hasnull()
    assert (len(buffer), buffer.maxsize) == (4, 8)
    assert sorted(buffer[:].act.tolist()) == [0, 2, 10, 12]
    assert buffer[:].deep.vector.shape == (4, 3)
    assert buffer.deep.vector.shape == (8, 3)
    assert buffer[:].deep.gap.tolist() == (buffer[:].act % 10).tolist()


@pytest.mark.parametrize("name", [name for name in BUFFERS if name != "cached"])
def test_a_buffer_goes_on_after_rows_were_dropped(name):
    buffer = with_gaps(name)
    buffer.dropnull()
    for i in range(4, 10):
        rows = rows_for(name, [i, i + 10], terminated=i == 9, deep={"gap": [0.0, 0.0], "vector": np.zeros((2, 3))})
        added = buffer.add(rows, buffer_ids=ids_for(name))
    assert added.ep_len.tolist() == ([10, 10] if ids_for(name) == [0, 1] else [19, 1])
    assert len(buffer) == 8
    last = [6, 7, 8, 9, 16, 17, 18, 19]
    assert sorted(buffer[:].act.tolist()) == last
    assert set(buffer.sample(200)[0].act.tolist()) == set(last)
    assert buffer.unfinished_index().tolist() == []


def test_rows_stay_in_their_rings_and_in_order_when_others_are_dropped():
    buffer = VectorReplayBuffer(8, 2)
    for i in range(6):  # both rings wrap around
        gap = np.array([np.nan if i == 3 else 1.0, 1.0])
        buffer.add(transitions([i, i + 10], terminated=np.array([i == 2, i == 4]), gap=gap))
    buffer.dropnull()
    assert buffer[:].act.tolist() == [2, 4, 5, 12, 13, 14, 15]
    assert [len(part) for part in buffer.buffers] == [3, 4]
    slots = buffer.sample_indices(0)
    assert buffer[buffer.next(slots)].act.tolist() == [2, 5, 5, 13, 14, 14, 15]
    assert buffer[buffer.prev(slots)].act.tolist() == [2, 4, 4, 12, 12, 13, 15]
    assert buffer[buffer.unfinished_index()].act.tolist() == [5, 15]
    added = buffer.add(transitions([6, 16], terminated=True, gap=np.ones(2)))
    assert buffer[added.ep_start].act.tolist() == [4, 15]


def test_every_row_may_be_dropped():
    buffer = ReplayBuffer(3)
    for i in range(2):
        buffer.add(transition(i, gap=np.nan))
    buffer.dropnull()
    assert len(buffer) == 0
    assert not buffer.hasnull()
    assert buffer.add(transition(7, gap=1.0)).slots.tolist() == [0]
    assert buffer[:].act.tolist() == [7]


def test_nothing_is_missing_in_slots_without_rows():
    buffer = ReplayBuffer(5)
    assert not buffer.hasnull()
    buffer.add(transition(1, note="text"))
    assert buffer.note.tolist() == ["text", None, None, None, None]
    assert not buffer.hasnull()


def test_finished_episodes_with_gaps_are_dropped_from_a_cached_buffer():
    buffer = BUFFERS["cached"]()
    buffer.add(transitions([1, 2], terminated=np.array([True, False]), gap=np.array([np.nan, 1.0])))
    buffer.add(transitions([3, 4], terminated=np.array([True, False]), gap=np.array([1.0, 1.0])))
    buffer.dropnull()
    assert buffer[:].act.tolist() == [3, 2, 4]
    assert buffer.main_buffer[:].act.tolist() == [3]
    assert [len(part) for part in buffer.cached_buffers] == [0, 2]


def test_the_rows_that_stay_keep_their_priorities_when_others_are_dropped():
    buffer = PrioritizedReplayBuffer(4, alpha=1.0, beta=0.4)
    for i in range(3):
        buffer.add(transition(i, gap=np.nan if i == 1 else 1.0))
    buffer.update_weight([0, 1, 2], [5.0, 1.0, 3.0])
    buffer.dropnull()
    np.testing.assert_allclose(buffer.weight[[0, 1]], [5.0, 3.0], rtol=1e-6)
