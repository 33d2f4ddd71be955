"""A function applied to every leaf."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from torch.distributions import Normal

from tests.ops.helpers import assert_array, assert_identical, rollout
from typedbatch import Batch


def test_a_function_is_applied_to_every_leaf():
    batch = Batch(a=np.array([1, 2, 3]), nested=Batch(b=np.array([4.0, 5.0]), c=np.array([6, 7, 8])))
    doubled = batch.apply_values_transform(lambda x: x * 2)
    assert_array(batch.a, [1, 2, 3])
    assert_array(doubled.a, [2, 4, 6])
    assert_array(doubled.nested.b, [8.0, 10.0])
    nested = batch.nested
    batch.apply_values_transform(lambda x: x + 10, inplace=True)
    assert_array(batch.a, [11, 12, 13])
    assert_array(batch.nested.b, [14.0, 15.0])
    assert batch.nested is nested


def test_a_transformation_sees_every_leaf_that_is_no_batch():
    seen = []
    dist = Normal(0.0, 1.0)
    batch = Batch(a=[1], n={"b": "text", "c": None, "r": Batch()}, d=dist)
    batch.apply_values_transform(seen.append)
    assert [type(leaf) for leaf in seen] == [np.ndarray, str, type(None), Normal]


def test_a_transformation_in_place_keeps_the_nested_batches():
    batch = rollout()
    nested = batch.obs
    batch.apply_values_transform(lambda leaf: leaf[:1], inplace=True)
    assert batch.obs is nested
    assert len(batch) == 1


def test_a_transformation_to_none_leaves_the_structure_of_names():
    structure = rollout().apply_values_transform(lambda leaf: None)
    assert structure.to_dict() == {"obs": {"cam": None, "pos": None}, "act": None, "rew": None}


def test_a_function_that_raises_leaves_the_batch():
    batch = Batch(a=[1], b=[2], n={"c": [0]})
    before = copy.deepcopy(batch)
    with pytest.raises(ZeroDivisionError):
        batch.apply_values_transform(lambda leaf: 1 // int(leaf[0]), inplace=True)
    assert_identical(batch, before)
