"""Rows and columns taken out of a batch, and written into the arrays that it already has."""

from __future__ import annotations

import copy
from collections import UserDict

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_array, assert_identical, rollout
from typedbatch import Batch, errors
from typedbatch.errors import RowIndexError


def test_slices_are_views_and_index_arrays_are_copies():
    batch = rollout()
    assert np.shares_memory(batch[1:].obs.cam, batch.obs.cam)
    assert batch[1:].act.data_ptr() == batch.act[1:].data_ptr()
    assert not np.shares_memory(batch[[0, 1]].obs.cam, batch.obs.cam)


@pytest.mark.parametrize("rows", [[1, 0], [[1, 0], [3, 1]]], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int64"])
def test_row_numbers_of_any_integer_dtype_mean_the_same_to_every_field(dtype, rows):
    # To torch alone, uint8 is a mask: tensors would get other rows than the arrays beside them.
    batch = Batch(a=np.arange(4), t=torch.arange(4), n={"t": torch.arange(4)}, d=Normal(torch.arange(4.0), 1.0))
    index = np.array(rows, dtype)
    part = batch[index]
    assert part.a.tolist() == part.t.tolist() == part.n.t.tolist() == part.d.mean.tolist() == rows
    del batch.d
    batch[index] = {"a": index * 10, "t": index * 10, "n": {"t": index * 10}}
    expected = np.arange(4)
    expected[index] = index * 10
    assert batch.a.tolist() == batch.t.tolist() == batch.n.t.tolist() == expected.tolist()


def test_a_row_holds_numpy_scalars():
    row = Batch(a=[1, 2, 3], b=[True, False, True])[0]
    assert type(row.a) is np.int64
    assert type(row.b) is np.bool_


@pytest.mark.parametrize(
    ("b", "rows"),
    [([[5.0, -5.0], [1.0, -2.0]], [[0.0, 2.0], [1.0, 3.0]]), ([[5, -5]], [[0.0, 2.0]])],
    ids=["as long", "shorter"],
)
def test_iteration_gives_rows_of_arrays_and_ends_with_the_shortest_field(b, rows):
    batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=b)
    assert [row.a.tolist() for row in batch] == rows


@pytest.mark.parametrize(
    "index",
    [
        (0, slice(None), np.array([1, 0, 1])), (slice(None), 1, [0, 2]), ([1, 0], 2),
        (np.array([True, False, True, False]), slice(1, 3), 0), (..., 1, np.array([[0, 1], [2, 3]])),
    ],
    ids=["int first", "int in the middle", "int last", "mask", "ellipsis"],
)  # fmt: skip
def test_an_int_beside_an_array_means_the_same_for_arrays_and_tensors(index):
    values = np.arange(4 * 4 * 5).reshape(4, 4, 5)
    taken = Batch(a=values, t=torch.from_numpy(values))[index]
    assert np.array_equal(taken.a, values[index])
    assert np.array_equal(taken.t.numpy(), values[index])


@pytest.mark.parametrize("index", [np.array([2**64 - 1], np.uint64), [2**64 - 1], np.uint64(2**64 - 1)])
@pytest.mark.parametrize("leaf", [np.arange(5), torch.arange(5)], ids=["numpy", "torch"])
def test_a_row_number_beyond_64_bits_is_not_counted_from_the_end(index, leaf):
    with pytest.raises(RowIndexError, match=r"out of range|out of bounds|too large|Overflow|int64"):
        Batch(a=leaf)[index]


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


@pytest.mark.parametrize(
    ("field", "values", "index", "expected"),
    [
        (np.zeros((2, 2)), [1.0, 2.0], (slice(None), 0), [[1, 0], [2, 0]]),
        (np.zeros((2, 2)), [1.0, 2.0], np.eye(2, dtype=bool), [[1, 0], [0, 2]]),
        (np.zeros(4), [[1.0, 2.0], [3.0, 4.0]], np.array([[0, 1], [2, 3]]), [1, 2, 3, 4]),
        (np.zeros(3), [5.0], 1, [0, 5, 0]),
        (np.zeros(3), [5.0], [4 - 2], [0, 0, 5]),
    ],
)
def test_set_array_at_key_takes_every_index_of_a_field(field, values, index, expected):
    batch = Batch(a=[1, 2], f=field)
    batch.set_array_at_key(np.array(values), "f", index)
    assert batch.f.tolist() == expected


