"""Operations of Batch on all fields, on batches in which ``seq_lens`` and ``count`` are not data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from typedbatch import Batch, MultiAgentBatch, SampleBatch, stack
from typedbatch.errors import StructureError, TypedBatchError


def recurrent() -> SampleBatch:
    return SampleBatch(a=np.arange(1.0, 7.0), state_in_0=np.array([10.0, 20.0, 30.0]), seq_lens=[2, 3, 1])


OPERATIONS = {
    "empty_": lambda b: b.empty_(), "empty": lambda b: type(b).empty(b),
    "to_torch(float32)": lambda b: b.to_torch(torch.float32), "to_at_least_2d": lambda b: b.to_at_least_2d(),
    "times 2": lambda b: b * 2, "exp": np.exp,
}  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_sequences_stay_what_they_are_or_the_operation_is_refused(operation):
    try:
        found = operation(recurrent())
        assert len(found) == 6
    except TypedBatchError:
        return
    assert [len(piece) for piece in found.timeslices(num_slices=2)] == [3, 3]


KEEP_THE_COUNT = {name: operation for name, operation in OPERATIONS.items() if name not in ("times 2", "exp")}


@pytest.mark.parametrize("operation", KEEP_THE_COUNT.values(), ids=KEEP_THE_COUNT)
def test_the_count_of_env_steps_stays_or_the_operation_is_refused(operation):
    try:
        found = operation(MultiAgentBatch({"p": SampleBatch(a=np.arange(3.0))}, 2))
        assert (found.env_steps(), len(found), found.agent_steps()) == (2, 2, 3)
    except TypedBatchError:
        return


def test_writing_a_row_cannot_make_a_batch_of_other_sequences():
    batch = SampleBatch(a=[1, 2, 3, 4], state_in_0=[10, 20], seq_lens=[2, 2])
    with pytest.raises(StructureError, match="set a column instead"):
        batch[0] = {"a": 9}
    assert len(batch) == 4
    assert batch.state_in_0.tolist() == [10, 20]


def test_stacked_multi_agent_batches_fail_with_an_error_of_this_library():
    batch = MultiAgentBatch({"p": SampleBatch(a=[1])}, 1)
    with pytest.raises(TypedBatchError):
        stack([batch, batch]).env_steps()


def test_one_step_has_no_length_as_a_row_of_a_batch_has_none():
    with pytest.raises(TypeError):
        len(Batch(a=[1, 2])[0])
    with pytest.raises(TypeError):
        len(recurrent()[0])


def test_conversion_there_and_back_keeps_sequences():
    batch = recurrent()
    back = batch.to_torch().to_numpy()
    assert back == batch
    assert (type(back), len(batch.to_torch())) == (SampleBatch, 6)


def test_equality_sees_other_sequences():
    other = recurrent()
    other.seq_lens = [3, 2, 1]
    assert recurrent() == recurrent()
    assert recurrent() != other
    assert not recurrent().allclose(other)
