"""The examples that Tianshou's documentation gives of its buffers, with the results that it shows."""

from __future__ import annotations

import numpy as np
import pytest

from typedbatch import Batch
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer

FRAMES = [
    [7, 7, 8, 9],
    [7, 8, 9, 10],
    [11, 11, 11, 11],
    [11, 11, 11, 12],
    [11, 11, 12, 13],
    [11, 12, 13, 14],
    [12, 13, 14, 15],
    [7, 7, 7, 7],
    [7, 7, 7, 8],
]
FRAMES_AFTER = [
    [7, 8, 9, 10],
    [7, 8, 9, 10],
    [11, 11, 11, 12],
    [11, 11, 12, 13],
    [11, 12, 13, 14],
    [12, 13, 14, 15],
    [12, 13, 14, 15],
    [7, 7, 7, 8],
    [7, 7, 8, 9],
]


def added(buffer: ReplayBuffer, count: int) -> ReplayBuffer:
    for i in range(count):
        buffer.add(Batch(obs=i, act=i, rew=i, terminated=bool(i), truncated=False, obs_next=i + 1, info={}))
    return buffer


@pytest.fixture
def frames() -> ReplayBuffer:
    buffer = ReplayBuffer(size=9, stack_num=4, ignore_obs_next=True)
    for i in range(16):
        obs, obs_next = {"id": i}, {"id": i + 1}
        buffer.add(Batch(obs=obs, act=i, rew=i, terminated=i % 5 == 0, truncated=False, obs_next=obs_next))
    return buffer


def test_a_buffer_has_room_for_twenty_and_holds_three():
    buffer = added(ReplayBuffer(size=20), 3)
    assert len(buffer) == 3
    assert buffer.obs.tolist() == [0, 1, 2] + [0] * 17


def test_a_full_buffer_holds_the_last_ten():
    buffer = added(ReplayBuffer(size=10), 15)
    assert len(buffer) == 10
    assert buffer.obs.tolist() == [10, 11, 12, 13, 14, 5, 6, 7, 8, 9]


def test_rows_are_moved_into_another_buffer_in_the_order_of_time():
    buffer, other = added(ReplayBuffer(size=20), 3), added(ReplayBuffer(size=10), 15)
    assert buffer.update(other).tolist() == list(range(3, 13))
    assert buffer.obs.tolist() == [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] + [0] * 7
    assert len(buffer) == 13
    assert other.obs.tolist() == [10, 11, 12, 13, 14, 5, 6, 7, 8, 9]


def test_what_is_sampled_is_what_the_slots_hold():
    buffer = added(ReplayBuffer(size=20), 3)
    batch, slots = buffer.sample(batch_size=4)
    assert (batch.obs == buffer[slots].obs).tolist() == [True] * 4
    assert batch.act.tolist() == batch.obs.tolist() == slots.tolist()


def test_obs_next_is_not_stored_when_it_is_ignored(frames):
    values = [9, 10, 11, 12, 13, 14, 15, 7, 8]
    assert frames.act.tolist() == frames.rew.tolist() == frames.obs.id.tolist() == values
    assert frames.done.tolist() == [False, True, False, False, False, False, True, False, False]
    assert "obs_next" not in repr(frames)
    with pytest.raises(AttributeError):
        _ = frames.obs_next


def test_frames_do_not_cross_into_the_episode_before(frames):
    index = np.arange(len(frames))
    assert frames.get(index, "obs").id.tolist() == FRAMES
    assert abs(frames.get(index, "obs")["id"] - frames[index].obs.id).sum() == 0.0


def test_obs_next_is_read_from_the_row_that_follows(frames):
    assert frames[np.arange(9)].obs_next.id.tolist() == FRAMES_AFTER


def test_a_slice_of_everything_is_in_the_order_of_time(frames):
    assert frames[:].act.tolist() == [7, 8, 9, 10, 11, 12, 13, 14, 15]
    assert frames[:].obs.id.tolist() == FRAMES[7:] + FRAMES[:7]
    assert frames[:].obs_next.id.tolist() == FRAMES_AFTER[7:] + FRAMES_AFTER[:7]


@pytest.mark.parametrize(
    ("start", "stop", "slots"), [(2, 4, [2, 3]), (4, 2, [4, 0, 1]), (8, 7, [8, 9, 5, 6]), (5, 10, [5, 6, 7, 8, 9])]
)
def test_the_slots_of_an_episode_may_cross_the_end_of_their_ring(start, stop, slots):
    buffer = VectorReplayBuffer(total_size=10, buffer_num=2)
    assert buffer.subbuffer_edges.tolist() == [0, 5, 10]
    assert buffer.get_buffer_indices(start=start, stop=stop).tolist() == slots


@pytest.mark.parametrize(("start", "stop"), [(1, 6), (6, 1), (8, 1), (4, 7), (-1, 3), (3, 11), (9, 12)])
def test_slots_between_two_rings_are_a_value_error(start, stop):
    with pytest.raises(ValueError, match="ring"):
        VectorReplayBuffer(total_size=10, buffer_num=2).get_buffer_indices(start=start, stop=stop)


def test_an_episode_is_read_between_what_add_returns():
    buffer = ReplayBuffer(size=5)
    for i in range(8):
        last = buffer.add(Batch(obs=i, act=i, rew=i, terminated=i in (3, 7), truncated=False))
    assert last.ep_len.tolist() == [4]
    slots = buffer.get_buffer_indices(last.ep_start.item(), last.slots.item() + 1)
    assert buffer[slots].obs.tolist() == [4, 5, 6, 7]