def test_set_array_at_key_names_what_it_cannot_take():
    batch = Batch(f=np.zeros(3))
    with pytest.raises(IndexError, match=r"field 'f': f64\[3\] cannot be assigned at"):
        batch.set_array_at_key(np.ones(1), "f", [7])
    with pytest.raises(ValueError, match=r"field 'd': Normal\[3\] can only be set as a whole"):
        batch.set_array_at_key(Normal(torch.zeros(3), 1.0), "d", [0, 1])


MISSING = {
    "float32": (np.array([1.0, 2.0], np.float32), [False, True, False, True]),
    "complex": (np.array([1j, 2j]), [False, True, False, True]),
    "objects": (np.array(["x", "y"], object), [False, True, False, True]),
    "dates": (np.array(["2020", "2021"], "M8[D]"), [False, True, False, True]),
    "durations": (np.array([1, 2], "m8[s]"), [False, True, False, True]),
    "tensor": (torch.ones(2), [False, True, False, True]),
    "vectors": (np.ones((2, 2)), [[False] * 2, [True] * 2] * 2),
}


@pytest.mark.parametrize("case", MISSING)
def test_rows_of_a_new_field_that_get_no_value_are_missing(case):
    values, missing = MISSING[case]
    batch = Batch(x=[1, 2, 3, 4])
    batch.set_array_at_key(values, "label", [0, 2])
    assert batch.label.dtype == values.dtype
    assert batch.isnull().label.tolist() == missing
    assert batch.hasnull()
    assert batch.dropnull().x.tolist() == [1, 3]
    assert batch.dropnull().label.tolist() == values.tolist()


@pytest.mark.parametrize(
    "values", [np.zeros(0, int), np.zeros((0, 2), bool), torch.zeros(0, dtype=torch.int64)], ids=repr
)
def test_a_new_field_of_integers_in_a_batch_without_rows(values):
    batch = Batch(x=np.zeros(0))
    batch.set_array_at_key(values, "label", np.zeros(0, int))
    assert (batch.label.shape, batch.label.dtype) == (values.shape, values.dtype)


@pytest.mark.parametrize("values", [np.array([5, 6]), np.array([True, False]), torch.tensor([5, 6])], ids=repr)
def test_a_new_field_of_integers_has_no_missing_rows(values):
    batch = Batch(x=[1, 2, 3, 4])
    with pytest.raises(TypeError, match=r"field 'label': 2 of 4 rows get no value, .* give default_value=, or .*NaN"):
        batch.set_array_at_key(values, "label", [0, 2])
    assert list(batch.keys()) == ["x"]
    batch.set_array_at_key(values, "label", [0, 2], default_value=1)
    assert batch.label.tolist() == [values.tolist()[0], 1, values.tolist()[1], 1]
    batch.set_array_at_key(np.array([4, 3, 2, 1]), "all", [3, 2, 1, 0])
    batch.set_array_at_key(np.array([7, 8, 9, 10]), "mask", np.ones(4, bool))
    assert (batch.all.tolist(), batch.mask.tolist()) == ([1, 2, 3, 4], [7, 8, 9, 10])


def test_a_reserved_field_is_a_new_one():
    batch = Batch(label=Batch(), x=[1, 2])
    batch.set_array_at_key(np.array([0.5]), "label", [1])
    assert np.isnan(batch.label).tolist() == [True, False]
    assert list(batch.keys()) == ["label", "x"]


def test_a_field_may_be_set_from_rows_of_itself():
    column = np.arange(4.0)
    batch = Batch(f=column)
    batch.set_array_at_key(column[:3], "f", np.array([1, 2, 3]))
    assert column.tolist() == [0, 0, 1, 2]
    batch.set_array_at_key(column, "f", np.array([3, 2, 1, 0]))
    assert column.tolist() == [2, 1, 0, 0]
