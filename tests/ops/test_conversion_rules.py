"""Conversion of the values that are put into a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_array, assert_shows
from typedbatch import Batch, Ragged


@pytest.mark.parametrize(
    ("value", "expected", "dtype"),
    [
        (5, 5, "int64"),
        (3.14, 3.14, "float64"),
        (True, True, "bool"),
        (np.int32(1), 1, "int32"),
        (np.float64(2.3), 2.3, "float64"),
        (np.bool_(True), True, "bool"),
        ([1, 2, 3], [1, 2, 3], "int64"),
        ([5.0, np.nan], [5.0, np.nan], "float64"),
        ((5, 5), [5, 5], "int64"),
        ([False, True], [False, True], "bool"),
        ([None, None], [None, None], object),
        (["x", "y"], ["x", "y"], object),
    ],
    ids=repr,
)
def test_numbers_and_lists_become_arrays(value, expected, dtype):
    assert_array(Batch(a=value).a, expected, dtype)


def test_a_number_is_a_zero_dimensional_array():
    assert Batch(a=4).a.shape == ()


@pytest.mark.parametrize("value", [[1, "hello", None], ("a", -2, -3), [2.0, "st"]], ids=repr)
def test_mixed_lists_keep_their_values_in_an_object_array(value):
    stored = Batch(a=value).a
    assert stored.dtype == object
    assert [(type(x), x) for x in stored] == [(type(x), x) for x in value]


def test_numpy_numbers_in_mixed_lists_are_kept():
    stored = Batch(a=[np.float32(1.5), "x", None]).a
    assert stored[0] == 1.5
    assert stored[1:].tolist() == ["x", None]


def test_a_list_row_that_mixes_kinds_keeps_its_values():
    row = Batch([{"a": {"b": [0.0, "info"]}}])[0]
    assert_shows(
        row,
        """
        Batch(
            a: Batch(
                   b: array([0.0, 'info'], dtype=object),
               ),
        )
        """,
    )
    assert type(row.a.b[0]) is float


def test_text_arrays_become_object_arrays():
    assert_array(Batch(a=np.array(["x", "y"])).a, ["x", "y"], object)


def stored(value: Any, how: str, batch: Batch) -> Any:
    """The value as a batch holds it once it was set in that way, in ``batch`` or in a new one."""
    if how == "keyword":
        batch = Batch(a=value)
    elif how == "dict":
        batch = Batch({"a": value})
    elif how == "transform":
        batch = Batch(a=0).apply_values_transform(lambda _: value)
    elif how == "setdefault":
        batch = Batch()
        batch.setdefault("a", value)
    elif how == "attribute":
        batch.a = value
    elif how == "item":
        batch["a"] = value
    elif how == "update":
        batch.update(a=value)
    else:
        batch.update({"a": value})
    return batch.a


WAYS = ["keyword", "dict", "transform", "setdefault", "attribute", "item", "update", "update by dict"]


@pytest.mark.parametrize(
    "value",
    [Batch(x=1), torch.zeros(2), np.zeros(2), np.array([True]), None, {1, 2}, "text", len, int, Normal(0.0, 1.0)],
)
@pytest.mark.parametrize("how", WAYS)
def test_these_values_are_stored_as_the_same_object(value, how):
    assert stored(value, how, Batch()) is value


@pytest.mark.parametrize("how", WAYS)
def test_values_are_converted_wherever_they_are_set(how):
    value = stored([{"x": 1}, {"x": 2}], how, Batch(a=0))
    assert type(value) is Batch
    assert_array(value.x, [1, 2])


def test_a_dict_becomes_a_batch_also_by_assignment():
    batch = Batch(first={"x": 1, "y": 2})
    batch.second = {"x": {"y": [1, 2]}}
    assert type(batch.first) is Batch
    assert type(batch.second.x) is Batch
    assert_array(batch.second.x.y, [1, 2])


def test_assignment_converts_as_the_constructor_does():
    batch = Batch()
    batch.key1 = "value"
    batch.key2 = np.array([1, 2, 3])
    batch["key3"] = [1, "hello", None]
    assert list(batch.keys()) == ["key1", "key2", "key3"]
    assert batch.key3.dtype == object


@pytest.mark.parametrize("sequence", [list, tuple])
def test_a_list_or_a_tuple_of_tensors_is_stacked(sequence):
    assert Batch(a=sequence([torch.zeros(2), torch.ones(2)])).a.tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_tensors_of_different_shapes_in_a_list_are_a_type_error():
    with pytest.raises(TypeError, match="'a'"):
        Batch(a=[torch.zeros(2), torch.zeros(3)])


def test_ragged_arrays_in_a_list():
    ragged = Batch(a=[np.zeros((2, 3)), np.zeros((3, 3))]).a
    assert ragged.dtype == object
    assert [x.shape for x in ragged] == [(2, 3), (3, 3)]
    with pytest.raises(TypeError):
        Batch(a=[np.zeros((3, 2)), np.zeros((3, 3))])


def test_an_array_of_dicts_is_kept_and_a_list_of_it_becomes_a_nested_batch():
    column = np.array([{"t": 1}, {"t": 2}], dtype=object)
    assert Batch(info=column).info is column
    for info in (Batch(info=list(column)).info, Batch.from_rows(column), Batch(column)):
        assert type(info) is Batch
        assert_array(info.t, [1, 2])


def test_a_list_of_dicts_and_none_is_an_object_array():
    stored = Batch(a=[{"x": 1}, None]).a
    assert stored.dtype == object
    assert list(stored) == [{"x": 1}, None]


CHANGED_BY_NUMPY = [
    [2**53 + 1, 0.5],
    [np.uint64(2**64 - 1), -1],
    [np.int64(2**53 + 1), np.float64(0.5)],
    [True, 2**60 + 1, 1j],
]


@pytest.mark.parametrize("values", CHANGED_BY_NUMPY, ids=str)
def test_no_whole_number_changes_where_numpy_would_make_a_float_of_it(values):
    assert np.asarray(values).dtype.kind in "fc"
    made = [
        Batch(x=values).x,
        Batch(x=[values]).x[0],
        Batch([{"x": value} for value in values]).x,
        Batch.from_rows([{"x": value} for value in values]).x,
        Batch.from_rows([{"n": {"x": value}} for value in values]).n.x,
        Ragged.from_lists({"x": [values]}).values.x,
        Ragged.from_lists({"x": [[value] for value in values]}).values.x,
    ]
    for column in made:
        assert column.dtype == object
        assert column.tolist() == values


@pytest.mark.parametrize("values", [[2**53, 0.5], [2**63, -1], [1e300, 1], [np.inf, np.nan, 7], [2**60 + 1, 2], [1e20]])
def test_numbers_that_stay_what_they_are_become_an_array(values):
    for column in (Batch(x=values).x, Batch.from_rows([{"x": value} for value in values]).x):
        assert column.dtype == np.asarray(values).dtype
        assert str(column.tolist()) == str(np.asarray(values).tolist())
