"""Batches with the same fields, joined along a new dimension or along the rows."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array, assert_shows
from typedbatch import Batch, errors


def test_stack_adds_a_dimension():
    stacked = Batch.stack(
        [Batch(a=np.array([1, 2]), b=np.array([5, 6])), Batch(a=np.array([3, 4]), b=np.array([7, 8]))]
    )
    assert_shows(
        stacked,
        """
        Batch(
            a: array([[1, 2],
                      [3, 4]]),
            b: array([[5, 6],
                      [7, 8]]),
        )
        """,
    )
    assert stacked.shape == [2, 2]


def test_cat_extends_the_rows():
    joined = Batch.cat([Batch(a=np.array([1, 2]), b=np.array([5, 6])), Batch(a=np.array([3, 4]), b=np.array([7, 8]))])
    assert_shows(
        joined,
        """
        Batch(
            a: array([1, 2, 3, 4]),
            b: array([5, 6, 7, 8]),
        )
        """,
    )
    assert joined.shape == [4]


def test_scalars_stack_to_rows_which_split_and_join_again():
    data = Batch.stack((Batch(a=np.array([0.0, 2.0]), b=5), Batch(a=np.array([1.0, 3.0]), b=-5)))
    expected = """
        Batch(
            a: array([[0., 2.],
                      [1., 3.]]),
            b: array([ 5, -5]),
        )
        """
    assert_shows(data, expected)
    pieces = list(data.split(1, False))
    assert_shows(
        pieces,
        """
        [Batch(
            a: array([[0., 2.]]),
            b: array([5]),
        ), Batch(
            a: array([[1., 3.]]),
            b: array([-5]),
        )]
        """,
    )
    assert_shows(Batch.cat(pieces), expected)


def test_stack_along_another_axis():
    first = Batch(a=np.zeros((3, 2)), b=np.ones((2, 3)), c=Batch(d=[[1], [2]]))
    second = Batch(a=np.ones((3, 2)), b=np.ones((2, 3)), c=Batch(d=[[0], [3]]))
    stacked = Batch.stack((first, second), axis=1)
    assert stacked.a.shape == (3, 2, 2)
    assert_array(stacked.a[:, 0], np.zeros((3, 2)))
    assert_array(stacked.a[:, 1], np.ones((3, 2)))
    assert stacked.b.shape == (2, 2, 3)
    assert_array(stacked.c.d, [[[1], [0]], [[2], [3]]])


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
def test_dicts_and_batches_are_joined(join):
    assert join([{"a": [1], "n": {"b": [2]}}, Batch(a=[3], n=Batch(b=[4]))]) == join(
        [Batch(a=[1], n={"b": [2]}), Batch(a=[3], n={"b": [4]})]
    )


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
def test_a_generator_of_batches_is_joined_like_a_list(join):
    parts = [Batch(a=[1]), Batch(a=[2])]
    assert join(part for part in parts) == join(parts)


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
def test_joining_nothing_gives_an_empty_batch(join):
    assert join([]) == Batch()
    assert join([Batch(), Batch()]) == Batch()


def test_cat_skips_batches_without_fields():
    assert Batch.cat([Batch(), Batch(a=[1]), {}, Batch(a=[2])]) == Batch(a=[1, 2])


def test_arrays_and_tensors_are_joined_side_by_side():
    zeros = Batch(a=np.arange(2), b=torch.zeros((2, 2)))
    ones = Batch(a=np.arange(2), b=torch.ones((2, 2)))
    joined = Batch.cat([zeros, ones, zeros])
    assert_array(joined.a, [0, 1, 0, 1, 0, 1])
    assert type(joined.b) is torch.Tensor
    assert joined.b[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_a_joined_batch_shares_nothing_with_its_parts():
    part = Batch(a=np.zeros(2), t=torch.zeros(2))
    for joined in (Batch.cat([part]), Batch.stack([part])):
        joined += 1
    assert_array(part.a, [0.0, 0.0])
    assert part.t.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("join", "grow"), [(Batch.cat, Batch.cat_), (Batch.stack, Batch.stack_)], ids=["cat", "stack"])
def test_the_methods_with_an_underscore_grow_the_batch_itself(join, grow):
    base, one, two = Batch(a=[1]), Batch(a=[2]), Batch(a=[3])
    grown = copy.deepcopy(base)
    grow(grown, [one, two])
    assert grown == join([base, one, two])


def test_new_rows_extend_a_batch():
    batch = Batch(obs=np.array([[1, 2], [3, 4]]), act=np.array([0, 1]))
    batch.cat_(Batch(obs=np.array([[5, 6]]), act=np.array([1])))
    assert len(batch) == 3
    assert_array(batch.obs, [[1, 2], [3, 4], [5, 6]])
    assert_array(batch.act, [0, 1, 1])


def test_cat_in_place_takes_one_batch_or_one_dict_or_several():
    for more in (Batch(a=[2]), {"a": [2]}, [Batch(a=[2])], ({"a": [2]},)):
        batch = Batch(a=[1])
        batch.cat_(more)
        assert_array(batch.a, [1, 2])


def test_in_place_into_an_empty_batch():
    joined, stacked = Batch(), Batch()
    joined.cat_([Batch(a=[1]), Batch(a=[2])])
    stacked.stack_([{"a": 1}, {"a": 2}])
    assert_array(joined.a, [1, 2])
    assert_array(stacked.a, [1, 2])


def test_stack_in_place_along_another_axis():
    batch = Batch(a=np.zeros((2, 3)))
    batch.stack_([Batch(a=np.ones((2, 3)))], axis=1)
    assert batch.a.shape == (2, 2, 3)


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
