"""Batches with the same fields, joined along a new dimension or along the rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array
from typedbatch import Batch, errors


def test_cat_takes_no_axis():
    with pytest.raises(TypeError):
        Batch.cat([Batch(a=[[1]])], axis=1)


def test_cat_of_rows_made_from_dicts_and_batches():
    first = Batch(a=[{"b": np.float64(1.0), "d": Batch(e=np.array(3.0))}])
    second = Batch(a=[{"b": np.float64(4.0), "d": {"e": np.array(6.0)}}])
    joined = Batch.cat([first, second])
    assert_array(joined.a.b, [1.0, 4.0])
    assert_array(joined.a.d.e, [3.0, 6.0])
    assert_array(first.a.b, [1.0])


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
def test_joining_nothing_gives_an_empty_batch(join):
    assert join([]) == Batch()
    assert join([Batch(), Batch()]) == Batch()


def test_in_place_into_an_empty_batch():
    joined, stacked = Batch(), Batch()
    joined.cat_([Batch(a=[1]), Batch(a=[2])])
    stacked.stack_([{"a": 1}, {"a": 2}])
    assert_array(joined.a, [1, 2])
    assert_array(stacked.a, [1, 2])


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
def test_an_array_and_a_tensor_under_one_name_are_refused_rather_than_converted(join):
    with pytest.raises(errors.StructureError, match="'a'") as caught:
        join([Batch(a=np.zeros(2)), Batch(a=torch.zeros(2))])
    assert isinstance(caught.value, ValueError)


def test_an_array_and_a_batch_under_one_name_cannot_be_stacked():
    with pytest.raises(ValueError, match="'a'"):
        Batch.stack([Batch(a=np.zeros([4, 4])), Batch(a=Batch(b=Batch()))])


def test_arrays_of_different_shapes_cannot_be_stacked():
    with pytest.raises(ValueError, match="'a'"):
        Batch.stack([Batch(a=np.zeros((2, 3))), Batch(a=np.zeros((3, 3)))])


@pytest.mark.parametrize("leaf", [1, "text"], ids=repr)
def test_scalars_cannot_be_concatenated(leaf):
    with pytest.raises(ValueError, match="'a'"):
        Batch.cat([Batch(a=leaf), Batch(a=leaf)])
