"""Batches of Tianshou and back, with the very same leaves."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch.distributions import Normal

from tests.strategies import batches
from typedbatch import Batch, RolloutBatch, SampleBatch
from typedbatch._core.lengths import leaves
from typedbatch.bridges.tianshou import from_tianshou, to_tianshou
from typedbatch.errors import LeafError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tianshou.data as ts


def assert_same_leaves(ours: Batch, theirs: ts.Batch) -> None:
    assert list(ours.__dict__) == list(theirs.__dict__)
    for name, leaf in ours.__dict__.items():
        if isinstance(leaf, Batch):
            assert type(theirs.__dict__[name]) is ts.Batch
            assert_same_leaves(leaf, theirs.__dict__[name])
        else:
            assert theirs.__dict__[name] is leaf


@given(batches())
def test_there_and_back_with_the_very_same_leaves(batch):
    theirs = to_tianshou(batch)
    assert_same_leaves(batch, theirs)
    back = from_tianshou(theirs)
    assert_same_leaves(back, theirs)
    assert type(back) is Batch
    assert [path for path, _ in leaves(back.__dict__)] == [path for path, _ in leaves(batch.__dict__)]


def test_theirs_with_leaves_of_every_kind():
    theirs = ts.Batch(
        array=np.arange(3),
        tensor=torch.arange(3),
        nested=ts.Batch(deep={"leaf": np.zeros(3)}),
        objects=np.array(["a", None, {1}], object),
        dist=Normal(torch.zeros(3), torch.ones(3)),
        text="text",
        nothing=None,
        reserved=ts.Batch(),
    )
    ours = from_tianshou(theirs)
    assert_same_leaves(ours, theirs)
    assert ours.reserved == Batch()
    assert ours.nested.deep.leaf is theirs.nested.deep.leaf
    del ours.text
    assert ours[1].objects is None
    assert ours[:2].dist.batch_shape == (2,)


def test_rows_of_theirs():
    """Tianshou gives bare numbers there, and a list of batches it keeps as one."""
    row = ts.Batch(a=np.arange(3), b=[{"x": 1}, {"x": 2}, {"x": 3}])[1]
    assert from_tianshou(row) == Batch(a=1, b={"x": 2})


def test_text_and_numbers_are_converted_as_in_every_batch():
    ours = from_tianshou(ts.Batch(names=np.array(["ab", "c"]), number=3.5))
    assert ours.names.dtype == object
    assert ours.names.tolist() == ["ab", "c"]
    assert ours.number.shape == ()


def test_empty_batches():
    assert from_tianshou(ts.Batch()) == Batch()
    assert to_tianshou(Batch()) == ts.Batch()
    nested = to_tianshou(Batch(a={"b": {}}))
    assert type(nested.a.b) is ts.Batch
    assert from_tianshou(nested) == Batch(a={"b": {}})


@pytest.mark.parametrize("name", ["items", "keys", "copy", "a.b", "", "__len__", "shape"])
def test_names_that_are_members(name):
    leaf = np.zeros(2)
    theirs = to_tianshou(Batch({name: leaf, "nested": {name: leaf}}))
    assert theirs.__dict__[name] is theirs.nested.__dict__[name] is leaf
    assert from_tianshou(theirs)[name] is leaf


def test_the_outer_batches_are_new():
    ours = Batch(a={"b": np.zeros(2)})
    theirs = to_tianshou(ours)
    theirs.a.c = np.ones(2)
    back = from_tianshou(theirs)
    del back.a.b
    assert list(ours.a.keys()) == ["b"]
    assert list(theirs.a.get_keys()) == ["b", "c"]


def test_a_write_is_seen_on_both_sides():
    ours = Batch(obs={"cam": np.zeros(2)})
    theirs = to_tianshou(ours)
    theirs.obs.cam[0] = 1
    from_tianshou(theirs).obs.cam[1] = 2
    assert ours.obs.cam.tolist() == [1, 2]


def test_records_and_sample_batches():
    flags = np.zeros(2, bool)
    record = RolloutBatch(
        obs=np.zeros(2), act=np.zeros(2), rew=np.zeros(2), terminated=flags, truncated=flags, obs_next=flags, info={}
    )
    for batch in (record, SampleBatch(obs=np.zeros(2))):
        theirs = to_tianshou(batch)
        assert type(theirs) is ts.Batch
        assert_same_leaves(batch, theirs)


def test_what_tianshou_does_with_it():
    theirs = to_tianshou(Batch(a=np.arange(4), b={"c": torch.arange(4)}))
    assert len(theirs) == 4
    assert from_tianshou(ts.Batch.cat([theirs[:1], theirs[2:]])) == Batch(a=[0, 2, 3], b={"c": torch.tensor([0, 2, 3])})
    assert from_tianshou(ts.Batch.stack([theirs, theirs])).a.tolist() == [[0, 1, 2, 3]] * 2


@pytest.mark.parametrize("given_value", [{"a": 1}, Batch(), None, 3])
def test_what_is_no_batch_of_theirs(given_value: Any):
    with pytest.raises(LeafError, match=r"from_tianshou\(\) takes a Tianshou Batch, got "):
        from_tianshou(given_value)


@pytest.mark.parametrize("given_value", [{"a": 1}, ts.Batch(), None, 3])
def test_what_is_no_batch_of_ours(given_value: Any):
    with pytest.raises(LeafError, match=r"to_tianshou\(\) takes a Batch, got "):
        to_tianshou(given_value)


def test_a_leaf_that_is_no_leaf_is_named():
    theirs = ts.Batch()
    theirs.__dict__["inner"] = ts.Batch()
    theirs.inner.__dict__["bad"] = [torch.zeros(2), torch.zeros(3)]
    with pytest.raises(LeafError, match=r"field 'inner\.bad': a list of tensors is stacked"):
        from_tianshou(theirs)


def test_dicts_in_object_arrays_stay_dicts():
    objects = np.empty(2, object)
    objects[:] = [{"a": 1}, {"b": 2}]
    batch = Batch(n={"rows": np.arange(2)})
    batch.n.__dict__["o"] = objects
    assert from_tianshou(to_tianshou(batch)).n.o is objects
