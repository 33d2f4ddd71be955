"""How many rows a batch has, which dimensions its fields share, and when it has neither."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Normal

from tests.ops.helpers import rollout
from typedbatch import Batch
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
        "equal rows",
        "equal shapes",
        "fewer rows",
        "half the rows",
        "fewer dimensions",
        "nested",
        "reserved",
        "reserved, nested",
        "no fields",
    ],
)
def test_length_and_shape_are_the_smallest(fields, length, shape):
    batch = Batch(fields)
    assert len(batch) == length
    assert batch.shape == shape
    assert type(batch.shape) is list


@pytest.mark.parametrize(
    ("batch", "length"),
    [
        (rollout(), 3),
        (Batch(a=[1, 2], b=[1]), 1),
        (Batch(a=[1, 2], n=None, r=Batch(), d=Batch(r=Batch())), 2),
        (Batch(d=Categorical(torch.ones(4, 2))), 4),
        (Batch(n=None), 0),
        (Batch(r=Batch()), 0),
    ],
    ids=["all kinds", "shorter", "beside none", "distribution", "none", "reserved"],
)
def test_length(batch, length):
    assert len(batch) == length
    assert bool(batch) is (length > 0)
    assert len(list(batch)) == length


def test_the_truth_of_a_batch_of_scalars_is_refused_with_the_way_out():
    with pytest.raises(NoLengthError, match=r"'loss': a scalar .* no length; is_empty\(\) tells whether it has"):
        bool(Batch(loss=0.5))


def test_none_does_not_count_for_the_length():
    assert len(Batch(a=[1, 2, 3], b=None)) == 3


@pytest.mark.parametrize("batch", [Batch(a=5, b=10), Batch(a=[1, 2], b=[3, 4])[0], Batch(a=[1, 2], n={"b": 10})])
def test_a_scalar_has_no_length(batch):
    with pytest.raises(TypeError, match=r"\b(a|n\.b)\b"):
        len(batch)


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


def test_a_row_of_one_dimensional_fields_has_neither_length_nor_shape():
    row = Batch(a=[5.0, 4.0], b=np.zeros((2, 3, 4)))[0]
    assert row.shape == []
    with pytest.raises(TypeError):
        len(row)
