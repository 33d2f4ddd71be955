"""What code that was written for Tianshou's buffers reaches for: columns by their private name, flags of shape (1,)."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from typedbatch import Batch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
    compute_nstep_return,
)


def row(number: int, rew: Any = 1.0, **more: Any) -> Batch:
    flags = {"terminated": False, "truncated": False}
    return Batch(
        {"obs": np.full(3, number, float), "act": number, "rew": rew, "obs_next": np.zeros(3), **flags, **more}
    )


def filled(buffer: Any, count: int = 4, rew: Any = 1.0) -> Any:
    for number in range(count):
        buffer.add(row(number, rew))
    return buffer


# ---- columns --------------------------------------------------------------------------------------------------------


def test_the_columns_are_a_batch_of_what_is_stored_and_live():
    buffer = filled(ReplayBuffer(4))
    assert isinstance(buffer.columns, Batch)
    assert buffer.columns.act is buffer.act
    assert buffer._meta == buffer.columns
    assert list(buffer._meta.get_keys()) == ["obs", "act", "rew", "terminated", "truncated", "done", "obs_next"]
    assert (buffer._size, buffer._indices.tolist()) == (4, [0, 1, 2, 3])
    buffer.columns.act[0] = 9
    buffer.add(row(7))
    assert buffer.act.tolist() == buffer._meta.act.tolist() == [7, 1, 2, 3]
    assert pickle.loads(pickle.dumps(buffer.columns)) == copy.deepcopy(buffer.columns) == buffer.columns


def test_a_column_is_put_aside_and_back_as_for_several_agents():
    buffer = filled(ReplayBuffer(4), rew=np.array([1.0, 10.0]))
    batch, slots = buffer.sample(0)
    kept, buffer._meta.rew = buffer.rew, Batch()
    for agent, expected in enumerate([3.0, 30.0]):
        buffer._meta.rew = kept[:, agent]
        batch.rew = kept[:, agent]
        returns = compute_nstep_return(batch, buffer, slots, lambda _, at: np.zeros(len(at)), 1.0, 3).returns
        assert returns[0] == expected
    buffer._meta.rew = kept
    buffer.add(row(5, np.array([2.0, 20.0])))
    assert buffer[:].rew[-1].tolist() == [2, 20]


def test_a_column_is_added_as_for_calibrated_returns(tmp_path):
    for buffer in (filled(ReplayBuffer(4)), filled(ReplayBuffer(4, path=tmp_path / "b"))):
        buffer._meta = Batch(**buffer._meta.__dict__, calibration_returns=np.arange(4.0))
        assert buffer.sample(0)[0].calibration_returns.tolist() == [0, 1, 2, 3]
    buffer.close()
    assert ReplayBuffer.open(tmp_path / "b", "r")[:].calibration_returns.tolist() == [0, 1, 2, 3]


def test_a_replaced_column_takes_the_rows_that_are_added_then():
    buffer = filled(VectorReplayBuffer(4, 2), 0)
    for number in range(2):
        buffer.add(Batch.stack([row(number), row(10 + number)]))
    first = buffer.buffers[0]
    buffer.columns.act = np.array([5, 6, 7, 8])
    assert first.act.tolist() == [5, 6]
    buffer.add(Batch.stack([row(3), row(4)]))
    assert buffer.act.tolist() == [3, 6, 4, 8]
    assert first.act.tolist() == [3, 6]


REFUSED: dict[str, Any] = {
    "rows": lambda buffer: setattr(buffer.columns, "act", np.zeros(3)),
    "no rows": lambda buffer: setattr(buffer.columns, "act", 5),
    "unknown": lambda buffer: setattr(buffer.columns, "actt", np.zeros(4)),
    "by slots": lambda buffer: buffer.columns.__setitem__(0, row(1)),
    "no batch": lambda buffer: setattr(buffer, "_meta", {"act": np.zeros(4)}),
    "too few": lambda buffer: setattr(buffer, "_meta", Batch(act=np.zeros(4))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_columns_that_cannot_be_are_refused_and_nothing_changes(what):
    buffer = filled(ReplayBuffer(4))
    before = buffer[:]
    with pytest.raises((errors.StructureError, errors.LeafError)):
        REFUSED[what](buffer)
    assert buffer[:] == before


def test_columns_on_disk_and_those_of_a_ring_stay_where_they_are(tmp_path):
    buffer = filled(ReplayBuffer(4, path=tmp_path))
    with pytest.raises(errors.StorageError, match=r"set_array_at_key\(\) writes into them"):
        buffer.columns.act = np.zeros(4)
    ring = VectorReplayBuffer(4, 2)
    ring.add(Batch.stack([row(0), row(1)]))
    with pytest.raises(errors.StructureError, match="replacing column 'act' is not possible in a ring of a"):
        ring.buffers[0].columns.act = np.zeros(2)


# ---- flags ----------------------------------------------------------------------------------------------------------

FLAGS: dict[str, Any] = {
    "list": [False],
    "array": np.array([True]),
    "two dimensions": np.array([[True]]),
    "tensor": torch.tensor([True]),
    "numbers": [1.0],
}


@pytest.mark.parametrize("ids", [None, [0]])
@pytest.mark.parametrize("flags", FLAGS)
def test_one_row_takes_flags_that_have_a_dimension_of_one(flags, ids):
    for buffer in (ReplayBuffer(4), PrioritizedReplayBuffer(4, 0.5, 0.5)):
        added = buffer.add(row(3, terminated=FLAGS[flags], truncated=[False]), buffer_ids=ids)
        assert added.slots.tolist() == [0]
        assert buffer[0].obs.tolist() == [3, 3, 3]
        assert (buffer.done.shape, bool(buffer.done[0])) == ((4,), flags != "list")


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_rows_of_one_environment_take_flags_of_one_column(shape):
    flags = {"terminated": np.ones(shape, bool), "truncated": np.zeros(shape, bool)}
    for buffer in (VectorReplayBuffer(8, 4), CachedReplayBuffer(ReplayBuffer(4), 4, 3)):
        buffer.add(Batch.stack([row(3)]).update(flags) or Batch(Batch.stack([row(3)]), **flags), buffer_ids=[2])
        buffer.add(row(4, **flags), buffer_ids=[1])
        assert sorted(buffer[:].act.tolist()) == [3, 4]
        assert buffer[:].done.tolist() == [True, True]
    both = Batch.stack([row(0), row(1)])
    both.terminated = np.array([[True], [False]])
    vector = VectorReplayBuffer(4, 2)
    vector.add(both)
    assert vector.done.tolist() == [True, False, False, False]


def test_what_could_be_one_row_or_several_is_refused():
    stacked = Batch.stack([row(3)])
    with pytest.raises(errors.RowAssignmentError, match=r"pass buffer_ids=\[0\] \* 1 to add 1 rows"):
        ReplayBuffer(4).add(stacked)
    with pytest.raises(errors.RowAssignmentError, match="one flag, without dimensions"):
        ReplayBuffer(4).add(row(3, terminated=[True, False]))
    with pytest.raises(errors.RowAssignmentError, match="a flag for each of 2 rows"):
        VectorReplayBuffer(4, 2).add(Batch(Batch.stack([row(0), row(1)]), terminated=np.zeros((2, 2), bool)))
