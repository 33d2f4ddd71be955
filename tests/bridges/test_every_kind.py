"""Every kind of leaf, and batches of every depth, through every bridge."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tianshou.data as ts
import torch
import torch.distributed as dist
from minari.dataset.episode_data import EpisodeData
from pydantic import BaseModel, TypeAdapter, ValidationError
from tensordict import TensorDict, tensorclass
from torch.distributions import Categorical, Normal
from torch.utils.data import DataLoader

from typedbatch import Batch, BatchProtocol, Ragged, objects
from typedbatch.bridges.arrow import from_arrow, read_parquet, to_arrow, write_parquet
from typedbatch.bridges.dlpack import from_dlpack, to_dlpack
from typedbatch.bridges.gymnasium import observations, transitions
from typedbatch.bridges.minari import from_minari, to_minari
from typedbatch.bridges.pydantic import to_batch
from typedbatch.bridges.tensordict import from_tensordict, to_tensorclass, to_tensordict
from typedbatch.bridges.tianshou import from_tianshou, to_tianshou
from typedbatch.bridges.torch_data import BatchDataset, collate
from typedbatch.bridges.torch_distributed import all_gather, broadcast
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer
from typedbatch.errors import StructureError, TypedBatchError
from typedbatch.files import load, save

KINDS: dict[str, Callable[[], Any]] = {
    "array": lambda: np.arange(6.0).reshape(3, 2),
    "flags": lambda: np.array([True, False, True]),
    "dates": lambda: np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "M8[D]"),
    "complex": lambda: np.arange(3) * 1j,
    "masked": lambda: np.ma.array([1, 2, 3], mask=[True, False, False]),
    "text": lambda: objects(["a", "b", "c"]),
    "dicts": lambda: objects([{"a": 1}, {"b": [2]}, None]),
    "tensor": lambda: torch.arange(6).reshape(3, 2),
    "bfloat16": lambda: torch.rand(3).to(torch.bfloat16),
    "ragged arrays": lambda: Ragged({"ids": np.arange(5), "logp": np.ones((5, 2))}, [2, 0, 3]),
    "ragged tensors": lambda: Ragged({"ids": torch.arange(5)}, [2, 0, 3]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1), torch.ones(3)], layout=torch.jagged),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "distribution": lambda: Normal(torch.zeros(3), torch.ones(3)),
    "categorical": lambda: Categorical(logits=torch.zeros(3, 4)),
    "nested": lambda: Batch(pos=np.ones((3, 2)), deep={"t": torch.zeros(3)}),
    "none": lambda: None,
    "reserved": Batch,
}


def arrow(batch: Any, place: Path) -> Any:
    return from_arrow(to_arrow(batch), ragged=["field"] if isinstance(batch.field, Ragged) else [])


def parquet(batch: Any, place: Path) -> Any:
    write_parquet(batch, place / "batch.parquet")
    return read_parquet(place / "batch.parquet")


def safetensors(batch: Any, place: Path) -> Any:
    save(batch, place / "batch.safetensors")
    return load(place / "batch.safetensors")


def hdf5(batch: Any, place: Path) -> Any:
    save(batch, place / "batch.h5")
    return load(place / "batch.h5")


def tensordict(batch: Any, place: Path) -> Any:
    return from_tensordict(to_tensordict(batch))


def dlpack(batch: Any, place: Path) -> Any:
    return from_dlpack(to_dlpack(batch))


def gathered(batch: Any, place: Path) -> Any:
    return all_gather(batch)


def sent(batch: Any, place: Path) -> Any:
    return broadcast(batch)


def loaded(batch: Any, place: Path) -> Any:
    (whole,) = DataLoader(BatchDataset(batch), batch_size=3, collate_fn=collate)
    return whole


def pickled(batch: Any, place: Path) -> Any:
    return pickle.loads(pickle.dumps(batch))


def copied(batch: Any, place: Path) -> Any:
    return copy.deepcopy(batch)


def rows_of(buffer: Any, batch: Any) -> Any:
    for row in range(3):
        buffer.add(Batch(batch[row], terminated=row == 2, truncated=False, rew=0.0, obs=0, act=0))
    back = buffer[:]
    return Batch({name: back[name] for name in batch.get_keys()}, meta=batch.meta)


def replay(batch: Any, place: Path) -> Any:
    return rows_of(ReplayBuffer(3), batch)


def prioritized(batch: Any, place: Path) -> Any:
    return rows_of(PrioritizedReplayBuffer(3, alpha=0.6, beta=0.4), batch)


WAYS = [
    arrow, parquet, safetensors, hdf5, tensordict, dlpack, gathered, sent, loaded, pickled, copied, replay, prioritized,
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path_factory.mktemp("store") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def is_same(one: Any, other: Any) -> bool:
    """Compare what a field has, where jagged tensors, distributions and sparse tensors have no equality."""
    if isinstance(one, Normal | Categorical):
        return type(other) is type(one) and bool((one.entropy() == other.entropy()).all())
    if isinstance(one, torch.Tensor) and (one.is_nested or one.is_sparse):
        rows = [[*(value.unbind() if value.is_nested else value.to_dense())] for value in (one, other)]
        return len(rows[0]) == len(rows[1]) and all(map(torch.equal, *rows))
    return Batch(x=one) == Batch(x=other)


DOCUMENTED = {
    ("masked", "arrow"), ("masked", "parquet"),  # nulls, which are None in a column of objects
    ("bfloat16", "arrow"), ("bfloat16", "parquet"),  # float32, as numpy has no such dtype
    ("ragged arrays", "tensordict"), ("ragged tensors", "tensordict"),  # jagged tensors
    ("ragged arrays", "parquet"), ("ragged tensors", "parquet"),  # lists, unless into= declares a Ragged
    ("none", "replay"), ("none", "prioritized"),  # a column of objects, which may have something later
}  # fmt: skip
"""Fields that come back as another kind, as documented."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_comes_back_or_is_refused_by_name(kind, way, tmp_path):
    batch = Batch(index=np.arange(3), field=KINDS[kind]())
    batch.meta["step"] = 3
    refusal = ""
    back: Any = None
    try:
        back = way(batch, tmp_path)
    except TypedBatchError as error:
        refusal = f"{error.path} {error}"
    if back is None:
        assert "field" in refusal
        return
    assert back.index.tolist() == [0, 1, 2]
    if kind in ("none", "reserved") and "field" not in back:
        return  # Most formats have no column for nothing.
    if (kind, way.__name__) not in DOCUMENTED:
        assert is_same(batch.field, back.field), back


ROWS, FLAGS = np.zeros(2), np.array([False, True])


def nested(levels: int, make: Callable[[dict[str, Any]], Any], leaf: Any = ROWS) -> Any:
    """Return a container inside a number of others."""
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
