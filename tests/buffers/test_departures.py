"""What these buffers do where Tianshou loses rows, fields or seeds, or goes on in silence."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from tests.buffers.helpers import (
    BUFFERS,
    assert_same,
    distance,
    filled,
    goals,
    ids_for,
    is_hindsight,
    plain_rows,
    rows_for,
    transition,
    transitions,
)
from typedbatch import Batch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    SegmentTree,
    VectorReplayBuffer,
)

every_buffer = pytest.mark.parametrize("name", BUFFERS)
PRIORITIZED = ("prioritized", "prioritized vector")


def holding(name: str, pairs: int = 3, **options: Any) -> Any:
    """A buffer with twice as many rows as ``pairs``, none of them the last of an episode."""
    buffer = BUFFERS[name](**options)
    for i in range(pairs):
        buffer.add(rows_for(name, [10 * i, 10 * i + 5]), buffer_ids=ids_for(name))
    return buffer


def contents(buffer: Any) -> dict[str, Any]:
    """All that can be read of a buffer, as a copy."""
    return {
        "rows": buffer[:],
        "slots": buffer.sample_indices(0) if not isinstance(buffer, HERReplayBuffer) else np.arange(0),
        "len": len(buffer),
        "last": buffer.last_index.copy(),
        "unfinished": buffer.unfinished_index(),
        "columns": np.array(sorted(buffer[:].__dict__)),
    }


# ---- fields of one's own ---------------------------------------------------------------------------------------------


@every_buffer
def test_fields_of_ones_own_come_back_from_every_buffer(name):
    buffer = BUFFERS[name]()
    for i in range(2):
        more = {"logp": np.array([i, i + 0.5]), "hidden": {"h": np.full((2, 3), i), "step": [i, i + 10]}}
        buffer.add(rows_for(name, [i, i], terminated=i == 1, **more), buffer_ids=ids_for(name))
    for batch in (buffer[:], buffer.sample(20)[0], buffer[buffer.sample_indices(0)]):
        assert set(batch.logp.tolist()) == {0.0, 0.5, 1.0, 1.5}
        assert batch.hidden.h[:, 0].tolist() == np.floor(batch.logp).tolist()
        assert batch.hidden.step.tolist() == (np.floor(batch.logp) + 20 * (batch.logp % 1)).tolist()


@every_buffer
def test_a_field_that_comes_up_later_is_zero_in_the_rows_before(name):
    buffer = BUFFERS[name]()
    buffer.add(rows_for(name, [1, 2]), buffer_ids=ids_for(name))
    buffer.add(rows_for(name, [3, 4], logp=np.array([0.5, 0.25])), buffer_ids=ids_for(name))
    rows = buffer[:]
    assert dict(zip(rows.act.tolist(), rows.logp.tolist(), strict=True)) == {1: 0.0, 2: 0.0, 3: 0.5, 4: 0.25}


# ---- seeds -----------------------------------------------------------------------------------------------------------


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


def test_goals_in_hindsight_are_drawn_by_the_seed():
    def goals_of(seed: int) -> list[Any]:
        buffer = holding("hindsight", 4, random_seed=seed, future_k=2.0)
        slots = np.arange(4)  # the same slots for every seed, so that only the goals are random
        out = []
        for _ in range(20):
            buffer.rewrite_transitions(slots)
            out.append(buffer[slots].obs.desired_goal.tolist())
        return out

    assert goals_of(1) == goals_of(1)
    assert goals_of(1) != goals_of(2)


@pytest.mark.parametrize("name", ["vector", "prioritized vector", "hindsight vector"])
def test_rings_of_one_buffer_are_not_sampled_in_step(name):
    buffer = holding(name, 4)
    slots = buffer.sample_indices(400)
    first, second = slots[slots < 4], slots[slots >= 4] - 4
    assert min(len(first), len(second)) > 100
    assert first[:100].tolist() != second[:100].tolist()


# ---- rows that do not fit --------------------------------------------------------------------------------------------

BAD: dict[str, tuple[str, Any]] = {
    "fractions into integers": ("act", np.array([0.5, 1.0])),
    "too large for bytes": ("byte", np.array([3, 300])),
    "negative for unsigned": ("byte", np.array([3, -1])),
    "complex into real": ("rew", np.array([1j, 1.0])),
    "nan into integers": ("act", np.array([np.nan, 1.0])),
    "text into integers": ("act", np.array(["a", "b"])),
    "overflowing float": ("half", np.array([1.0, 1e6])),
    "fractions into nested integers": ("deep.inner.count", np.array([1.5, 2.0])),
    "fractions into a tensor of integers": ("tensor", torch.tensor([1.5, 2.0])),
    "another shape": ("byte", np.zeros((2, 2), np.uint8)),
    "another shape of a tensor": ("tensor", torch.zeros(2, 3, dtype=torch.int64)),
    "another nested shape": ("deep.inner.vector", np.zeros((2, 4))),
    "no dimension where there was one": ("deep.inner.vector", np.zeros(2)),
    "too many rows": ("byte", np.zeros(3, np.uint8)),
    "too many rows of a new field": ("new", np.zeros(3)),
    "a batch for an array": ("byte", Batch(a=np.zeros(2))),
    "an array for a batch": ("deep", np.zeros(2)),
    "flags of another shape": ("terminated", np.zeros((2, 2), bool)),
    "flags that are text": ("truncated", np.array(["a", "b"])),
}


def wide_rows(name: str, numbers: list[float], **more: Any) -> Batch:
    fields: dict[str, Any] = {
        "byte": np.array([1, 2], np.uint8),
        "half": np.array([1.0, 2.0], np.float16),
        "tensor": torch.tensor([1, 2]),
        "deep": {"inner": {"count": np.array([1, 2]), "vector": np.ones((2, 3))}},
    }
    return rows_for(name, numbers, **{**fields, **more})


@every_buffer
@pytest.mark.parametrize("bad", BAD)
def test_rows_that_do_not_fit_are_an_error_that_names_the_field_and_changes_nothing(name, bad):
    path, value = BAD[bad]
    buffer, twin = BUFFERS[name](), BUFFERS[name]()
    for one in (buffer, twin):
        one.add(wide_rows(name, [1, 2]), buffer_ids=ids_for(name))
    before = contents(buffer)
    rows = wide_rows(name, [3, 4], first_new=np.zeros(2))
    *outer, last = path.split(".")
    place = rows
    for step in outer:
        place = place[step]
    place.__dict__[last] = value
    with pytest.raises(errors.RowAssignmentError, match=path.replace(".", r"\.")):
        buffer.add(rows, buffer_ids=ids_for(name))
    assert_same(contents(buffer), before)
    for _ in range(3):  # the positions and the episode are where they were, too
        after, expected = (
            one.add(wide_rows(name, [5, 6], terminated=np.ones(2, bool)), buffer_ids=ids_for(name))
            for one in (buffer, twin)
        )
        for mine, other in zip(after, expected, strict=True):
            assert mine.tolist() == other.tolist()
    assert_same(contents(buffer), contents(twin))


@pytest.mark.parametrize("name", ["ring", "prioritized"])
@pytest.mark.parametrize(
    ("path", "value"),
    [("act", 0.5), ("obs", np.zeros(3)), ("obs", 1.0), ("rew", "text"), ("rew", [1.0]), ("terminated", [True, True])],
    ids=["fraction", "shape", "no shape", "text", "shape of rew", "shape of flag"],
)
def test_a_single_row_that_does_not_fit_changes_nothing(name, path, value):
    buffer = BUFFERS[name]()
    buffer.add(transition(1))
    before = contents(buffer)
    with pytest.raises(errors.RowAssignmentError, match=path):
        buffer.add(transition(2, **{path: value}))
    assert_same(contents(buffer), before)
    assert buffer.add(transition(3)).slots.tolist() == [1]


@pytest.mark.parametrize("absent", ["obs", "act", "rew", "terminated", "truncated"])
@every_buffer
def test_a_required_field_that_is_missing_is_named(name, absent):
    buffer = holding(name)
    rows = rows_for(name, [1, 2])
    del rows[absent]
    before = contents(buffer)
    with pytest.raises(errors.MissingFieldError, match=absent):
        buffer.add(rows, buffer_ids=ids_for(name))
    assert_same(contents(buffer), before)


def test_values_that_another_dtype_holds_exactly_are_taken():
    buffer = ReplayBuffer(4)
    buffer.add(transition(1, obs=np.array([1.0, 2.0], np.float32)))
    buffer.add(transition(2, act=2.0, obs=np.array([0.1, 0.2])))
    assert buffer.act.dtype == np.int64
    assert buffer.obs.dtype == np.float32
    assert buffer[[0, 1]].act.tolist() == [1, 2]
    assert buffer[1].obs.tolist() == np.array([0.1, 0.2], np.float32).tolist()


def test_rewards_keep_their_precision_and_whole_numbers_become_doubles():
    for given, kept in ((np.float32, np.float32), (np.float64, np.float64), (np.int64, np.float64), (bool, np.float64)):
        buffer = ReplayBuffer(2)
        buffer.add(transition(1, rew=given(1)))
        assert buffer.rew.dtype == kept


# ---- nothing there ---------------------------------------------------------------------------------------------------


@every_buffer
@pytest.mark.parametrize("size", [0, 1, None])
def test_sampling_an_empty_buffer_says_that_it_is_empty(name, size):
    emptied = holding(name)
    emptied.reset()
    for buffer in (BUFFERS[name](), emptied):
        with pytest.raises(errors.EmptyBufferError, match="is empty"):
            buffer.sample(size)


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
def test_no_rows_are_sampled_for_a_negative_size(name):
    buffer = holding(name)
    batch, slots = buffer.sample(-1)
    assert slots.tolist() == buffer.sample_indices(-3).tolist() == []
    assert batch.act.shape == batch.rew.shape == (0,)


@every_buffer
def test_all_rows_are_sampled_in_the_order_of_time_for_zero(name):
    buffer = holding(name, 3)
    batch, slots = buffer.sample(0)
    assert sorted(slots.tolist()) == sorted(set(slots.tolist()))
    assert len(slots) == len(buffer)
    assert_same(batch.act, buffer[:].act)


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


# ---- nulls -----------------------------------------------------------------------------------------------------------


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


# ---- whose arrays ----------------------------------------------------------------------------------------------------


def assert_untouched(rows: Any, before: bytes) -> None:
    assert_same(rows, pickle.loads(before))


@every_buffer
def test_what_is_added_is_copied_and_left_alone(name):
    buffer = BUFFERS[name]()
    rows = rows_for(name, [1, 2], more={"a": np.arange(2.0), "t": torch.arange(2.0)})
    before, fields = pickle.dumps(rows), list(rows)
    for i in range(5):
        added = buffer.add(rows, buffer_ids=ids_for(name))
        buffer.sample(8)
        assert_untouched(rows, before)
        assert list(rows) == fields, i
    rows.act[:] = 99
    rows.more.a[:] = 99
    rows.more.t[:] = 99
    read = buffer[added.slots]
    assert read.act.tolist() == [1, 2]
    assert read.more.a.tolist() == read.more.t.tolist() == [0.0, 1.0]


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


def full_rows(count: int) -> Batch:
    rows = transitions(np.arange(count), done=np.arange(count) == 1)
    rows.terminated[1] = True
    return rows


@every_buffer
def test_a_whole_batch_is_copied_into_the_buffer(name):
    buffer = BUFFERS[name]()
    rows = rows_for(name, np.arange(8.0))
    before = pickle.dumps(rows)
    buffer.set_batch(rows)
    assert len(buffer) == 8
    buffer.add(rows_for(name, [50, 60]), buffer_ids=ids_for(name))
    buffer.sample(8)
    buffer.rew[:] = 0.0
    assert_untouched(rows, before)
    rows.act[:] = 99
    assert 99 not in buffer.act


@pytest.mark.parametrize("wrong", [0, 3, 9])
def test_a_batch_of_another_length_is_refused_and_changes_nothing(wrong):
    buffer = holding("ring")
    before = contents(buffer)
    with pytest.raises(errors.SizeError):
        buffer.set_batch(full_rows(wrong) if wrong else transitions([]))
    assert_same(contents(buffer), before)


def test_a_buffer_of_given_arrays_shares_no_memory_with_them():
    rows = full_rows(5)
    before = pickle.dumps(rows)
    given = {name: rows[name] for name in ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next")}
    buffer = ReplayBuffer.from_data(**given)
    assert (len(buffer), buffer.maxsize) == (5, 5)
    assert buffer[:].act.tolist() == list(range(5))
    buffer.add(transition(50))
    assert_untouched(rows, before)
    assert not any(np.shares_memory(value, getattr(buffer, name)) for name, value in given.items())
    with pytest.raises(errors.SizeError):
        ReplayBuffer.from_data(**{**given, "rew": np.zeros(4)})


def test_values_are_copied_when_a_field_is_set():
    buffer = holding("ring", 4)
    values = np.arange(8.0)
    buffer.set_array_at_key(values, "extra")
    buffer.set_array_at_key(values[:2], "rew", index=[1, 2])
    buffer.extra[:] = -1
    buffer.rew[:] = -1
    assert values.tolist() == list(range(8))
    values[:] = 99
    assert buffer.extra.tolist() == buffer.rew.tolist() == [-1] * 8


def test_a_field_is_set_in_some_slots_with_a_default_for_others():
    buffer = holding("ring", 2)
    buffer.set_array_at_key(np.array([5, 6]), "extra", index=[0, 2], default_value=-1)
    assert buffer.extra.tolist() == [5, -1, 6, -1, -1, -1, -1, -1]
    assert buffer[[2, 1]].extra.tolist() == [6, -1]
    with pytest.raises(errors.RowAssignmentError):
        buffer.set_array_at_key(np.array([0.5]), "act", index=[0])
    with pytest.raises(errors.StructureError, match="extra"):
        buffer.set_array_at_key(np.arange(3), "extra")
    assert buffer.extra.tolist() == [5, -1, 6, -1, -1, -1, -1, -1]


def test_no_field_can_be_set_before_there_are_columns_and_vector_rewards_are_summed():
    buffer = ReplayBuffer(3)
    with pytest.raises(errors.EmptyBufferError):
        buffer.set_array_at_key(np.arange(3), "extra")
    buffer.add(transition(0, rew=np.array([1.0, 2.0])))
    added = buffer.add(transition(1, terminated=True, rew=np.array([1.0, 2.0])))
    assert added.ep_return.tolist() == [[2.0, 4.0]]


def test_values_that_are_looked_up_in_a_tree_are_left_alone():
    for size in (3, 5000):
        tree = SegmentTree(size)
        tree[np.arange(size)] = np.ones(size)
        index, value, looked_up = np.array([1, 2]), np.array([3.0, 4.0]), np.array([0.5, 2.5, 3.5])
        tree[index] = value
        tree.get_prefix_sum_idx(looked_up)
        assert (index.tolist(), value.tolist(), looked_up.tolist()) == ([1, 2], [3.0, 4.0], [0.5, 2.5, 3.5])


def test_priorities_are_copied():
    buffer = holding("prioritized")
    slots, priorities = np.array([0, 1]), np.array([-2.0, 3.0])
    for given in (priorities, torch.from_numpy(priorities)):
        buffer.update_weight(slots, given)
        assert priorities.tolist() == [-2.0, 3.0]
        assert slots.tolist() == [0, 1]


def test_columns_cannot_be_assigned_to():
    buffer = holding("ring")
    for name in ("obs", "act", "rew", "done", "info"):
        with pytest.raises(errors.FieldNameError, match=name):
            setattr(buffer, name, np.zeros(8))
    assert buffer[0].act == 0


# ---- rings -----------------------------------------------------------------------------------------------------------


@every_buffer
@pytest.mark.parametrize("ids", [[0, -1], [0, 9], [0, 0.5], [[0, 1]], ["a", "b"], 0], ids=repr)
def test_rings_that_do_not_exist_are_refused(name, ids):
    buffer = holding(name)
    before = contents(buffer)
    with pytest.raises(errors.StructureError, match=r"ring|buffer_ids"):
        buffer.add(rows_for(name, [1, 2]), buffer_ids=ids)
    assert_same(contents(buffer), before)


@every_buffer
def test_rows_and_rings_must_be_as_many(name):
    buffer = holding(name)
    before = contents(buffer)
    with pytest.raises(errors.TypedBatchError):
        buffer.add(rows_for(name, [1, 2]), buffer_ids=ids_for(name)[:1])
    assert_same(contents(buffer), before)


def test_the_caches_do_not_reach_into_the_main_buffer():
    buffer = BUFFERS["cached"]()
    for ids in ([-1, 0], [0, 2], [1, 1]):
        with pytest.raises(errors.StructureError):
            buffer.add(transitions([1, 2]), buffer_ids=ids)
    assert len(buffer) == 0


@pytest.mark.parametrize("name", ["ring", "vector", "prioritized vector", "hindsight"])
def test_several_rows_go_into_one_ring_one_after_the_other(name):
    buffer, twin = BUFFERS[name](), BUFFERS[name]()
    ids = [0, 0, 0] if ids_for(name) == [0, 0] else [1, 0, 1]
    ends = np.array([True, False, True])
    added = buffer.add(rows_for(name, [1, 2, 3], terminated=ends), buffer_ids=ids)
    one_by_one = [twin.add(rows_for(name, [i + 1], terminated=ends[i]), buffer_ids=[ids[i]]) for i in range(3)]
    for column, parts in zip(added, zip(*one_by_one, strict=True), strict=True):
        assert column.tolist() == np.concatenate(parts).tolist()
    assert_same(buffer[:], twin[:])


def test_rows_are_moved_between_buffers_ring_by_ring():
    source, target = VectorReplayBuffer(6, 2), VectorReplayBuffer(10, 2)
    kept = filled(source, 12, seed=0)
    filled(target, 3, seed=1)
    slots = target.update(source)
    for ring, steps in enumerate(kept):
        assert target.buffers[ring][:].rew[-len(steps) :].tolist() == [step.rew for step in steps]
    assert target[slots].rew.tolist() == source[:].rew.tolist()
    with pytest.raises(errors.StructureError):
        VectorReplayBuffer(6, 3).update(source)


def test_after_a_move_the_episode_that_goes_on_begins_where_its_rows_do():
    source, target = ReplayBuffer(8), ReplayBuffer(8)
    for i, terminated in enumerate([False, True, False]):
        source.add(transition(i, terminated))
    target.update(source)
    added = target.add(transition(3))
    assert added.ep_start.tolist() == source.add(transition(3)).ep_start.tolist() == [2]
    assert target[target.get_buffer_indices(added.ep_start.item(), added.slots.item() + 1)].act.tolist() == [2, 3]


def test_in_a_batch_that_was_set_the_episode_that_goes_on_begins_where_its_rows_do():
    buffer = ReplayBuffer(4)
    buffer.set_batch(transitions(range(4), terminated=np.array([False, True, False, False])))
    assert buffer.add(transition(4)).ep_start.tolist() == [2]


def test_rows_added_to_a_ring_are_rows_of_the_whole():
    buffer = holding("vector", 1)
    part = buffer.buffers[1]
    assert part.add(transition(7)).slots.tolist() == [1]
    assert buffer[:].act.tolist() == [0, 5, 7]
    assert part[:].act.tolist() == [5, 7]
    assert buffer.add(transitions([8, 9])).slots.tolist() == [1, 6]


def test_rings_that_were_taken_before_the_first_row_have_it():
    buffer = VectorReplayBuffer(8, 2)
    part = buffer.buffers[1]
    buffer.add(transitions([1, 2]))
    assert len(part) == 1
    assert part[:].act.tolist() == [2]


def test_a_field_set_in_a_ring_is_not_lost():
    buffer = holding("vector", 4)
    part = buffer.buffers[1]
    try:
        part.set_array_at_key(np.arange(4), "extra")
    except errors.StructureError:  # as add() has it for new fields
        assert "extra" not in part[:]
    else:
        assert buffer.extra[4:].tolist() == [0, 1, 2, 3]


def test_rows_added_to_a_ring_are_sampled_by_priority():
    buffer = holding("prioritized vector", 1)
    slot = 4 + buffer.buffers[1].add(transition(7)).slots.item()
    assert slot in buffer.sample_indices(500)
    assert buffer[[0, slot]].weight.tolist() == [1.0, 1.0]


# ---- frames ----------------------------------------------------------------------------------------------------------


def test_only_observations_come_in_frames():
    buffer = ReplayBuffer(5, stack_num=3)
    for i in range(4):
        buffer.add(transition(i, policy={"h": i}, extra=i))
    batch = buffer[[3]]
    assert batch.obs[..., 0].tolist() == [[1, 2, 3]]
    assert batch.obs_next[..., 0].tolist() == [[2, 3, 4]]
    assert batch.info.t.tolist() == batch.policy.h.tolist() == batch.extra.tolist() == batch.act.tolist() == [3]


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


# ---- priorities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRIORITIZED)
def test_priorities_do_not_outlive_a_reset(name):
    buffer = holding(name, 4)
    buffer.update_weight(np.arange(8), np.linspace(1, 50, 8))
    buffer.reset()
    assert buffer.weight.reduce() == 0.0
    slots = buffer.add(rows_for(name, [1, 2]), buffer_ids=ids_for(name)).slots
    assert set(buffer.sample_indices(200).tolist()) == set(slots.tolist())
    assert np.ptp(buffer.weight[slots]) == 0.0
    buffer.update_weight(slots[:1], [0.0])
    assert np.bincount(buffer.sample_indices(200), minlength=8)[slots[1]] > 195


@pytest.mark.parametrize("name", PRIORITIZED)
def test_after_a_reset_weights_are_those_of_a_new_buffer(name):
    buffer, new = holding(name, 4, weight_norm=False), BUFFERS[name](weight_norm=False)
    buffer.update_weight(np.arange(8), np.linspace(0.01, 50, 8))
    buffer.reset()
    for one in (buffer, new):
        slots = one.add(rows_for(name, [1, 2]), buffer_ids=ids_for(name)).slots
    assert buffer.weight[slots].tolist() == new.weight[slots].tolist()
    assert buffer[slots].weight.tolist() == new[slots].weight.tolist() == [1.0, 1.0]


def test_weights_are_relative_to_the_least_likely_row_whatever_alpha_is():
    buffer = PrioritizedReplayBuffer(3, alpha=0.5, beta=1.0, weight_norm=False)
    for i in range(3):
        buffer.add(transition(i))
    buffer.update_weight([0, 1, 2], [0.25, 1.0, 4.0])
    np.testing.assert_allclose(buffer[[0, 1, 2]].weight, [1.0, 0.5, 0.25], rtol=1e-5)  # (p / 0.25) ** -0.5
    np.testing.assert_allclose(buffer.get_weight([0, 1, 2]), [1.0, 0.5, 0.25], rtol=1e-5)


def test_no_rows_have_no_weights():
    buffer = PrioritizedVectorReplayBuffer(4, 2, alpha=0.5, beta=0.5)
    buffer.add(transitions([1, 2]))
    assert buffer[[]].weight.shape == (0,)
    assert buffer.sample(-1)[0].weight.shape == (0,)


# ---- goals -----------------------------------------------------------------------------------------------------------


def test_rewards_are_computed_for_the_new_goal_without_obs_next_too():
    buffer = HERReplayBuffer(4, distance, 4, future_k=float("inf"), ignore_obs_next=True)
    for i in range(4):
        fields = transitions([i], terminated=i == 3, obs=goals([i], 99), rew=np.array([-99.0]))
        buffer.add(fields, buffer_ids=[0])
    batch, _ = buffer.sample(0)
    assert batch.obs.desired_goal.ravel().tolist() == [3.0] * 4  # the last one has no row behind it
    assert batch.rew.tolist() == [-2.0, -1.0, 0.0, 0.0]


# ---- copies ----------------------------------------------------------------------------------------------------------


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


def test_a_main_buffer_must_be_plain_and_empty():
    with pytest.raises(errors.LeafError):
        CachedReplayBuffer(VectorReplayBuffer(4, 2), 2, 2)
    with pytest.raises(errors.LeafError):
        CachedReplayBuffer(PrioritizedReplayBuffer(4, 1.0, 1.0), 2, 2)
    with pytest.raises(errors.StructureError):
        CachedReplayBuffer(holding("ring"), 2, 2)


def test_sizes_that_no_buffer_has_are_refused():
    for size in (-1, 0.5):
        with pytest.raises(errors.SizeError, match="size is"):
            ReplayBuffer(size)
    for rings in (0, -1):
        with pytest.raises(errors.SizeError, match="buffer_num"):
            VectorReplayBuffer(4, rings)
    with pytest.raises(errors.SizeError, match="stack_num"):
        ReplayBuffer(4, stack_num=0)
    for caches, rows in ((0, 1), (1, 0)):
        with pytest.raises(errors.SizeError, match="is 1 or more, got 0"):
            CachedReplayBuffer(ReplayBuffer(4), caches, rows)


def test_histories_are_told_apart():
    # the helper that fills buffers for other tests is right about what is in them
    buffer = VectorReplayBuffer(10, 2)
    kept = filled(buffer, 20, seed=4, batch_of=plain_rows)
    assert [step.rew for ring in kept for step in ring] == buffer[:].rew.tolist()
    assert [step.slot for ring in kept for step in ring] == buffer.sample_indices(0).tolist()
