"""Several rows added at once, as blocks, into arrays, and dropped again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.buffers.helpers import (
    BUFFERS,
    distance,
    goal_transitions,
    ids_for,
    is_hindsight,
    rows_for,
    transition,
    transitions,
)
from typedbatch import Batch, BatchRecord, PrioBatchProtocol, RolloutBatch, RolloutBatchProtocol, errors
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


class Scored(RolloutBatch[Tensor]):
    score: Tensor


class Frames(BatchRecord):
    obs: Tensor
    rew: Tensor


def filled(name: str, **options: Any) -> Any:
    buffer = BUFFERS[name](**options)
    for number in range(4):
        buffer.add(rows_for(name, [number, number + 0.5]), buffer_ids=ids_for(name))
    return buffer


@pytest.mark.parametrize("name", BUFFERS)
def test_a_sample_is_converted(name):
    one, two = filled(name, random_seed=3), filled(name, random_seed=3)
    batch, slots = one.sample(5, into=RolloutBatch[Tensor, Any], dtype=torch.float32)
    plain, same = two.sample(5)
    assert type(batch) is RolloutBatch
    assert slots.tolist() == same.tolist()
    assert batch.rew.dtype == torch.float32
    assert batch.act.dtype == torch.int64
    assert batch.terminated.dtype == torch.bool
    np.testing.assert_array_equal(batch.rew.numpy(), plain.rew.astype(np.float32))


def test_nothing_else_is_changed():
    buffer = filled("ring")
    before = buffer[:]
    batch, _ = buffer.sample(0, into=RolloutBatch[Tensor])
    assert batch.rew.dtype == torch.float64
    batch.obs.add_(1)
    assert buffer[:] == before


def test_tensors_become_arrays():
    buffer = ReplayBuffer[RolloutBatch[Tensor]](5)
    buffer.extend(filled("ring")[:5].to_torch())
    assert isinstance(buffer.sample(3, into=RolloutBatch)[0].obs, np.ndarray)


def test_weights_are_converted_too():
    batch, _ = filled("prioritized").sample(3, into=PrioBatchProtocol[Tensor], dtype=torch.float32)
    assert batch.weight.dtype == torch.float32


def test_devices():
    batch, _ = filled("ring").sample(3, into=RolloutBatchProtocol[Tensor], device="cpu")
    assert batch.rew.device.type == "cpu"
    with pytest.raises(errors.SettingError):
        filled("ring").sample(3, into=RolloutBatch[Tensor], device="nowhere")


def test_what_does_not_match_is_refused():
    with pytest.raises(errors.SchemaError, match="score"):
        filled("ring").sample(3, into=Scored)
    with pytest.raises(errors.DeclarationError):
        filled("ring").sample(3, into=int)
    with pytest.raises(errors.EmptyBufferError):
        ReplayBuffer(3).sample(3, into=RolloutBatch[Tensor])


@pytest.mark.parametrize("more", [{"dtype": torch.float32}, {"device": "cpu"}])
def test_a_dtype_or_device_alone_says_nothing(more):
    with pytest.raises(errors.SettingError, match=r"device= and dtype= need into=.*into=RolloutBatch\[Tensor\]"):
        filled("ring").sample(3, **more)


def test_frames():
    buffer = filled("ring", stack_num=3)
    batch, _ = buffer.sample(4, into=Frames, dtype=torch.bfloat16)
    assert (type(batch), batch.obs.shape, batch.obs.dtype) == (Frames, (4, 3, 2), torch.bfloat16)


def test_arrays_have_no_dtype_of_torch():
    with pytest.raises(errors.SettingError, match="dtype= is for tensors"):
        filled("ring").sample(3, into=RolloutBatch, dtype=torch.float32)


def test_a_typed_prioritized_buffer():
    buffer = PrioritizedReplayBuffer[RolloutBatch](5, 0.5, 0.5)
    buffer.extend(filled("ring")[:4])
    batch, slots = buffer.sample(2, into=RolloutBatch[Tensor])
    assert "done" not in batch
    buffer.update_weight(slots, torch.ones(2))


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
