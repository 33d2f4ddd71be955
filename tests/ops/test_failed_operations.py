"""An operation that fails names the field and changes nothing, not even the fields before it."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal

from tests.ops.helpers import assert_identical
from typedbatch import Batch
from typedbatch._core.memory import Taken, span
from typedbatch.errors import StructureError, TypedBatchError

byte_bounds = np.lib.array_utils.byte_bounds if hasattr(np.lib, "array_utils") else np.byte_bounds


def read_only() -> np.ndarray:
    array = np.zeros(3)
    array.setflags(write=False)
    return array


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.zeros(3)


# The first field could take the change, the second cannot: a loop that writes as it goes leaves half of it done.
HALF: dict[str, tuple[Callable[[], Any], Callable[[Batch], Any]]] = {
    "+= float, integers": (lambda: np.arange(3), lambda b: operator.iadd(b, 0.5)),
    "/= on integers": (lambda: np.arange(3), lambda b: operator.itruediv(b, 2)),
    "+= on text": (lambda: "text", lambda b: operator.iadd(b, 1)),
    "+= on a distribution": (lambda: Normal(torch.zeros(3), 1.0), lambda b: operator.iadd(b, 1)),
    "+= on read-only memory": (read_only, lambda b: operator.iadd(b, 1)),
    "+= on a field with None": (lambda: np.array([1, None, 2], dtype=object), lambda b: operator.iadd(b, 1)),
    "+= out of range": (lambda: np.zeros(3, np.uint8), lambda b: operator.iadd(b, 300)),
    "+= with another shape": (lambda: np.zeros(2), lambda b: operator.iadd(b, np.ones(3))),
    "+= on bool": (lambda: np.array([True, False, True]), lambda b: operator.iadd(b, 1)),
    "-= on bool": (lambda: np.array([True, False, True]), lambda b: operator.isub(b, True)),
    "**= negative, integers": (lambda: np.arange(1, 4), lambda b: operator.ipow(b, -1)),
    "**= negative array, integers": (lambda: np.arange(1, 4), lambda b: operator.ipow(b, np.array([-1, -1, -1]))),
    "+= on a leaf that requires grad": (lambda: torch.zeros(3, requires_grad=True), lambda b: operator.iadd(b, 1)),
    "+= on a view of such a leaf": (lambda: torch.zeros(3, requires_grad=True)[:], lambda b: operator.iadd(b, 1)),
    "+= of a tensor": (lambda: np.zeros(3), lambda b: operator.iadd(b, Batch(first=1, second=torch.ones(3)))),
    "+= on an expanded tensor": (lambda: torch.zeros(1).expand(3), lambda b: operator.iadd(b, 1)),
    "+= on a tensor of inference mode": (inference_tensor, lambda b: operator.iadd(b, 1)),
    "//= by a zero, integer tensors": (
        lambda: torch.ones(3, dtype=torch.int64),
        lambda b: operator.ifloordiv(b, Batch(first=2, second=torch.tensor([1, 0, 1]))),
    ),
    "%= by a zero, integer tensors": (
        lambda: torch.ones(3, dtype=torch.int64),
        lambda b: operator.imod(b, Batch(first=0.75, second=torch.tensor([1, 0, 1]))),
    ),
    "**= negative, integer tensors": (
        lambda: torch.ones(3, dtype=torch.int64),
        lambda b: operator.ipow(b, Batch(first=2, second=torch.tensor([1, -1, 1]))),
    ),
    "+= text among numbers": (lambda: np.array([1, "x"], dtype=object)[[0, 1, 0]], lambda b: operator.iadd(b, 1)),
    "+= a batch with text": (lambda: np.zeros(3), lambda b: operator.iadd(b, Batch(first=1, second="x"))),
    "+= a batch with another shape": (lambda: np.zeros(3), lambda b: operator.iadd(b, Batch(first=1, second=[1, 2]))),
    "row of the wrong shape": (lambda: np.zeros((3, 2)), lambda b: b.set_rows(0, {"first": 9, "second": [1, 2, 3]})),
    "row of text": (lambda: np.zeros(3), lambda b: b.set_rows(0, {"first": 9, "second": "x"})),
    "row of None": (lambda: np.zeros(3), lambda b: b.set_rows(0, {"first": 9, "second": None})),
    "row into read-only memory": (read_only, lambda b: b.set_rows(0, {"first": 9, "second": 1})),
    "row into a shorter field": (lambda: np.zeros(2), lambda b: b.set_rows(2, {"first": 9, "second": 1})),
    "row into a shorter tensor": (lambda: torch.zeros(2), lambda b: b.set_rows([0, 2], {"first": 9, "second": 1})),
    "row into a nested batch": (lambda: Batch(x=[1, 2, 3]), lambda b: b.set_rows(0, {"first": 9, "second": 1})),
    "row with a new nested name": (
        lambda: Batch(x=[1, 2, 3]),
        lambda b: b.set_rows(0, {"first": 9, "second": {"y": 1}}),
    ),
    "row into text": (lambda: "text", lambda b: b.set_rows(0, {"first": 9})),
    "row into None": (lambda: None, lambda b: b.set_rows(0, {"first": 9, "second": 1})),
    "row into a distribution": (lambda: Normal(torch.zeros(3), 1.0), lambda b: b.set_rows(0, {"first": 9})),
    "row into a reserved field": (Batch, lambda b: b.set_rows(0, {"first": 9, "second": {"x": 1}})),
    "row into a leaf that requires grad": (
        lambda: torch.zeros(3, requires_grad=True),
        lambda b: b.set_rows(0, {"first": 9, "second": 1}),
    ),
    "row into a view of such a leaf": (
        lambda: torch.zeros(3, requires_grad=True)[:],
        lambda b: b.set_rows(0, {"first": 9, "second": 1}),
    ),
    "row into a tensor of inference mode": (inference_tensor, lambda b: b.set_rows(0, {"first": 9, "second": 1})),
    "row of 2.7 into integers": (lambda: np.arange(3), lambda b: b.set_rows(0, {"first": 9, "second": 2.7})),
    "clearing a row of a distribution": (lambda: Normal(torch.zeros(3), 1.0), lambda b: b.empty_(0)),
    "clearing a row out of range": (lambda: np.zeros(2), lambda b: b.empty_(2)),
    "update with ragged tensors": (
        lambda: np.zeros(3),
        lambda b: b.update(first=1, second=[torch.zeros(1), torch.zeros(2)]),
    ),
    "update with a number as nested name": (lambda: np.zeros(3), lambda b: b.update({"first": 9, "second": {1: 2}})),
    "to_torch_ of a dtype torch lacks": (lambda: np.zeros(3, np.longdouble), lambda b: b.to_torch_()),
    "to_torch_ of such a dtype with dtype=": (
        lambda: np.zeros(3, np.longdouble),
        lambda b: b.to_torch_(dtype=torch.float32),
    ),
    "cat_ of another shape": (lambda: np.zeros((3, 2)), lambda b: b.cat_(Batch(first=[1.0], second=[[1.0]]))),
    "cat_ of another kind": (lambda: np.zeros(3), lambda b: b.cat_(Batch(first=[1.0], second=torch.zeros(1)))),
    "cat_ of a scalar": (lambda: np.zeros(3), lambda b: b.cat_(Batch(first=[1.0], second=1.0))),
    "stack_ of another shape": (lambda: np.zeros(3), lambda b: b.stack_([Batch(first=np.ones(3), second=[1.0])])),
    "a nested result with a number as name": (
        lambda: np.zeros(3),
        lambda b: b.apply_values_transform(lambda leaf: leaf if leaf.sum() else {1: 2}, inplace=True),
    ),
}


@pytest.mark.parametrize("case", HALF)
def test_a_failed_operation_changes_nothing_and_names_the_field(case):
    make, operation = HALF[case]
    batch = Batch(first=np.ones(3), second=make())
    before, identities = copy.deepcopy(batch), {name: id(leaf) for name, leaf in batch.__dict__.items()}
    with pytest.raises(TypedBatchError, match="second"):
        operation(batch)
    assert_identical(batch, before)
    assert {name: id(leaf) for name, leaf in batch.__dict__.items()} == identities


def test_a_failure_inside_a_nested_batch_is_named_by_its_path_and_changes_nothing():
    batch = Batch(first=np.ones(3), outer={"inner": {"first": np.ones(3), "second": [1, 2, 3]}})
    before = copy.deepcopy(batch)
    for operation in (
        lambda: operator.iadd(batch, 0.5),
        lambda: batch.set_rows(0, {"first": 1, "outer": {"inner": {"first": 9, "second": "x"}}}),
        lambda: batch.cat_(Batch(first=[1.0], outer={"inner": {"first": [1.0], "second": [[1]]}})),
        lambda: batch[:, 0],
        lambda: batch.update(outer={"inner": {"second": [torch.zeros(1), torch.zeros(2)]}}),
    ):
        with pytest.raises(TypedBatchError, match=r"first|outer\.inner\.second"):
            operation()
        assert_identical(batch, before)


def test_numbers_that_numpy_raises_over_change_nothing():
    batch = Batch(first=np.ones(2), second=np.ones(2))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide"):
        batch /= Batch(first=2.0, second=np.array([1.0, 0.0]))
    assert_identical(batch, Batch(first=np.ones(2), second=np.ones(2)))


def trajectory() -> np.ndarray:
    return np.arange(4.0)


def sent(first: Any, second: Any) -> tuple[Any, Any]:
    batch = Batch(a=first, b=second).to_torch()
    return batch.a, batch.b


OVERLAPPING: dict[str, Callable[[], tuple[Any, Any]]] = {
    "shifted views": lambda: ((x := trajectory())[:-1], x[1:]),
    "shifted views, backwards": lambda: ((x := trajectory())[::-1], x),
    "shifted views as tensors": lambda: sent((x := trajectory())[:-1], x[1:]),
    "the same array": lambda: ((x := trajectory()), x),
    "an array and its tensor": lambda: ((x := trajectory()), torch.from_numpy(x)),
    "a tensor and its array": lambda: ((x := torch.arange(4.0)), x.numpy()),
    "shifted views of a tensor": lambda: ((x := torch.arange(4.0))[:-1], x[1:]),
    "a column and its matrix": lambda: ((x := torch.ones(3, 2)), x[:, 1]),
    "two views of bytes": lambda: (np.frombuffer(x := bytearray(32)), np.frombuffer(x)),
}
THE_SAME = ("the same array", "an array and its tensor", "a tensor and its array", "two views of bytes")
overlapping = pytest.mark.parametrize("leaves", OVERLAPPING)


@pytest.mark.parametrize("leaves", THE_SAME)
@pytest.mark.parametrize("operation", [lambda b: operator.imul(b, 10), lambda b: operator.iadd(b, 1.5)])
def test_one_array_under_two_names_changes_once(leaves, operation):
    first, second = OVERLAPPING[leaves]()
    batch = Batch(first=first, outer={"second": second})
    expected = operation(copy.deepcopy(batch.first)), operation(copy.deepcopy(batch.outer.second))
    operation(batch)
    assert (batch.first.tolist(), batch.outer.second.tolist()) == tuple(leaf.tolist() for leaf in expected)
    assert batch.first is first


@overlapping
@pytest.mark.parametrize(
    "write",
    [
        lambda b: operator.imul(b, Batch(first=2, outer={"second": 3})),
        lambda b: b.set_rows(1, {"first": 9, "outer": {"second": 7}}),
        lambda b: b.set_rows([0, 1], {"first": [7, 8], "outer": {"second": [5, 4]}}),
    ],
    ids=["in place", "a row", "rows"],
)
def test_fields_on_the_same_memory_do_not_hold_different_values(leaves, write):
    first, second = OVERLAPPING[leaves]()
    first += 1
    batch = Batch(first=first, outer={"second": second})
    before = copy.deepcopy(batch)
    with pytest.raises(
        StructureError, match=r"'first': shares memory with 'outer\.second', so neither is written; copy"
    ):
        write(batch)
    assert_identical(batch, before)


@pytest.mark.parametrize("make", [np.arange, torch.arange], ids=["numpy", "torch"])
@pytest.mark.parametrize(
    "write",
    [lambda b: operator.imul(b, 10), lambda b: b.set_rows(0, {"obs": 7, "obs_next": 1}), lambda b: b.empty_([0])],
)
def test_shifted_views_are_not_written_in_place_and_may_be_after_a_copy(make, write):
    states = make(5.0)
    batch = Batch(obs=states[:-1], obs_next=states[1:])
    with pytest.raises(StructureError, match="'obs': shares memory with 'obs_next'"):
        write(batch)
    assert states.tolist() == [0, 1, 2, 3, 4]
    write(Batch(obs=states[:-1] * 1, obs_next=states[1:] * 1))
    assert Batch.empty(batch, [0]).obs.tolist() == [0, 1, 2, 3]


def test_the_same_array_in_two_fields_takes_the_same_rows():
    done = np.zeros(3, bool)
    batch = Batch(terminated=done, truncated=done)
    batch[0] = {"terminated": True, "truncated": True}
    batch.empty_([1])
    assert done.tolist() == [True, False, False]
    with pytest.raises(StructureError, match="'terminated': shares memory with 'truncated'"):
        batch[1] = {"terminated": True, "truncated": False}


@pytest.mark.parametrize("make", [np.arange, torch.arange], ids=["numpy", "torch"])
def test_neighbours_in_one_block_of_memory_are_written(make):
    block = make(8).reshape(4, 2)
    batch = Batch(first=block[:, 0], second=block[:, 1])
    batch *= 10
    batch[0] = {"first": 1, "second": 2}
    assert block.tolist() == [[1, 2], [20, 30], [40, 50], [60, 70]]


@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("make", [np.zeros, lambda n: torch.zeros(n, dtype=torch.float64)], ids=["numpy", "torch"])
def test_an_array_under_many_names_changes_once(make, count):
    block = make(2 * count)
    batch = Batch({f"c{i}": block for i in range(count)})
    batch += 1
    batch[0] = Batch(dict.fromkeys(batch.keys(), 5.0))
    assert block.tolist() == [5.0] + [1.0] * (2 * count - 1)
    with pytest.raises(StructureError, match="'c0': shares memory with 'c1'"):
        batch += Batch({name: float(name == "c1") for name in Batch.keys(batch)})
    assert block.tolist() == [5.0] + [1.0] * (2 * count - 1)


@pytest.mark.parametrize(
    "parts",
    [
        lambda block: block[:, ::2].T,
        lambda block: [block[:, :2], block[:, 2], block[:, 3:]],
        lambda block: [block[::2], block[1::2]],
        lambda block: [block[::-1, 0], block[:, 1], block[1:, 2], block[3:5, 3]],
        lambda block: [block.view(complex).real, block.view(complex).imag],
        lambda block: [block[2], block[:2]],
    ],
    ids=["columns", "several columns", "rows in turn", "parts of columns", "real and imaginary", "rows"],
)
def test_parts_of_one_block_that_lie_between_one_another_take_different_values(parts):
    block = np.zeros((8, 6))
    batch = Batch({f"p{i}": part for i, part in enumerate(parts(block))})
    batch += Batch({name: i + 1 for i, name in enumerate(Batch.keys(batch))})
    assert [set(np.unique(part)) for part in batch.values()] == [{i + 1.0} for i in range(len(Batch.keys(batch)))]
    assert not Taken(list(batch.values())).pairs()
    for i, name in enumerate(Batch.keys(batch)):
        assert (i, len(Batch.keys(batch))) in Taken([*batch.values(), batch[name][-1:]]).pairs()


@given(st.data())
def test_memory_is_shared_where_numpy_says_so(data):
    block = np.zeros((6, 6))
    parts = []
    for _ in range(data.draw(st.integers(1, 4))):
        rows, columns = (data.draw(st.slices(6)) for _ in range(2))
        parts.append(data.draw(st.sampled_from([block[rows, columns], block[rows, columns].T])))
    pairs = Taken(parts).pairs()
    for i, one in enumerate(parts):
        for k, other in enumerate(parts):
            if i < k:
                assert np.shares_memory(one, other) == ((i, k) in pairs)
        assert span(one) == (byte_bounds(one) if one.size else None)


@pytest.mark.parametrize("leaf", [lambda: np.ones(2), lambda: torch.ones(2)], ids=["array", "tensor"])
def test_a_row_of_numbers_is_refused_before_it_is_written(leaf):
    row = Batch(a=leaf() * np.ones((1, 2)) if isinstance(leaf(), np.ndarray) else leaf()[None], s=np.ones(1))[0]
    before = copy.deepcopy(row)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        row /= Batch(a=2.0, s=np.float64(0))
    assert_identical(row, before)


def test_tensors_that_torch_maps_over_or_traces_are_written_in_place():
    def doubled(x: torch.Tensor) -> torch.Tensor:
        batch = Batch(a=x * 1, b=x * 2)
        batch *= 2
        return (batch.a + batch.b).sum()

    assert torch.func.vmap(doubled)(torch.ones(2, 3)).tolist() == [18, 18]
    assert torch.func.grad(doubled)(torch.ones(3)).tolist() == [6, 6, 6]
    meta = Batch(a=torch.zeros(3, device="meta"), b=torch.zeros(3, device="meta"))
    meta *= 2
    meta[0] = {"a": torch.zeros((), device="meta"), "b": torch.zeros((), device="meta")}
    assert meta.a.device.type == "meta"
