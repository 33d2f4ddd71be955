"""Arrays become tensors and back, tensors go to a device, and functions are applied to every leaf."""

from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Normal
from torch.utils.data import DataLoader

from tests.ops.helpers import assert_array, assert_identical, rollout
from typedbatch import Batch, BatchRecord, Column, ObsBatch, Ragged, convert, objects
from typedbatch._core.lengths import leaves
from typedbatch.bridges.torch_data import BatchDataset, collate
from typedbatch.conversion import to_numpy, to_torch
from typedbatch.errors import LeafError
from typedbatch.rows import repeat


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("in_place", [False, True], ids=["new", "in place"])
def test_to_torch_honours_the_dtype_for_every_floating_leaf(dtype, in_place):
    batch = Batch(a=np.zeros(2), n={"f": np.zeros(2, np.float32)}, t=torch.zeros(2), s=1.5)
    batch = (batch.to_torch_(dtype=dtype), batch)[1] if in_place else batch.to_torch(dtype=dtype)
    assert {batch.a.dtype, batch.n.f.dtype, batch.t.dtype, batch.s.dtype} == {dtype}


@pytest.mark.parametrize("in_place", [False, True], ids=["new", "in place"])
def test_to_torch_rounds_no_token_id(in_place):
    batch = Batch(ids=[151643], t=torch.tensor([151643]), small=np.array([7], np.int32), c=np.array([1j]))
    batch = (batch.to_torch_(torch.bfloat16), batch)[1] if in_place else batch.to_torch(torch.bfloat16)
    assert batch.ids.tolist() == batch.t.tolist() == [151643]
    assert [batch[name].dtype for name in ("ids", "t", "small", "c")] == [
        torch.int64, torch.int64, torch.int32, torch.complex128,
    ]  # fmt: skip


@pytest.mark.parametrize("leaf", ["text", None, np.array(["x", None], dtype=object), {1, 2}], ids=str)
def test_to_torch_takes_leaves_that_are_no_numbers(leaf):
    assert Batch(n={"o": leaf}).to_torch().n.o is leaf


def test_to_torch_leaves_what_is_no_number():
    dist = Normal(torch.zeros(2), torch.ones(2))
    batch = Batch(s="text", n=None, o=["x", None], d=dist, r=Batch(), a=[1.0, 2.0])
    converted = batch.to_torch()
    assert (converted.s, converted.n) == ("text", None)
    assert type(converted.o) is np.ndarray
    assert type(converted.d) is Normal
    assert converted.r == Batch()
    assert converted.a.dtype == torch.float64


def test_to_numpy_leaves_what_is_no_tensor():
    batch = Batch(s="text", n=None, o=["x", None], t=torch.tensor([1.0]), r=Batch())
    converted = batch.to_numpy()
    assert (converted.s, converted.n) == ("text", None)
    assert converted.o is batch.o
    assert_array(converted.t, [1.0], "float32")
    assert type(batch.t) is torch.Tensor


def test_tensors_inside_a_graph_convert():
    tensor = torch.ones(2, requires_grad=True) * 3
    batch = Batch(t=tensor)
    assert_array(batch.to_numpy().t, [3.0, 3.0])
    assert batch.to_torch().t.requires_grad


def test_to_at_least_2d_goes_all_the_way_down():
    batch = Batch(a=1, b=[1, 2], t=torch.zeros(3), n={"m": np.zeros((2, 3, 4)), "d": Categorical(torch.ones(3))})
    result = batch.to_at_least_2d()
    assert_array(result.a, [[1]])
    assert_array(result.b, [[1, 2]])
    assert type(result.t) is torch.Tensor
    assert result.t.shape == (1, 3)
    assert result.n.m.shape == (2, 3, 4)
    assert result.n.d.batch_shape == (1,)
    assert batch.b.shape == (2,)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_tensors_without_elements_are_written_like_any_other(shape):
    empty = torch.zeros(1).expand(*shape) if len(shape) == 1 else torch.zeros(1, 0).expand(3, 0).reshape(shape)
    batch = Batch(t=empty, x=torch.zeros(1, 0).expand(3, 0))
    batch += 1
    batch[:0] = {"t": torch.zeros(0, *shape[1:]), "x": torch.zeros(0, 0)}
    assert tuple(batch.t.shape) == shape


def tokens(rows: int = 2) -> Batch:
    return Batch(
        ids=torch.full((rows, 3), 151643), logp=torch.zeros(rows, 3), mask=torch.ones(rows, 3, dtype=torch.bool),
        n={"value": torch.zeros(rows, dtype=torch.float64), "none": None}, uid=np.array(["a"] * rows, object),
        at=np.zeros(rows, "M8[s]"), reserved=Batch(),
    )  # fmt: skip


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


Pair = namedtuple("Pair", "a b")


def held(tensor: torch.Tensor) -> list[Any]:
    """Return objects of a column, each of which holds the tensor."""
    column = np.empty(2, object)
    column[0] = tensor
    return [
        tensor, [tensor, 1], (1, tensor), Pair(tensor, 1), {"pixels": [{"deep": tensor}]}, OrderedDict(a=tensor),
        Batch(t=tensor, n=np.ones(1), o=objects([tensor])), Normal(tensor, tensor), column,
        Ragged.from_lists([{"x": tensor}]),
    ]  # fmt: skip


def devices(value: Any) -> set[str]:
    """Return the devices of all tensors in an object."""
    if isinstance(value, torch.Tensor):
        return {value.device.type}
    if isinstance(value, Normal):
        return devices(value.loc) | devices(value.scale)
    if isinstance(value, Ragged):
        return devices(value.values)
    if isinstance(value, (Batch, dict)):
        value = list(value.values() if isinstance(value, dict) else value.__dict__.values())
    return set().union(*map(devices, value)) if isinstance(value, (list, tuple, np.ndarray)) else set()


