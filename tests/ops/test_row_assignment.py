"""Rows written into the arrays that a batch already has."""

from __future__ import annotations

import copy
from collections import UserDict

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_array, assert_identical, assert_shows, rollout
from typedbatch import Batch, errors


@pytest.mark.parametrize(
    "index",
    [slice(None, None, -1), slice(2, None, -2), range(3), [True, True, True], np.array([2, 1, 0]), ..., (slice(3),)],
)
def test_rows_are_assigned_wherever_they_can_be_read(index):
    for leaf in (np.zeros(3), torch.zeros(3)):
        batch = Batch(a=leaf)
        rows = batch[index]
        batch[index] = {"a": np.arange(1.0, 1.0 + len(rows))}
        assert batch[index].a.tolist() == list(np.arange(1.0, 1.0 + len(rows)))


def test_a_partial_row_can_be_refused():
    batch = Batch(a=[1, 2], f=[1.5, 2.5], n={"x": [1, 2], "y": [1, 2]})
    before = copy.deepcopy(batch)
    with pytest.raises(errors.RowAssignmentError, match="'f'"):
        batch.set_rows(0, {"a": 9, "n": {"x": 1, "y": 1}}, strict=True)
    with pytest.raises(errors.RowAssignmentError, match=r"(?s)'n'.*'y'"):
        batch.set_rows(0, {"a": 9, "f": 1.0, "n": {"x": 1}}, strict=True)
    assert_identical(batch, before)
    batch.set_rows(0, {"a": 9, "f": 9.0, "n": {"x": 9, "y": 9}}, strict=True)
    assert (batch.a[0], batch.f[0], batch.n.x[0], batch.n.y[0]) == (9, 9.0, 9, 9)


@pytest.mark.parametrize("value", [5, "text", [1, 2], np.zeros(2)], ids=repr)
def test_rows_without_names_are_a_value_error(value):
    with pytest.raises(ValueError):
        rollout()[0] = value


def test_a_row_with_a_new_name_is_a_value_error():
    with pytest.raises(ValueError, match="new"):
        Batch(a=[1])[0] = {"a": 1, "new": 2}


INTEGERS = {
    "int64": lambda: np.array([1, 2]),
    "int8": lambda: np.array([1, 2], np.int8),
    "uint8": lambda: np.array([1, 2], np.uint8),
    "torch int64": lambda: torch.tensor([1, 2]),
    "torch int8": lambda: torch.tensor([1, 2], dtype=torch.int8),
    "torch uint8": lambda: torch.tensor([1, 2], dtype=torch.uint8),
}


@pytest.mark.parametrize("value", [2.7, [2.7, 1.0], float("nan"), float("inf"), 2**63, 300, -200], ids=repr)
@pytest.mark.parametrize("field", INTEGERS)
def test_values_that_a_field_cannot_hold_are_not_truncated(field, value):
    if value in (300, -200) and field.endswith("int64"):
        value *= 2**60 * 1.0
    batch = Batch(f=[0.0, 0.0], n={"a": INTEGERS[field]()})
    before = copy.deepcopy(batch)
    with pytest.raises(errors.RowAssignmentError, match=r"n\.a"):
        batch[:] = {"f": 1.0, "n": {"a": value}}
    assert_identical(batch, before)


@pytest.mark.parametrize("make", [lambda: np.zeros(2, np.float16), lambda: torch.zeros(2, dtype=torch.float16)])
def test_a_float_is_rounded_but_does_not_become_infinite(make):
    batch = Batch(a=make())
    batch[0] = {"a": 0.1}
    assert abs(float(batch.a[0]) - 0.1) < 1e-4
    with pytest.raises(errors.RowAssignmentError, match="'a'"):
        batch[0] = {"a": 1e6}
    assert abs(float(batch.a[0]) - 0.1) < 1e-4


def test_a_whole_float_goes_into_an_integer_field():
    batch = Batch(a=[1, 2], t=torch.tensor([1, 2]))
    batch[0] = {"a": 3.0, "t": 3.0}
    assert_array(batch.a, [3, 2], "int64")
    assert batch.t.tolist() == [3, 2]


def test_a_column_of_every_field_is_changed_in_place():
    batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5.0, -5.0], [1.0, -2.0]])
    batch[:, 1] += 10
    assert_shows(
        batch,
        """
        Batch(
            a: array([[ 0., 12.],
                      [ 1., 13.]]),
            b: array([[5., 5.],
                      [1., 8.]]),
        )
        """,
    )


def test_a_cell_of_an_object_array_holds_what_it_is_given():
    given = [True, 1, float("nan"), np.float32(1), {"k": 1}, None, "x", np.datetime64("2026-01-01", "ns")]
    batch = Batch(o=[None, "x"], n={"o": [None, "x"]})
    for value in given:
        batch[0] = {"o": value, "n": {"o": value}}
        assert batch.o[0] is value
        assert batch.n.o[0] is value
    batch[:] = {"o": {"k": 1}, "n": {"o": True}}
    assert batch.o.tolist() == [{"k": 1}] * 2
    assert batch.n.o.tolist() == [True, True]


