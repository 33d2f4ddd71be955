"""Tensors of a batch go to a device all together, or not at all; floating ones are cast, others never."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal
from torch.utils.data import DataLoader

from tests.ops.helpers import assert_identical
from typedbatch import Batch, ObsBatch
from typedbatch._tree.lengths import leaves
from typedbatch.bridges.torch_data import BatchDataset, collate
from typedbatch.errors import LeafError
from typedbatch.rows import repeat


def tokens(rows: int = 2) -> Batch:
    return Batch(
        ids=torch.full((rows, 3), 151643),
        logp=torch.zeros(rows, 3),
        mask=torch.ones(rows, 3, dtype=torch.bool),
        n={"value": torch.zeros(rows, dtype=torch.float64), "none": None},
        uid=np.array(["a"] * rows, object),
        at=np.zeros(rows, "M8[s]"),
        reserved=Batch(),
    )


def test_every_tensor_is_moved_and_the_batch_stays():
    batch = tokens()
    batch.dist = Normal(torch.zeros(2), torch.ones(2))
    there = batch.to("meta", non_blocking=True)
    assert {leaf.device.type for _, leaf in leaves(there.__dict__) if isinstance(leaf, torch.Tensor)} == {"meta"}
    assert there.dist.loc.device.type == "meta"
    assert there.uid is batch.uid
    assert there.at is batch.at
    assert there.reserved == Batch()
    assert batch.ids.device.type == "cpu"


def test_the_class_stays():
    record = ObsBatch(obs=torch.zeros(2, 3), info=Batch())
    assert type(record.to("cpu")) is ObsBatch
    assert record.to("cpu") is not record
    assert record.to().obs is record.obs


def test_the_dtype_is_for_floating_fields_alone():
    half = tokens().to(dtype=torch.bfloat16)
    assert half.logp.dtype == half.n.value.dtype == torch.bfloat16
    assert half.ids.tolist() == tokens().ids.tolist()
    assert half.mask.dtype == torch.bool


def sent_by_accelerate(batch: Any, device: str) -> Any:
    """Do what ``accelerate.send_to_device`` does with an object that has ``to``."""
    try:
        return batch.to(device, non_blocking=True)
    except TypeError:
        return batch.to(device)


def test_accelerate_moves_everything_or_fails():
    assert sent_by_accelerate(tokens(), "meta").ids.device.type == "meta"
    with pytest.raises(LeafError, match=r"field 'r': to\(\) takes tensors, got f64\[1\]"):
        sent_by_accelerate(Batch(t=torch.zeros(1), r=[0.5]), "meta")


class Pinned(torch.Tensor):
    """Stands for a tensor where there is a GPU."""

    @staticmethod
    def __new__(cls, data: torch.Tensor) -> Pinned:
        return data.as_subclass(cls)

    def pin_memory(self, device: Any = None) -> torch.Tensor:
        return self + 1


def test_what_a_loader_asks_for_pins_every_tensor():
    batch = Batch(t=Pinned(torch.zeros(2)), n={"t": Pinned(torch.ones(2))}, uid=np.array(["a", "b"], object))
    pinned = torch.utils.data._utils.pin_memory.pin_memory(batch)  # noqa: SLF001  # what a loader calls
    assert pinned is not batch
    assert (pinned.t.tolist(), pinned.n.t.tolist()) == ([1, 1], [2, 2])
    assert pinned.uid is batch.uid


@pytest.mark.skipif(torch.cuda.is_available(), reason="what happens without a GPU")
def test_without_a_gpu_nothing_is_pinned_and_nothing_is_silent():
    with pytest.raises(LeafError, match=r"'t': torch f32\[2\] on cpu cannot be pinned"):
        Batch(t=torch.zeros(2)).pin_memory()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_with_a_gpu_every_tensor_is_pinned():
    pinned = tokens().pin_memory()
    assert pinned.ids.is_pinned()
    assert pinned.n.value.is_pinned()
    assert pinned.to("cuda", non_blocking=True).logp.device.type == "cuda"


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_pins_gives_batches(workers):
    loader = DataLoader(
        BatchDataset(repeat(tokens(), 3)), batch_size=4, collate_fn=collate, pin_memory=True, num_workers=workers
    )
    batches = list(loader)
    assert [len(batch) for batch in batches] == [4, 2]
    assert_identical(batches[0], repeat(tokens(), 2))