MOVES = {
    "to": lambda batch: batch.to("meta"),
    "to_torch": lambda batch: batch.to_torch(device="meta"),
    "conversion.to_torch": lambda batch: to_torch(batch, device="meta"),
    "convert": lambda batch: convert(batch, Objects, device="meta"),
}


class Objects(BatchRecord):
    x: Column[Any]
    y: torch.Tensor


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("number", range(10))
def test_tensors_in_columns_of_objects_are_moved(move, number):
    item = held(torch.ones(3))[number]
    batch = Objects(x=objects([item, item, "text", None]), y=torch.ones(4))
    moved = move(batch)
    assert type(moved.x[0]) is type(item)
    assert devices(moved.x[0]) == {"meta"}
    assert devices(item) == {"cpu"}
    assert batch.x[0] is item
    assert moved.x[0] is moved.x[1]  # it is moved once
    assert list(moved.x[2:]) == ["text", None]
    if move is not MOVES["convert"]:  # It needs all fields.
        assert devices(move(Batch(n={"x": objects([item])})).n.x[0]) == {"meta"}
        if not isinstance(item, Batch):  # In a row it is a nested batch, whose arrays to() refuses.
            assert devices(move(Batch(x=objects([item]))[0]).x) == {"meta"}


def test_numpy_gets_the_tensors_in_columns_of_objects_too():
    batch = Batch(x=objects(held(torch.ones(3))[:7]))
    assert not any(map(devices, batch.to_numpy().x))
    assert not any(map(devices, to_numpy(batch).x))
    assert all(map(devices, batch.x))


def test_objects_without_tensors_stay_the_very_same():
    circle: list[Any] = [{"a": 1}]
    circle.append(circle)
    batch = Batch(
        x=objects([circle, {"a": [1]}, np.ones(2), (1, "a")]), m=np.ma.array(["a", None], mask=[0, 1], dtype=object)
    )
    for moved in (batch.to("meta"), batch.to_torch(device="meta"), batch.to_numpy(), batch.to(dtype=torch.float64)):
        assert moved.x is batch.x
        assert moved.m is batch.m
    circle.append(torch.ones(1))
    assert batch.to("meta").x[0][2].device.type == "meta"
    masked = Batch(m=np.ma.array([torch.ones(1), None], mask=[0, 1], dtype=object)).to("meta").m
    assert (masked.mask.tolist(), masked[0].device.type) == ([False, True], "meta")


def test_the_floats_in_objects_are_cast_with_the_others():
    half = Batch(x=objects([{"f": torch.ones(1), "i": torch.ones(1, dtype=torch.int64)}])).to(dtype=torch.bfloat16).x[0]
    assert (half["f"].dtype, half["i"].dtype) == (torch.bfloat16, torch.int64)


class Pinned(torch.Tensor):
    """Stands for a tensor where there is a GPU."""

    @staticmethod
    def __new__(cls, data: torch.Tensor) -> Pinned:
        return data.as_subclass(cls)

    def pin_memory(self, device: Any = None) -> torch.Tensor:
        return self + 1


def test_what_a_loader_asks_for_pins_every_tensor():
    batch = Batch(t=Pinned(torch.zeros(2)), n={"t": Pinned(torch.ones(2))}, uid=np.array(["a", "b"], object))
    batch.x = objects([[Pinned(torch.zeros(1))], "x"])
    pinned = torch.utils.data._utils.pin_memory.pin_memory(batch)  # noqa: SLF001  # what a loader calls
    assert pinned is not batch
    assert (pinned.t.tolist(), pinned.n.t.tolist()) == ([1, 1], [2, 2])
    assert pinned.uid is batch.uid
    assert pinned.x[0][0].tolist() == [1]


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


def test_a_function_is_applied_to_every_leaf():
    batch = Batch(a=np.array([1, 2, 3]), nested=Batch(b=np.array([4.0, 5.0]), c=np.array([6, 7, 8])))
    doubled = batch.apply_values_transform(lambda x: x * 2)
    assert_array(batch.a, [1, 2, 3])
    assert_array(doubled.a, [2, 4, 6])
    assert_array(doubled.nested.b, [8.0, 10.0])
    nested = batch.nested
    batch.apply_values_transform(lambda x: x + 10, inplace=True)
    assert_array(batch.a, [11, 12, 13])
    assert_array(batch.nested.b, [14.0, 15.0])
    assert batch.nested is nested


def test_a_transformation_sees_every_leaf_that_is_no_batch():
    seen = []
    dist = Normal(0.0, 1.0)
    batch = Batch(a=[1], n={"b": "text", "c": None, "r": Batch()}, d=dist)
    batch.apply_values_transform(seen.append)
    assert [type(leaf) for leaf in seen] == [np.ndarray, str, type(None), Normal]


def test_a_transformation_to_none_leaves_the_structure_of_names():
    structure = rollout().apply_values_transform(lambda leaf: None)
    assert structure.to_dict() == {"obs": {"cam": None, "pos": None}, "act": None, "rew": None}


def test_a_function_that_raises_leaves_the_batch():
    batch = Batch(a=[1], b=[2], n={"c": [0]})
    before = copy.deepcopy(batch)
    with pytest.raises(ZeroDivisionError):
        batch.apply_values_transform(lambda leaf: 1 // int(leaf[0]), inplace=True)
    assert_identical(batch, before)
