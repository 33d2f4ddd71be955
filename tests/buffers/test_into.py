"""Samples that are converted to a type in the same call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.buffers.helpers import BUFFERS, ids_for, rows_for
from typedbatch import BatchRecord, PrioBatchProtocol, RolloutBatch, RolloutBatchProtocol, errors
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer


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
