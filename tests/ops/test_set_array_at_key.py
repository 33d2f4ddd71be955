"""A field, or some of its rows, set from an array."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from typedbatch import Batch


@pytest.mark.parametrize("index", [None, [0, 2]], ids=["all", "some"])
@pytest.mark.parametrize("key", ["a", "new"])
def test_set_array_at_key_refuses_a_wrong_length(index, key):
    with pytest.raises(ValueError, match=key):
        Batch(a=[1, 2, 3]).set_array_at_key(np.zeros(4), key, index)


def test_set_array_at_key_refuses_rows_of_a_nested_batch():
    with pytest.raises(ValueError, match="'n'"):
        Batch(n={"x": [1, 2, 3]}).set_array_at_key(np.zeros(2), "n", [0, 2])


def test_set_array_at_key_refuses_a_default_of_another_kind():
    with pytest.raises(TypeError, match="'b'"):
        Batch(a=[1, 2, 3]).set_array_at_key(np.zeros(2), "b", [0, 2], default_value="text")


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


def test_rows_of_a_field_that_is_there_stay():
    batch = Batch(f=np.array([1.0, 2.0, 3.0]))
    for index in (np.array([0, 2]), [0, 2], slice(0, 3, 2)):
        batch.set_array_at_key(np.array([8.0, 9.0]), "f", index)
        assert batch.f.tolist() == [8, 2, 9]
    for index in (np.array([0, 9]), np.array([[0, 9]])):
        with pytest.raises((IndexError, ValueError), match="field 'f'"):
            batch.set_array_at_key(np.array([0.0, 0.0]), "f", index)
        assert batch.f.tolist() == [8, 2, 9]


def test_a_field_may_be_set_from_rows_of_itself():
    column = np.arange(4.0)
    batch = Batch(f=column)
    batch.set_array_at_key(column[:3], "f", np.array([1, 2, 3]))
    assert column.tolist() == [0, 0, 1, 2]
    batch.set_array_at_key(column, "f", np.array([3, 2, 1, 0]))
    assert column.tolist() == [2, 1, 0, 0]
