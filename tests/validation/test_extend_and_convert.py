"""New batches of another type."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical

from tests.validation.helpers import Cam, TensorCam, record
from typedbatch import (
    ActBatch,
    ActStateBatch,
    Batch,
    DistBatch,
    RolloutBatch,
    SchemaError,
    convert,
    extend,
    validate,
)
from typedbatch.errors import SettingError


def test_extend_converts_dicts_and_lists_and_leaves_a_view_and_its_batch_alone():
    batch = Batch(act=np.zeros(2), done=np.zeros(2))
    view = validate(batch, ActBatch)
    assert isinstance(extend(view, ActStateBatch, state=[[1, 2], [3, 4]]).state, np.ndarray)
    assert isinstance(extend(view, ActStateBatch, state={"h": [1, 2]}).state, Batch)
    result = extend(view, ActStateBatch, state=[{"h": 1}, {"h": 2}])
    assert type(result) is ActStateBatch
    assert list(result.keys()) == ["act", "done", "state"]
    assert "state" not in batch
    with pytest.raises(SchemaError, match="a scalar i64"):
        extend(view, ActStateBatch, state=3)


def test_extend_replaces_a_field_and_nested_batches_are_not_shared():
    batch = Batch(act=np.zeros(2), state=Batch(h=np.zeros(2)))
    result = extend(batch, ActStateBatch, act=np.ones(2))
    assert batch["act"].sum() == 0
    result.state["c"] = np.zeros(2)  # type: ignore[index, call-overload]
    assert "c" not in batch["state"]


def test_convert_keeps_nested_records_and_turns_each_by_its_own_declaration():
    schema = record(obs=TensorCam, raw=Cam, act=Tensor)
    batch = Batch(obs=Cam(cam=np.zeros(2)), raw=TensorCam(cam=torch.zeros(2)), act=np.zeros(2), extra=np.zeros(2))
    result = convert(batch, schema)
    assert [type(leaf) for leaf in (result.obs.cam, result.raw.cam, result.act)] == [Tensor, np.ndarray, Tensor]
    assert isinstance(result["extra"], Tensor)
    assert isinstance(batch["act"], np.ndarray)


def test_convert_leaves_none_and_distributions():
    batch = Batch(act=np.zeros(2), state=None, logits=np.zeros((2, 3)), dist=Categorical(torch.ones(2, 3)))
    result = convert(batch, DistBatch[Tensor])
    assert isinstance(result.logits, Tensor)
    assert convert(result, DistBatch).dist is batch["dist"]


def rollout(rows: int = 3) -> RolloutBatch:
    return RolloutBatch(
        obs=np.zeros((rows, 2), np.float32),
        obs_next=np.zeros((rows, 2), np.float32),
        act=np.arange(rows),
        rew=np.ones(rows),
        terminated=np.zeros(rows, bool),
        truncated=np.zeros(rows, bool),
        info=Batch(score=np.ones(rows)),
    )


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
def test_convert_casts_floating_fields_and_no_others(device):
    given = rollout()
    tensors = convert(given, RolloutBatch[Tensor], dtype=torch.float32, device=device)
    assert type(tensors) is RolloutBatch
    assert (tensors.rew.dtype, tensors.info.score.dtype) == (torch.float32, torch.float32)
    assert (tensors.act.dtype, tensors.terminated.dtype) == (torch.int64, torch.bool)
    assert np.shares_memory(tensors.obs.numpy(), given.obs)
    assert given.rew.dtype == np.float64
    assert convert(tensors, RolloutBatch[Tensor], dtype=torch.float64).rew.dtype == torch.float64


@pytest.mark.parametrize(
    ("into", "dtype", "words"),
    [
        (RolloutBatch[Tensor], torch.int64, r"dtype= must be a floating one, as torch\.bfloat16, got torch\.int64"),
        (RolloutBatch[Tensor], "f4", r"dtype= must be a dtype of torch, as torch\.float32, got 'f4'"),
        (
            RolloutBatch,
            torch.float32,
            r"dtype= is for tensors, and RolloutBatch declares none; declare tensors",
        ),
    ],
)
def test_convert_refuses_a_dtype_that_no_field_can_take(into, dtype, words):
    with pytest.raises(SettingError, match=words):
        convert(rollout(), into, dtype=dtype)