def test_a_cell_takes_the_number_out_of_a_row():
    batch = Batch(o=[None, 1, "x"])
    batch[0] = Batch(o=float("nan"))
    assert batch.isnull().o.tolist() == [True, False, False]
    batch[2] = batch[1]
    assert batch.to_list_of_dicts()[2] == {"o": 1}


def test_a_row_goes_back_in_as_a_dict():
    batch = Batch(info=[{"k": 1}, None, 5], n={"x": [1, 2, 3]})
    batch[1] = batch[0].to_dict()
    assert batch.info.tolist() == [{"k": 1}, {"k": 1}, 5]
    assert_array(batch.n.x, [1, 1, 3])


@pytest.mark.parametrize("value", [1e6, torch.tensor(1e6), np.array(1e6)], ids=["number", "tensor", "array"])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16], ids=str)
def test_a_number_beyond_a_small_float_is_refused(dtype, value):
    batch = Batch(a=torch.ones(2).to(dtype))
    with pytest.raises(errors.RowAssignmentError, match=r"field 'a'.*unchanged"):
        batch[0] = {"a": value}
    batch[0] = {"a": 2}
    assert batch.a.tolist() == [2, 1]


def test_a_structured_array_with_objects_in_it_is_emptied_and_kept():
    pair = np.dtype([("x", int), ("y", object)])
    batch = Batch(a=np.ones(2), s=np.array([(1, "u"), (2, "v")], pair))
    batch[0] = {}
    assert batch.s.tolist() == [(0, 0), (2, "v")]
    batch.empty_()
    assert (batch.s.tolist(), batch.s.dtype) == ([(0, 0)] * 2, pair)
    assert_array(batch.a, [0.0, 0.0])
    assert Batch.empty(batch).s.dtype == pair


def test_objects_of_a_dtype_with_metadata_are_emptied_and_later_those_of_a_plain_one():
    for dtype in (np.dtype(object, metadata={"unit": "s"}), np.dtype(object)):
        batch = Batch(x=np.array(["a", "b"], dtype), n=[1, 2])
        batch[0] = {"n": 3}
        assert batch.x.tolist() == [None, "b"]


def test_objects_go_into_cells_as_they_are():
    counted, pair = UserDict(a=1, b=2), np.empty((), object)
    pair[()] = [1, 2]
    batch = Batch(o=[None, "x", "y"])
    for value in (counted, torch.ones(2), bytearray(b"ab"), Normal(0.0, 1.0)):
        batch[0:2] = {"o": value}
        assert batch.o[0] is batch.o[1] is value
    batch[0:2] = {"o": pair}
    assert batch.o.tolist() == [[1, 2], [1, 2], "y"]


@pytest.mark.parametrize("make", [np.zeros, torch.zeros], ids=["numpy", "torch"])
def test_a_row_may_come_with_a_dimension_of_one(make):
    batch = Batch(x=make(2), a=make((2, 3)))
    batch[0] = {"x": [1.0], "a": [[1.0, 2.0, 3.0]]}
    assert batch.x.tolist() == [1, 0]
    assert batch.a.tolist() == [[1, 2, 3], [0, 0, 0]]


def test_tensors_that_numpy_cannot_show_are_widened_or_refused_by_name():
    batch = Batch(a=np.zeros(3), t=torch.zeros(3, 3))
    batch[:] = {"a": torch.ones(3, dtype=torch.bfloat16), "t": torch.ones(3)}
    assert_array(batch.a, [1.0, 1.0, 1.0])
    for name, value in (("a", torch.eye(3).to_sparse()), ("t", torch.eye(3).to_sparse())):
        with pytest.raises(errors.TypedBatchError, match=rf"field '{name}'.*dense"):
            batch[:] = {name: value}
    assert batch.t.tolist() == torch.ones(3, 3).tolist()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16], ids=str)
def test_numbers_are_rounded_and_what_is_not_finite_stays_so(dtype):
    batch = Batch(a=torch.ones(3).to(dtype))
    largest = torch.finfo(dtype).max
    batch[:] = {"a": torch.tensor([largest * (1 + torch.finfo(dtype).eps / 8), float("nan"), 1e-30])}
    assert batch.a.float()[0] == largest
    assert batch.a.float()[1].isnan()
    if dtype is torch.float8_e4m3fn:
        with pytest.raises(errors.RowAssignmentError):
            batch[0] = {"a": float("inf")}
    else:
        batch[0] = {"a": float("-inf")}
        assert batch.a.float()[0] == float("-inf")
