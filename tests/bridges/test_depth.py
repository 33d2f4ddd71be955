"""Batches, and what other libraries nest, within a hundred others pass every bridge; deeper ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tianshou.data as ts
import torch
from minari.dataset.episode_data import EpisodeData
from pydantic import BaseModel, TypeAdapter, ValidationError
from tensordict import TensorDict, tensorclass

from typedbatch import Batch, BatchProtocol
from typedbatch.bridges.arrow import from_arrow, to_arrow, write_parquet
from typedbatch.bridges.dlpack import from_dlpack, to_dlpack
from typedbatch.bridges.gymnasium import observations, transitions
from typedbatch.bridges.minari import from_minari, to_minari
from typedbatch.bridges.pydantic import to_batch
from typedbatch.bridges.tensordict import from_tensordict, to_tensorclass, to_tensordict
from typedbatch.bridges.tianshou import from_tianshou, to_tianshou
from typedbatch.bridges.torch_data import BatchDataset
from typedbatch.errors import StructureError

ROWS, FLAGS = np.zeros(2), np.array([False, True])


def nested(levels: int, make: Callable[[dict[str, Any]], Any], leaf: Any = ROWS) -> Any:
    """A container within so many others."""
    made = make({"x": leaf})
    for _ in range(levels):
        made = make({"inner": made, "x": leaf})
    return made


def batch(levels: int) -> Batch:
    return nested(levels, Batch)


class Step(BaseModel, arbitrary_types_allowed=True):
    x: Any
    inner: Any = None


@tensorclass
class Steps:
    x: torch.Tensor
    inner: Any


def struct(levels: int) -> pa.Table:
    column = pa.array([0.0, 1.0])
    for _ in range(levels):
        column = pa.StructArray.from_arrays([column], ["inner"])
    return pa.table({"inner": column})


def episode(levels: int) -> EpisodeData:
    info = nested(levels, dict)
    return EpisodeData(0, np.zeros((3, 1)), np.zeros(2), ROWS, FLAGS, FLAGS, info)


def rollout(levels: int) -> Batch:
    obs = np.zeros((2, 1))
    return Batch(obs=obs, act=ROWS, rew=ROWS, terminated=FLAGS, truncated=FLAGS, obs_next=obs, info=batch(levels - 1))


BRIDGES: dict[str, Callable[[int], Any]] = {
    "to_arrow": lambda levels: to_arrow(batch(levels)),
    "from_arrow": lambda levels: from_arrow(struct(levels)),
    "to_dlpack": lambda levels: to_dlpack(batch(levels)),
    "from_dlpack": lambda levels: from_dlpack(nested(levels, dict)),
    "to_tensordict": lambda levels: to_tensordict(batch(levels)),
    "from_tensordict": lambda levels: from_tensordict(nested(levels, TensorDict, torch.zeros(2))),
    "to_tensorclass": lambda levels: to_tensorclass(batch(levels), Steps),
    "to_tianshou": lambda levels: to_tianshou(batch(levels)),
    "from_tianshou": lambda levels: from_tianshou(nested(levels, ts.Batch)),
    "to_batch": lambda levels: to_batch(nested(levels, lambda values: Step(**values))),
    "observations": lambda levels: observations((nested(levels, dict), {})),
    "observations, info": lambda levels: observations((ROWS, nested(levels, dict))),
    "transitions": lambda levels: transitions(ROWS, ROWS, (nested(levels, dict), ROWS, FLAGS, FLAGS, {})),
    "from_minari": lambda levels: from_minari(episode(levels)),
    "to_minari": lambda levels: to_minari(rollout(levels)),
    "BatchDataset": lambda levels: BatchDataset(batch(levels)),
}


@pytest.mark.parametrize("bridge", BRIDGES)
def test_every_bridge_takes_a_hundred_levels_and_refuses_more(bridge: str):
    assert BRIDGES[bridge](100) is not None
    with pytest.raises(
        StructureError, match=r"^field '.*inner.*': nested more than 100 deep; does a batch hold itself\?"
    ):
        BRIDGES[bridge](101)


@pytest.mark.parametrize(
    "bridge", [to_arrow, to_dlpack, to_tensordict, to_tianshou, to_minari, BatchDataset], ids=lambda one: one.__name__
)
def test_every_bridge_refuses_a_batch_that_holds_itself(bridge: Callable[[Any], Any]):
    loop = batch(1)
    loop["inner"] = loop
    with pytest.raises(StructureError, match="nested more than 100 deep; does a batch hold itself"):
        bridge(loop)


def test_nothing_is_written_of_a_batch_that_is_too_deep(tmp_path: Any):
    with pytest.raises(StructureError):
        write_parquet(batch(101), tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_pydantic_gets_its_own_error():
    adapter = TypeAdapter(BatchProtocol)
    assert adapter.validate_python(nested(100, dict)) is not None
    with pytest.raises(ValidationError, match="nested more than 100 deep"):
        adapter.validate_python(nested(101, dict))


def test_one_batch_in_two_places_passes():
    inner = batch(1)
    assert set(to_arrow(Batch(a=inner, b=inner)).column_names) == {"a", "b"}
    assert to_tianshou(Batch(a=inner, b=inner)).b.inner.x is inner.inner.x
