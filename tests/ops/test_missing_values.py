"""Batches without fields, rows or values: their length, None and NaN, and rows that are cleared."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from torch.distributions import Categorical, Normal

from tests.ops.helpers import assert_array, rollout
from typedbatch import Batch
from typedbatch._core.kinds import object_array
from typedbatch.errors import NoLengthError


@pytest.mark.parametrize(
    ("fields", "length", "shape"),
    [
        ({"a": [1, 2, 3], "b": np.array([4, 5, 6])}, 3, [3]),
        ({"a": np.array([[0.0, 2.0], [1.0, 3.0]]), "b": [[5.0, -5.0], [1.0, -2.0]]}, 2, [2, 2]),
        ({"a": [1, 2], "b": [3, 4, 5]}, 2, [2]),
        ({"a": [1, 2], "b": [1, 2, 3, 4]}, 2, [2]),
        ({"a": [5.0, 4.0], "b": np.zeros((2, 3, 4))}, 2, [2]),
        ({"a": np.zeros((4, 2, 7)), "n": {"x": np.zeros((3, 5))}}, 3, [3, 2]),
        ({"a": [1, 2, 3], "reserved": Batch()}, 3, []),
        ({"a": [1, 2, 3], "b": Batch(c=Batch())}, 3, []),
        ({}, 0, []),
    ],
    ids=[
        "equal rows", "equal shapes", "fewer rows", "half the rows", "fewer dimensions", "nested", "reserved",
        "reserved, nested", "no fields",
    ],
)  # fmt: skip
def test_length_and_shape_are_the_smallest(fields, length, shape):
    batch = Batch(fields)
    assert len(batch) == length
    assert batch.shape == shape
    assert type(batch.shape) is list


@pytest.mark.parametrize(
    ("batch", "length"),
    [
        (rollout(), 3), (Batch(a=[1, 2], b=[1]), 1), (Batch(a=[1, 2], n=None, r=Batch(), d=Batch(r=Batch())), 2),
        (Batch(d=Categorical(torch.ones(4, 2))), 4), (Batch(n=None), 0), (Batch(r=Batch()), 0),
    ],
    ids=["all kinds", "shorter", "beside none", "distribution", "none", "reserved"],
)  # fmt: skip
def test_length(batch, length):
    assert len(batch) == length
    assert bool(batch) is (length > 0)
    assert len(list(batch)) == length


def test_the_truth_of_a_batch_of_scalars_is_refused_with_the_way_out():
    with pytest.raises(NoLengthError, match=r"'loss': a scalar .* no length; is_empty\(\) tells whether it has"):
        bool(Batch(loss=0.5))


@pytest.mark.parametrize("leaf", [1, "text", {1, 2}, len, Normal(0.0, 1.0)], ids=str)
@pytest.mark.parametrize("ask", [len, bool, lambda b: list(b), lambda b: b.to_list_of_dicts()])
def test_no_length_with_a_scalar_leaf(leaf, ask):
    with pytest.raises(TypeError):
        ask(Batch(a=[1, 2], n={"b": leaf}))


@pytest.mark.parametrize(
    ("a", "b"),
    [(5, 10), (5, np.zeros((2, 2))), (np.zeros((2, 2)), 1), (np.zeros((2, 2)), "x")],
    ids=["both", "first", "second", "text"],
)
def test_a_scalar_makes_the_shape_empty(a, b):
    assert Batch(a=a, b=b).shape == []


def test_reserved_fields_become_none_at_every_depth():
    batch = Batch(r=Batch(), n={"r": Batch(), "a": [1]}, a=[2])
    nested = batch.n
    batch.replace_empty_batches_by_none()
    assert batch.r is None
    assert batch.n is nested
    assert nested.r is None
    assert_array(nested.a, [1])


@pytest.mark.parametrize(
    ("batch", "keys"),
    [(Batch(), 0), (Batch(a=Batch(), b=Batch()), 2), (Batch(a=np.array([]), b=np.array([])), 2)],
    ids=["no fields", "reserved fields", "no rows"],
)
def test_three_ways_to_be_empty_have_length_zero(batch, keys):
    assert len(batch.get_keys()) == keys
    assert len(batch) == 0
    assert list(batch) == []


@pytest.mark.parametrize(
    ("batch", "empty", "empty_throughout"),
    [
        (Batch(), True, True), (Batch(a=Batch(), b=Batch(c=Batch())), False, True), (Batch(d=1), False, False),
        (Batch(a=np.float64(1.0)), False, False), (Batch(a=Batch(b=[1])), False, False), (Batch(a=None), False, False),
    ],
    ids=["no fields", "reserved", "number", "numpy number", "nested list", "none"],
)  # fmt: skip
def test_is_empty_looks_at_fields_or_at_leaves(batch, empty, empty_throughout):
    assert batch.is_empty() is empty
    assert batch.is_empty(recurse=True) is empty_throughout


def test_empty_only_at_an_index():
    batch = Batch(a=[1, 2, 3], o=["x", "y", "z"], n={"t": torch.tensor([1, 2, 3])})
    cleared = Batch.empty(batch, index=[0, 2])
    assert_array(cleared.a, [0, 2, 0])
    assert_array(cleared.o, [None, "y", None])
    assert cleared.n.t.tolist() == [0, 2, 0]
    assert_array(batch.a, [1, 2, 3])


def test_empty_of_a_row_gives_zeros_of_the_same_kind():
    row = Batch.empty(Batch(a=[1, 2], b=[1.5, 2.5], c=[True, False], o=["x", "y"])[0])
    assert (row.a, row.b, row.c, row.o) == (0, 0.0, False, None)
    assert (type(row.a), type(row.b), type(row.c)) == (np.int64, np.float64, np.bool_)


def test_empty_in_place_writes_into_the_arrays_and_returns_the_batch():
    array, tensor = np.array([1, 2]), torch.tensor([1, 2])
    batch = Batch(a=array, n={"t": tensor})
    assert batch.empty_(0) is batch
    assert_array(array, [0, 2])
    assert tensor.tolist() == [0, 2]
    batch.empty_()
    assert_array(array, [0, 0])
    assert tensor.tolist() == [0, 0]


def test_isnull_has_a_mask_for_every_leaf():
    batch = Batch(a=[1, 2], o=["x", None], n={"f": [np.nan, 1.0]}, none=None, s="text")
    mask = batch.isnull()
    assert_array(mask.a, [False, False], bool)
    assert_array(mask.o, [False, True], bool)
    assert_array(mask.n.f, [True, False], bool)
    assert bool(mask.none) is True
    assert bool(mask.s) is False


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (rollout(), False), (Batch(a=[1.0, np.nan]), True), (Batch(n={"o": [None, 1]}), True), (Batch(a=None), True),
        (Batch(), False), (Batch(r=Batch()), False), (Batch(a=["x", "y"]), False), (Batch(a=[1.0, 2.0])[0], False),
        (Batch(a=[np.nan, 2.0])[0], True),
    ],
    ids=["no gap", "nan", "nested none", "none", "no fields", "reserved", "text", "row", "row of nan"],
)  # fmt: skip
def test_hasnull(batch, expected):
    assert batch.hasnull() is expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64], ids=str)
def test_nan_in_a_tensor_is_found(dtype):
    batch = Batch(n={"t": torch.tensor([1.0, float("nan"), 2.0], dtype=dtype)})
    assert batch.isnull().n.t.tolist() == [False, True, False]
    assert batch.hasnull()
    assert len(batch.dropnull()) == 2


def test_dropnull_keeps_shapes_kinds_and_dtypes():
    batch = Batch(
        obs=np.arange(12.0, dtype=np.float32).reshape(2, 3, 2), t=torch.ones(2, 4),
        n={"deep": np.ones((2, 1), np.int8)}, o=["x", "y"], rew=[1.0, np.nan],
        dist=Normal(torch.zeros(2), torch.ones(2)),
    )  # fmt: skip
    clean = batch.dropnull()
    assert_array(clean.obs, batch.obs[:1], "float32")
    assert type(clean.t) is torch.Tensor
    assert clean.t.shape == (1, 4)
    assert_array(clean.n.deep, [[1]], "int8")
    assert_array(clean.o, ["x"], object)
    assert clean.dist.batch_shape == (1,)


def test_dropnull_may_keep_nothing():
    clean = Batch(a=np.full((2, 3), np.nan), b=[1, 2]).dropnull()
    assert clean.a.shape == (0, 3)
    assert clean.b.shape == (0,)


@pytest.mark.parametrize(
    "null",
    [
        *(np.datetime64("NaT", "s"), np.timedelta64("NaT", "s"), complex("nan")),
        *(np.float32("nan"), np.complex64("nan")),
        *(Decimal("nan"), Decimal("sNaN"), pd.NA, pd.NaT),
    ],
    ids=repr,
)
def test_every_kind_of_null_is_seen_among_objects(null):
    batch = Batch(o=object_array(["x", null, False, np.False_, 0]))
    assert batch.isnull().o.tolist() == [False, True, False, False, False]
    assert batch.dropnull().o.tolist() == ["x", False, False, 0]
    assert batch[1].isnull().o.tolist() is True
    assert Batch(o=null).hasnull() is True


class Odd:
    """As the expressions of some libraries: what it compares to is not an answer."""

    def __ne__(self, other: object) -> "Odd":
        return self

    __hash__ = None


@pytest.mark.parametrize("value", [Odd(), np.array([np.nan]), [float("nan")], {"k": float("nan")}, Batch(a=np.nan)])
def test_what_holds_a_null_or_cannot_be_asked_is_none(value):
    assert Batch(o=object_array([value, "x"])).hasnull() is False
