"""None and NaN: found, and dropped row by row."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_array, rollout
from typedbatch import Batch
from typedbatch._core.kinds import object_array


def holes() -> Batch:
    return Batch(a=[1, 2, None, 4], b=[5.0, np.nan, 7.0, 8.0], c=[[1, 2], [3, 4], [5, 6], [7, 8]])


def test_null_masks_find_none_and_nan():
    assert holes().hasnull() is True
    mask = holes().isnull()
    assert_array(mask.a, [False, False, True, False], bool)
    assert_array(mask.b, [False, True, False, False], bool)
    assert_array(mask.c, np.zeros((4, 2), bool), bool)


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
        (rollout(), False),
        (Batch(a=[1.0, np.nan]), True),
        (Batch(n={"o": [None, 1]}), True),
        (Batch(a=None), True),
        (Batch(), False),
        (Batch(r=Batch()), False),
        (Batch(a=["x", "y"]), False),
        (Batch(a=[1.0, 2.0])[0], False),
        (Batch(a=[np.nan, 2.0])[0], True),
    ],
    ids=["no gap", "nan", "nested none", "none", "no fields", "reserved", "text", "row", "row of nan"],
)
def test_hasnull(batch, expected):
    assert batch.hasnull() is expected


def test_null_masks_see_nan_in_tensors():
    batch = Batch(n={"t": torch.tensor([[1.0, float("nan")], [1.0, 2.0]])})
    assert batch.hasnull()
    assert batch.isnull().n.t.tolist() == [[False, True], [False, False]]
    assert batch.dropnull().n.t.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64], ids=str)
def test_nan_in_a_tensor_is_found(dtype):
    batch = Batch(n={"t": torch.tensor([1.0, float("nan"), 2.0], dtype=dtype)})
    assert batch.isnull().n.t.tolist() == [False, True, False]
    assert batch.hasnull()
    assert len(batch.dropnull()) == 2


def test_dropnull_keeps_complete_rows_with_their_shape():
    clean = holes().dropnull()
    assert len(clean) == 2
    assert_array(clean.a, [1, 4])
    assert_array(clean.b, [5.0, 8.0])
    assert_array(clean.c, [[1, 2], [7, 8]])
    assert not clean.hasnull()


def test_dropnull_keeps_shapes_kinds_and_dtypes():
    batch = Batch(
        obs=np.arange(12.0, dtype=np.float32).reshape(2, 3, 2),
        t=torch.ones(2, 4),
        n={"deep": np.ones((2, 1), np.int8)},
        o=["x", "y"],
        rew=[1.0, np.nan],
        dist=Normal(torch.zeros(2), torch.ones(2)),
    )
    clean = batch.dropnull()
    assert_array(clean.obs, batch.obs[:1], "float32")
    assert type(clean.t) is torch.Tensor
    assert clean.t.shape == (1, 4)
    assert_array(clean.n.deep, [[1]], "int8")
    assert_array(clean.o, ["x"], object)
    assert clean.dist.batch_shape == (1,)


def test_dropnull_of_a_wide_field_drops_the_whole_row():
    clean = Batch(a=[[1.0, np.nan], [1.0, 2.0]], b=[1, 2]).dropnull()
    assert_array(clean.a, [[1.0, 2.0]])
    assert_array(clean.b, [2])


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
