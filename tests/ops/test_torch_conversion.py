"""Arrays become tensors and back, and every other leaf stays what it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Normal

from tests.ops.helpers import assert_array
from typedbatch import Batch


def test_conversion_makes_a_new_batch():
    batch = Batch(a=np.zeros((3, 4)))
    as_torch = batch.to_torch(dtype=torch.float32, device="cpu")
    assert type(batch.a) is np.ndarray
    assert type(as_torch.a) is torch.Tensor
    assert as_torch.a.dtype == torch.float32
    assert type(as_torch.to_numpy().a) is np.ndarray
    assert type(as_torch.a) is torch.Tensor


def test_conversion_in_place_there_and_back():
    batch = Batch(a=np.zeros((3, 4)), b=np.ones(5))
    batch.to_torch_(dtype=torch.float32, device="cpu")
    assert type(batch.a) is torch.Tensor
    assert batch.a.dtype == batch.b.dtype == torch.float32
    assert batch.a.shape == (3, 4)
    batch.to_numpy_()
    assert_array(batch.a, np.zeros((3, 4)), "float32")


def test_conversion_in_place_shares_memory_with_the_arrays_it_came_from():
    array = np.zeros((4, 2))
    batch = Batch(a=array)
    batch.to_torch_()
    batch.a[0] = 7.0
    assert_array(array[0], [7.0, 7.0])


def test_a_joined_batch_converts_both_ways():
    batch = Batch(a=np.arange(2), b=torch.zeros((2, 2)))
    batch.to_numpy_()
    assert_array(batch.b, np.zeros((2, 2)), "float32")
    batch.to_torch_()
    assert batch.a.tolist() == [0, 1]
    assert batch.b.dtype == torch.float32


def test_rows_convert_too():
    row = Batch(a=[1.5, 2.5], b=[1, 2])[0].to_torch()
    assert row.a.shape == ()
    assert (row.a.item(), row.b.item()) == (1.5, 1)


def test_an_alias_of_a_nested_part_sees_the_conversion():
    batch = Batch(obs={"x": [1.0, 2.0]})
    alias = batch.obs
    batch.to_torch_()
    assert type(alias.x) is torch.Tensor


def test_conversion_without_a_dtype_keeps_each_dtype():
    batch = Batch(a=np.zeros(2), b=[1, 2], c=[True, False], d=np.zeros(2, np.float32)).to_torch()
    assert [batch[name].dtype for name in "abcd"] == [torch.float64, torch.int64, torch.bool, torch.float32]


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
        torch.int64,
        torch.int64,
        torch.int32,
        torch.complex128,
    ]


def test_to_torch_leaves_bool_bool():
    batch = Batch(a=[True, False], t=torch.tensor([True])).to_torch(dtype=torch.float32)
    assert batch.a.dtype == batch.t.dtype == torch.bool


def test_to_torch_takes_arrays_that_torch_cannot_share():
    flipped, frozen, foreign = np.arange(3.0)[::-1], np.arange(3.0), np.arange(3.0).astype(">f8")
    frozen.setflags(write=False)
    batch = Batch(a=flipped, b=frozen, c=foreign).to_torch()
    assert batch.a.tolist() == [2.0, 1.0, 0.0]
    assert batch.b.tolist() == batch.c.tolist() == [0.0, 1.0, 2.0]
    batch.b += 1
    assert_array(frozen, [0.0, 1.0, 2.0])


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
