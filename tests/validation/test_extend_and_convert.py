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
    SchemaError,
    convert,
    extend,
    validate,
)


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
