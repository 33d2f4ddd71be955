"""Settings of a buffer, its rings, and sizes beyond memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.buffers.helpers import BUFFERS, distance, goal_transitions, ids_for, rows_for, transition, transitions
from tests.buffers.test_declared import Frames, Step, fields
from typedbatch import Batch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    SegmentTree,
    VectorReplayBuffer,
    compute_episodic_return,
    compute_nstep_return,
)
from typedbatch.buffers.arguments import as_slots
from typedbatch.buffers.rings import Rings
from typedbatch.errors import RowIndexError

NO_NUMBERS = [None, [1], float("nan"), "x", 1j]
NO_COUNTS = [*NO_NUMBERS, 1.9, float("inf"), 2**62, 2**70, -(2**70)]


def filled() -> Any:
    buffer = ReplayBuffer(6)
    buffer.extend(transitions(range(4)))
    return buffer


def nstep(gamma: Any = 0.5, n_step: Any = 2) -> Any:
    buffer = filled()
    slots = buffer.sample_indices(0)
    return compute_nstep_return(
        buffer[slots], buffer, slots, lambda _, slots: np.ones(len(slots)), gamma, n_step
    ).returns


def advantages(**settings: Any) -> Any:
    buffer = filled()
    return compute_episodic_return(buffer[:], buffer, buffer.sample_indices(0), np.ones(4), np.ones(4), **settings)


COUNTS: dict[str, Callable[[Any], Any]] = {
    "size": ReplayBuffer,
    "total_size": lambda value: VectorReplayBuffer(value, 2),
    "buffer_num": lambda value: VectorReplayBuffer(4, value),
    "cached_buffer_num": lambda value: CachedReplayBuffer(ReplayBuffer(4), value, 2),
    "max_episode_length": lambda value: CachedReplayBuffer(ReplayBuffer(4), 2, value),
    "stack_num": lambda value: ReplayBuffer(4, stack_num=value),
    "stack_num, set": lambda value: setattr(filled(), "stack_num", value),
    "horizon": lambda value: HERReplayBuffer(4, distance, value),
    "the size of a tree": SegmentTree,
}


@pytest.mark.parametrize("value", [*NO_COUNTS, -5], ids=repr)
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_a_whole_number_in_bounds(name, value):
    with pytest.raises(errors.SizeError, match=name.removesuffix(", set")):
        COUNTS[name](value)


@pytest.mark.parametrize("value", NO_COUNTS[1:-1], ids=repr)
@pytest.mark.parametrize("name", BUFFERS)
def test_so_is_the_size_of_a_sample(name, value):
    buffer = BUFFERS[name]()
    buffer.add(rows_for(name, [0, 1]), buffer_ids=ids_for(name))
    with pytest.raises(errors.SizeError, match="batch_size"):
        buffer.sample(value)


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "alpha": lambda value: PrioritizedReplayBuffer(4, value, 0.5),
    "beta": lambda value: PrioritizedReplayBuffer(4, 0.5, value),
    "beta, set": lambda value: PrioritizedReplayBuffer(4, 0.5, 0.5).set_beta(value),
    "future_p": lambda value: setattr(HERReplayBuffer(4, distance, 3), "future_p", value),
    "gamma": nstep,
    "gamma, of advantages": lambda value: advantages(gamma=value),
    "gae_lambda": lambda value: advantages(gae_lambda=value),
}


@pytest.mark.parametrize("value", [*NO_NUMBERS, -5, float("inf"), 10**400], ids=lambda value: repr(value)[:9])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_finite_and_in_bounds(name, value):
    with pytest.raises(errors.SettingError, match=name.partition(",")[0] + " is "):
        NUMBERS[name](value)


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0.5, -5], ids=repr)
def test_future_k_is_1_or_more(value):
    with pytest.raises(errors.SizeError, match="future_k is 1 or more"):
        HERReplayBuffer(4, distance, 3, value)


@pytest.mark.parametrize("value", [-1, 1.9, "x"])
def test_a_seed_is_a_whole_number(value):
    with pytest.raises(errors.SettingError, match="random_seed must be None or a whole number"):
        ReplayBuffer(4, random_seed=value)


def test_a_reward_function_is_one():
    with pytest.raises(errors.LeafError, match="compute_reward_fn is a function"):
        HERReplayBuffer(4, None, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [10, 2**40, 10**30])
def test_more_steps_than_there_are_rows_are_those_that_there_are(steps):
    np.testing.assert_array_equal(nstep(n_step=steps), nstep(n_step=4))


@pytest.mark.parametrize(("start", "stop"), [(None, 2), (0, "x"), (1.9, 3), (2**70, 1)])
def test_the_ends_of_an_episode_are_slots(start, stop):
    with pytest.raises(errors.SizeError, match=r"(start|stop) is"):
        filled().get_buffer_indices(start, stop)


@pytest.mark.parametrize("name", BUFFERS)
def test_frames_that_are_set_are_as_frames_that_it_was_made_with(name):
    changed, made = BUFFERS[name](), BUFFERS[name](stack_num=3)
    for buffer in (changed, made):
        for number in range(3):
            buffer.add(rows_for(name, [number, number + 0.5]), buffer_ids=ids_for(name))
    rings = changed.buffers
    changed.stack_num = 3
    assert changed.stack_num == changed.options["stack_num"] == 3
    assert changed[:] == made[:]
    assert [ring[:] == other[:] for ring, other in zip(rings, made.buffers, strict=True)] == [True] * len(rings)
    changed.stack_num = 1
    assert changed[:].act.ndim == 1


def test_frames_that_are_not_declared_are_not_set():
    buffer = ReplayBuffer[Step](5)
    buffer.add(Batch(**fields()))
    with pytest.raises(errors.SchemaError, match=r"result of ReplayBuffer\.sample\(\)"):
        buffer.stack_num = 3
    assert (buffer.stack_num, buffer.options["stack_num"], buffer[:].obs.shape) == (1, 1, (1, 4))
    stacked = ReplayBuffer[Step, Frames](5, stack_num=3)
    stacked.add(Batch(**fields()))
    with pytest.raises(errors.SchemaError):
        stacked.stack_num = 1
    assert stacked.sample(2)[0].obs.shape == (2, 3, 4)


def test_settings_that_were_changed_are_kept_on_disk_and_in_files(tmp_path):
    buffer = HERReplayBuffer(5, distance, 3, path=tmp_path / "b")
    for row in goal_transitions(range(3)):
        buffer.add(row)
    buffer.stack_num, buffer.future_p = 2, 0.5
    buffer.save_hdf5(tmp_path / "b.h5")
    buffer.close()
    for again in (
        HERReplayBuffer.open(tmp_path / "b", compute_reward_fn=distance),
        HERReplayBuffer.load_hdf5(tmp_path / "b.h5", compute_reward_fn=distance),
    ):
        assert (again.stack_num, again.future_p, again.future_k, len(again)) == (2, 0.5, 2, 3)


def test_a_reader_sets_nothing(tmp_path):
    buffer = ReplayBuffer(5, path=tmp_path)
    buffer.add(transition(0))
    with pytest.raises(errors.StorageError, match="is open for reading"):
        ReplayBuffer.open(tmp_path, "r").stack_num = 2


@pytest.mark.parametrize(("future_p", "future_k"), [(0, 1), (0.8, 5), (1, float("inf"))])
def test_goals_are_as_likely_as_is_set(future_p, future_k):
    buffer = HERReplayBuffer(8, distance, 4)
    for row in goal_transitions(range(8), terminated=True):
        buffer.add(row)
    buffer.future_p = future_p
    assert buffer.future_p == future_p
    assert buffer.future_k == pytest.approx(future_k)
    changed = np.mean([(buffer.sample(0)[0].obs.desired_goal != -1).mean() for _ in range(200)])
    assert changed == pytest.approx(future_p, abs=0.1)


@st.composite
def filled_rings(draw):
    """Rings, often of equal capacity and equally filled, with the slots of each ring, oldest first."""
    count = draw(st.integers(1, 4))
    capacity, rows = st.integers(1, 5), st.integers(0, 12)
    if draw(st.booleans()):
        capacity, rows = st.just(draw(capacity)), st.just(draw(rows))
    rings = Rings([draw(capacity) for _ in range(count)])
    order = [rings.push(ring, draw(rows)).tolist()[-size:] for ring, size in enumerate(rings.capacity.tolist())]
    for ring in range(count if draw(st.booleans()) else 0):
        dropped = draw(st.integers(0, len(order[ring])))
        rings.length[ring] -= dropped
        order[ring] = order[ring][dropped:]
    return rings, order


@given(filled_rings())
def test_slots_hold_rows_in_time_order_ring_by_ring(made):
    rings, order = made
    held = [slot for slots in order for slot in slots]
    assert rings.has_row(np.arange(rings.size)).tolist() == [slot in held for slot in range(rings.size)]
    assert rings.chronological().tolist() == held


@given(filled_rings(), st.data())
def test_a_step_leads_to_the_next_row_of_the_episode(made, data):
    rings, order = made
    done = np.array(data.draw(st.lists(st.booleans(), min_size=rings.size, max_size=rings.size)))
    for slots in order:
        expected = [slot if done[slot] or slot == slots[-1] else slots[n + 1] for n, slot in enumerate(slots)]
        after, continues = rings.step(np.array(slots, np.intp), done)
        assert after.tolist() == rings.next(np.array(slots, np.intp), done).tolist() == expected
        assert continues.tolist() == [not (done[slot] or slot == slots[-1]) for slot in slots]


@given(filled_rings(), st.data())
def test_steps_ahead_are_repeated_calls_of_step(made, data):
    rings, order = made
    done = np.array(data.draw(st.lists(st.booleans(), min_size=rings.size, max_size=rings.size)))
    slots = np.array([slot for slots in order for slot in slots], np.intp)
    ahead, continues = rings.ahead(slots, done, data.draw(st.integers(1, 6)))
    assert len(ahead) == len(continues) + 1
    for before, after, goes_on in zip(ahead, ahead[1:], continues, strict=False):
        expected, mask = rings.step(before, done)
        assert (after.tolist(), goes_on.tolist()) == (expected.tolist(), mask.tolist())


@given(filled_rings(), st.data())
def test_what_is_computed_from_the_positions_follows_each_change(made, data):
    """Changes through the rings, through a part of them, and of the arrays themselves."""
    rings, _ = made
    ring = data.draw(st.integers(0, len(rings.capacity) - 1))
    part, size = rings.part(ring), rings.capacity.item(ring)
    for way in data.draw(st.lists(st.sampled_from(["rings", "part", "arrays", "dropped"]), max_size=6)):
        rings.chronological(), part.chronological()
        if way == "arrays":
            rings.length[ring] = 0
        elif way == "dropped":
            rings.drop_oldest([ring], data.draw(st.integers(0, size)))
        else:
            (rings if way == "rings" else part).push(ring if way == "rings" else 0, 1)
        fresh = Rings(rings.capacity.tolist())
        fresh.counts[...] = rings.counts
        assert rings.chronological().tolist() == fresh.chronological().tolist()
        assert part.chronological().tolist() == fresh.part(ring).chronological().tolist()
        assert (rings.last.tolist(), rings.occupancy.oldest.tolist()) == (
            fresh.last.tolist(),
            fresh.occupancy.oldest.tolist(),
        )


@given(filled_rings(), st.integers(-1, 25))
def test_a_slot_is_accepted_if_it_holds_a_row(made, slot):
    rings, order = made
    held = sorted(slot for slots in order for slot in slots)
    wanted = held[slot] if slot < 0 and held else slot
    if wanted in held:
        assert as_slots(rings, np.array([slot])).tolist() == [wanted]
    else:
        with pytest.raises(RowIndexError):
            as_slots(rings, np.array([slot]))


SLOTS = 10**9
MADE: dict[str, Callable[[], Any]] = {
    "ring": lambda: ReplayBuffer(SLOTS),
    "vector": lambda: VectorReplayBuffer(SLOTS, 2),
}
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "a slot": lambda buffer: buffer[0],
    "the last row": lambda buffer: buffer[-1],
    "rows from the end": lambda buffer: buffer[[-1, -2]],
    "a negative slice": lambda buffer: buffer[-2:],
    "a slice with steps": lambda buffer: buffer[::-2],
    "all": lambda buffer: buffer[:],
    "iteration": list,
    "a field": lambda buffer: buffer.get(-1, "act"),
    "neighbours": lambda buffer: (buffer.prev(-1), buffer.next(-1)),
    "a sample": lambda buffer: buffer.sample(3),
    "nulls": lambda buffer: (buffer.hasnull(), buffer.isnull()),
    "its text": repr,
    "what goes on": lambda buffer: buffer.unfinished_index(),
    "reset": lambda buffer: buffer.reset(),
}


def added_to(buffer: Any, rows: int) -> Any:
    for number in range(rows):
        buffer.add(transitions([number, number + 0.25]) if buffer.buffer_num == 2 else transition(number))
    return buffer


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("made", MADE)
def test_a_question_about_few_rows_takes_little_memory(made, question):
    buffer = added_to(MADE[made](), 3)
    tracemalloc.start()
    try:
        QUESTIONS[question](buffer)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=4), st.data())
def test_rows_are_counted_from_the_end_as_in_the_list_of_all_slots_with_a_row(sizes, data):
    rings = Rings([capacity for capacity, _ in sizes])
    for ring, (_, rows) in enumerate(sizes):
        rings.push(ring, rows)
    slots = np.arange(rings.size)
    expected = slots[rings.has_row(slots)]
    assert rings.stored().tolist() == expected.tolist()
    start, stop, step = (data.draw(st.none() | st.integers(-30, 30).filter(bool)) for _ in range(3))
    assert rings.stored(slice(start, stop, step)).tolist() == expected[start:stop:step].tolist()
    if len(expected):
        places = np.array(data.draw(st.lists(st.integers(-len(expected), -1))), np.intp)
        assert rings.from_the_end(places).tolist() == expected[places].tolist()
    free = np.concatenate([slots[one] for one in rings.free()])
    assert sorted(free.tolist()) == sorted({*slots.tolist()} - {*expected.tolist()})


@pytest.mark.parametrize(
    "index",
    [2**70, -(2**70), np.uint64(2**64 - 1), np.array([0, 2**64 - 1], np.uint64), 2**63, -4, [-4], slice("a", None)],
)
def test_a_slot_that_there_cannot_be_is_refused(index):
    with pytest.raises(errors.RowIndexError):
        added_to(ReplayBuffer(5), 3)[index]
