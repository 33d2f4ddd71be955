"""Reading a buffer by index or as a sample: slots, their order, copies, and the seed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from tests.buffers.helpers import (
    BUFFERS,
    every_buffer,
    every_store,
    held,
    holding,
    ids_for,
    is_hindsight,
    made,
    rows_for,
    step,
    steps,
    transition,
    transitions,
)
from typedbatch import Batch, errors
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer, compute_episodic_return, compute_nstep_return
from typedbatch.errors import RowIndexError
from typedbatch.training import add_nstep


def drawn(name: str, seed: int | None, noise: int) -> list[Any]:
    buffer = holding(name, 4, random_seed=seed)
    np.random.seed(noise)
    out = []
    for _ in range(4):
        batch, slots = buffer.sample(16)
        out.append([slots.tolist(), buffer.sample_indices(None).tolist()])
        if is_hindsight(name):
            out[-1].append(batch.obs.desired_goal.tolist())
    return out


@every_buffer
def test_one_seed_decides_everything_random(name):
    assert drawn(name, 7, noise=0) == drawn(name, 7, noise=1)
    assert drawn(name, 7, noise=0) != drawn(name, 8, noise=0)
    assert drawn(name, 7, noise=0)[0] != drawn(name, 7, noise=0)[1]


@every_buffer
def test_sampling_leaves_the_random_numbers_of_numpy_alone(name):
    buffer = holding(name)
    np.random.seed(3)
    expected = np.random.rand()
    np.random.seed(3)
    buffer.sample(16)
    assert np.random.rand() == expected


@every_buffer
def test_buffers_without_a_seed_differ(name):
    assert drawn(name, None, noise=0) != drawn(name, None, noise=0)


@pytest.mark.parametrize("name", ["vector", "prioritized vector", "hindsight vector"])
def test_rings_of_one_buffer_are_not_sampled_in_step(name):
    buffer = holding(name, 4)
    slots = buffer.sample_indices(400)
    first, second = slots[slots < 4], slots[slots >= 4] - 4
    assert min(len(first), len(second)) > 100
    assert first[:100].tolist() != second[:100].tolist()


@every_buffer
def test_an_empty_buffer_cannot_be_read(name):
    buffer = BUFFERS[name]()
    for index in (slice(None), 0, [0], slice(0, 2), ...):
        with pytest.raises(errors.EmptyBufferError, match="is empty"):
            _ = buffer[index]
    assert buffer.sample_indices(0).tolist() == []
    assert buffer.unfinished_index().tolist() == []
    with pytest.raises(errors.EmptyBufferError, match="is empty"):
        buffer.sample_indices(3)


@every_buffer
def test_slots_that_hold_no_row_are_an_error(name):
    buffer = BUFFERS[name]()
    slots = buffer.add(rows_for(name, [1, 2]), buffer_ids=ids_for(name)).slots
    free = np.setdiff1d(np.arange(8), slots)
    for index in (int(free[0]), free, [int(slots[0]), int(free[-1])], np.isin(np.arange(8), free), 8, [-3], 99):
        with pytest.raises(errors.RowIndexError):
            _ = buffer[index]
        with pytest.raises(errors.RowIndexError):
            buffer.get(index, "rew")
    assert buffer[slots].act.tolist() == [1, 2]
    assert buffer[np.isin(np.arange(8), slots)].act.tolist() == [1, 2]


def test_a_negative_number_counts_among_the_slots_that_hold_a_row():
    buffer = ReplayBuffer(10)
    for i in range(3):
        buffer.add(transition(i))
    assert (buffer[-1].act, buffer[-3].act) == (2, 0)
    assert buffer[[-1, 0, -2]].act.tolist() == [2, 0, 1]
    assert buffer[-2:].act.tolist() == [1, 2]
    with pytest.raises(errors.RowIndexError):
        _ = buffer[-4]


def test_a_slice_reads_no_slots_that_hold_no_row():
    buffer = VectorReplayBuffer(8, 2)
    buffer.add(transitions([1, 2]))
    buffer.add(transitions([3, 4]))
    assert buffer[:].act.tolist() == [1, 3, 2, 4]
    assert buffer[1:3].act.tolist() == [3, 2]
    assert buffer[::-1].act.tolist() == [4, 2, 3, 1]


@pytest.mark.parametrize("index", ["obs", 1.5, [0.5], None, np.array([True]), [[True, False]]], ids=repr)
def test_other_indices_are_an_error(index):
    with pytest.raises(errors.RowIndexError):
        _ = holding("ring")[index]


@every_buffer
def test_what_is_read_is_a_copy(name):
    buffer = holding(name)
    expected = buffer[:].act.tolist()
    for read in (buffer[:], buffer[...], buffer[buffer.sample_indices(0)]):
        read.act[:] = -1
        read.obs[:] = Batch.empty(read.obs) if is_hindsight(name) else -1
    buffer.get(slice(None), "act")[:] = -1
    buffer.sample(4)[0].rew[:] = -1
    assert buffer[:].act.tolist() == expected
    assert (buffer[:].rew != -1).all() or is_hindsight(name)


def test_rows_without_all_their_frames_cannot_be_sampled_when_others_are_wanted():
    buffer = ReplayBuffer(5, stack_num=3, sample_avail=True)
    for i in range(2):
        buffer.add(transition(i))
    for size in (1, None, 0):
        if size:
            with pytest.raises(errors.EmptyBufferError, match="3 frames"):
                buffer.sample(size)
        else:
            assert buffer.sample_indices(size).tolist() == []
    buffer.add(transition(2))
    assert buffer.sample_indices(9).tolist() == [2] * 9


@every_buffer
def test_a_copy_goes_on_by_itself_with_the_same_random_numbers(name):
    buffer = holding(name)
    for copied in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        twin = copy.deepcopy(buffer)
        assert copied.sample(20)[1].tolist() == twin.sample(20)[1].tolist()
        copied.add(rows_for(name, [70, 80]), buffer_ids=ids_for(name))
        assert 70 in copied.act
        assert 70 not in buffer.act
    if name == "cached":
        copied = copy.deepcopy(buffer)
        copied.add(rows_for(name, [70, 80], terminated=True))
        assert 70 in copied.main_buffer.act
        assert len(buffer.main_buffer) == 0


class TestNeighbours:
    def test_episodes_do_not_go_on_in_another_ring_after_a_move(self):
        vector = held(VectorReplayBuffer(8, 2), *(steps(i, 10 + i) for i in range(3)))
        ring = ReplayBuffer(8)
        ring.update(vector)
        assert ring[:].obs.tolist() == [0, 1, 2, 10, 11, 12]
        assert ring.next([2, 5]).tolist() == [2, 5]
        assert ring.prev(3) == 3
        assert not ring[:].terminated.any()
        returns = compute_nstep_return(
            ring[:], ring, np.arange(6), lambda _, slots: np.zeros(len(slots)), 1.0, 6
        ).returns
        assert returns.tolist() == [3, 3, 2, 33, 23, 12]

    def test_an_episode_whose_last_row_is_dropped_ends_with_the_one_before(self):
        rows = [step(0.0), step(1.0), step(np.nan, done=True), step(3.0), step(4.0)]
        buffer = held(ReplayBuffer(8), *rows)
        buffer.dropnull()
        assert buffer[:].obs.tolist() == [0, 1, 3, 4]
        assert buffer.done[:4].tolist() == [False, True, False, False]
        assert buffer.next(1) == 1
        added = buffer.add(step(5, done=True))
        assert added.ep_start.tolist() == [2]

    def test_neighbours_of_slots_without_a_row_are_not_made_up(self):
        buffer = held(ReplayBuffer(10), *(step(i) for i in range(4)))
        assert buffer.prev(-1) == 2
        assert buffer.next(-2) == 3
        for slots in (7, [0, 7], 25, 1.5, None):
            for neighbour in (buffer.prev, buffer.next):
                with pytest.raises(RowIndexError):
                    neighbour(slots)
        with pytest.raises(RowIndexError):
            compute_nstep_return(buffer[[0]], buffer, np.array([1.7]), lambda _, slots: np.zeros(1))

    def test_iteration_visits_every_row_of_every_ring_in_the_order_of_time(self):
        buffer = held(VectorReplayBuffer(10, 2), steps(0, 10), steps(1, 11))
        assert [int(row.obs) for row in buffer] == [0, 1, 10, 11]

    def test_edges_are_given_as_a_copy(self):
        buffer = VectorReplayBuffer(10, 2)
        buffer.subbuffer_edges[:] = 0
        assert buffer.subbuffer_edges.tolist() == [0, 5, 10]


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


READS: dict[str, Any] = {
    "index": lambda buffer, batch, slots: buffer[slots],
    "view": lambda buffer, batch, slots: buffer[slots[:]],
    "get": lambda buffer, batch, slots: buffer.get(slots, "rew"),
    "next": lambda buffer, batch, slots: buffer.next(slots),
    "nstep": lambda buffer, batch, slots: compute_nstep_return(batch, buffer, slots, lambda _, at: np.zeros(len(at))),
    "add_nstep": lambda buffer, batch, slots: add_nstep(
        batch, buffer, slots, lambda _: np.zeros(len(slots)), gamma=1.0, n=2
    ),
    "episodic": lambda buffer, batch, slots: compute_episodic_return(batch, buffer, slots, gae_lambda=1.0),
    "set": lambda buffer, batch, slots: buffer.set_array_at_key(np.zeros(len(slots)), "act", slots),
}


@pytest.mark.parametrize("turns", [1, 4, 8])
@every_store
def test_sampled_slots_mean_the_rows_that_were_sampled(name, turns, tmp_path):
    buffer, plain = made(name, tmp_path), name.removesuffix(" on disk")

    def episode(number: int) -> Any:
        buffer.add(rows_for(plain, [number, number + 50]), buffer_ids=ids_for(plain))
        return buffer.add(rows_for(plain, [number, number + 50], terminated=True), buffer_ids=ids_for(plain)).slots

    for number in range(4):
        episode(number)
    batch, slots = buffer.sample(0)
    copied = slots.copy()
    for read in READS.values():
        read(buffer, batch, slots)
    for number in range(turns):
        added = episode(100 + number)
    for read in READS.values():
        with pytest.raises(RowIndexError, match="were overwritten since these slots were sampled; sample again"):
            read(buffer, batch, slots)
        read(buffer, batch, copied)
    buffer[added], buffer[added.tolist()], buffer[buffer.sample(4)[1]]
    slots = buffer.sample(4)[1]
    buffer.reset()
    episode(0)
    with pytest.raises(RowIndexError, match=r"4 of 4 rows were overwritten.*hold buffer\.lock"):
        buffer[slots]


def test_only_slots_whose_rows_were_overwritten_are_refused():
    buffer = VectorReplayBuffer(8, 2)
    for number in range(4):
        buffer.add(transitions([number, number + 10]))
    slots = buffer.sample(0)[1]
    buffer.add(transitions([5]), buffer_ids=[1])
    assert buffer[slots[:4]].act.tolist() == [0, 1, 2, 3]
    assert buffer[slots[5:]].act.tolist() == [11, 12, 13]
    with pytest.raises(RowIndexError, match="1 of 8 rows"):
        buffer[slots]
    samples = [buffer.buffers[0].sample(2)[1] for _ in range(400)]
    buffer.add(transitions([6]), buffer_ids=[1])
    assert len(buffer.buffers[0][samples[-1]]) == 2
