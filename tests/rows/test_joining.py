"""The fields of two batches in one, row by row or by key."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.helpers import assert_identical
from typedbatch import Batch, ObsBatch
from typedbatch.errors import LeafError, MissingFieldError, StructureError
from typedbatch.rows import union


def test_the_fields_of_both_and_neither_is_changed():
    one = ObsBatch(obs=np.zeros((2, 3)), info=Batch())
    two = Batch(reward=torch.ones(2), n={"x": [1, 2]})
    joined = union(one, two)
    assert type(joined) is ObsBatch
    assert list(joined.keys()) == ["obs", "info", "reward", "n"]
    assert joined.obs is one.obs
    assert joined["reward"] is two.reward
    joined["n"].y = [3, 4]
    assert list(two.n.keys()) == ["x"]
    assert list(one.keys()) == ["obs", "info"]


def test_a_field_of_both_stays_where_it_is_equal():
    nan = np.array([np.nan, 1.0])
    one = Batch(ids=[1, 2], uid=["a", "b"], n={"x": [1, 2]}, nan=nan)
    joined = union(one, Batch(ids=torch.tensor([1, 2]), n={"x": [1, 2]}, uid=["a", "b"], nan=nan, r=[0, 1]))
    assert joined.ids is one.ids
    assert list(joined.keys()) == ["ids", "uid", "n", "nan", "r"]


def test_meta_of_both_and_fields_that_may_be_left_out():
    one, two = Batch(x=[1, 2], ref=None, meta={"step": 3}), Batch(x=None, ref=[5, 6], r=None)
    two.meta = {"step": 3, "engine": "v1"}
    joined = union(one, two)
    assert joined == Batch(x=[1, 2], ref=[5, 6], r=None, meta={"step": 3, "engine": "v1"})
    assert (one.meta, one.ref) == ({"step": 3}, None)
    two.meta["step"] = 4
    with pytest.raises(StructureError, match=r"'meta.step': the batches differ: 3, 4"):
        union(one, two)


@given(st.permutations(range(6)), st.lists(st.integers(0, 5), max_size=9))
def test_rows_are_joined_by_key_in_whatever_order_they_come(order, wanted):
    keys = np.array([f"key {i}" for i in order], object)
    other = Batch(uid=keys, score=np.array(order) * 1.5, tokens=torch.tensor(order))
    batch = Batch(uid=np.array([f"key {i}" for i in wanted], object), x=np.arange(len(wanted)))
    joined = union(batch, other, on="uid")
    assert joined.score.tolist() == [1.5 * i for i in wanted]
    assert joined.tokens.tolist() == wanted
    assert joined.uid is batch.uid


@pytest.mark.parametrize("as_what", [list, np.array, torch.tensor])
def test_keys_are_numbers_too(as_what):
    joined = union(Batch(uid=as_what([7, 5])), Batch(uid=as_what([5, 7]), r=[50, 70]), on="uid")
    assert joined.r.tolist() == [70, 50]


@pytest.mark.parametrize(
    ("other", "on", "error", "text"),
    [
        (Batch(r=[1]), None, StructureError, "2 rows cannot be joined with 1; on= takes a field of both"),
        (Batch(x=[1, 3]), None, StructureError, "'x': both batches have it, with different values: i64.*, i64"),
        (Batch(x=[1.0, 2.0]), None, StructureError, "'x': both batches have it, .*i64.*, f64"),
        (Batch(x=[2, 1], uid=["b", "b"]), "uid", StructureError, "'uid': the other batch has no row for 'a'"),
        (Batch(uid=["a", "b", "a"], r=[1, 2, 3]), "uid", StructureError, "the other batch has several rows for 'a'"),
        (Batch(uid=["c"]), "uid", StructureError, "no row for 'a', 'b'$"),
        (Batch(x=[2, 2], uid=["a", "b"]), "uid", StructureError, "'x': both batches have it"),
        (Batch(r=[1, 2]), "uid", MissingFieldError, "no field 'uid'"),
        (Batch(r=[1, 2], uid=[[1], [2]]), "uid", StructureError, "'uid': rows are identified by one value for each"),
        (Batch(a=[1, 2], b=[1]), None, StructureError, "different lengths: a has 2, others 1"),
        ({"r": [1, 2]}, None, LeafError, r"union\(\) takes a Batch, got dict"),
    ],
)
def test_what_is_refused(other, on, error, text):
    batch = Batch(x=[1, 2], uid=["a", "b"])
    with pytest.raises(error, match=text):
        union(batch, other, on=on)
    assert_identical(batch, Batch(x=[1, 2], uid=["a", "b"]))


def test_only_a_few_of_many_missing_keys_are_shown():
    with pytest.raises(StructureError, match="no row for 0, 1, 2 and 7 more"):
        union(Batch(k=np.arange(10)), Batch(k=[77]), on="k")


def test_keys_that_cannot_be_told_apart_are_refused():
    column = np.empty(1, object)
    column[0] = ["a list"]
    with pytest.raises(StructureError, match=r"'k': rows can only be joined by hashable values: .*unhashable"):
        union(Batch(k=column), Batch(k=column), on="k")
