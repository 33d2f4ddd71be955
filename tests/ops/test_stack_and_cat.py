"""Batches with the same fields, joined along a new dimension or along the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_array
from typedbatch import Batch, BatchRecord, Ragged, SampleBatch, cat, errors


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


class Pair(BatchRecord):
    a: Any
    b: Any


CAT = {
    "cat": cat,
    "np.concatenate": np.concatenate,
    "pad": lambda parts: cat(parts, missing="pad"),
    "widths": lambda parts: cat(parts, widths="pad"),
    "cat_": lambda parts: parts[0].cat_(parts[1:]),
}
ROWS = {
    "arrays": lambda n: np.arange(n),
    "masked arrays": lambda n: np.ma.array(np.arange(n), mask=np.zeros(n, bool)),
    "objects": lambda n: np.array(["x"] * n, object),
    "tensors": torch.arange,
    "batches": lambda n: Batch(c=np.arange(n), d=Batch(), e=None),
    "tensors in batches": lambda n: Batch(c=torch.arange(n)),
    "distributions": lambda n: Normal(torch.zeros(n), torch.ones(n)),
    "ragged": lambda n: Ragged.from_lists({"ids": [[1]] * 4})[:n],
}
JOINS = pytest.mark.parametrize("join", CAT.values(), ids=CAT)
KINDS_OF_ROWS = pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
LENGTHS = pytest.mark.parametrize("lengths", [[(3, 2), (3, 3)], [(3, 3), (2, 3)], [(3, 2), (2, 3)], [(1, 0), (0, 1)]])


@JOINS
@KINDS_OF_ROWS
@LENGTHS
def test_records_whose_fields_differ_in_length_are_not_joined(join, rows, lengths):
    parts = [Pair(a=np.zeros(n), b=rows(m)) for n, m in lengths]
    with pytest.raises(
        errors.StructureError, match=r"batch [01] has fields of different lengths: \S+ has [13], others [20]"
    ):
        join(parts)
    assert [(len(part.a), part.b) for part in parts] == [
        (n, part.b) for (n, _), part in zip(lengths, parts, strict=True)
    ]


@JOINS
@KINDS_OF_ROWS
@LENGTHS
def test_plain_batches_whose_fields_differ_in_length_are_joined_with_a_warning(join, rows, lengths):
    for parts in (
        [Batch(a=np.zeros(n), b=rows(m)) for n, m in lengths],
        [Batch(nested=Batch(b=rows(m)), a=np.zeros(n)) for n, m in lengths],
        [Batch(nested=Pair(a=np.zeros(n), b=rows(m))) for n, m in lengths],
    ):
        with pytest.warns(
            UserWarning, match=r"batch [01] has fields of different lengths: .* later rows no longer match"
        ):
            join(parts)


def test_the_warning_is_one_and_names_the_line_of_the_caller():
    batch = Batch(a=[1, 2], b=[1])
    for join in (lambda: cat([batch] * 3), lambda: batch.cat_([batch] * 2)):
        with pytest.warns(UserWarning, match="b") as caught:
            join()
        assert [warning.filename for warning in caught] == [__file__]


@KINDS_OF_ROWS
@pytest.mark.parametrize("cls", [Batch, Pair])
def test_nothing_is_said_of_batches_of_equal_lengths_or_of_one_batch(cls, rows):
    parts = [cls(a=np.zeros(n), b=rows(n)) for n in (2, 3)]
    assert len(cat(parts).a) == len(cat([*parts, Batch()])) == 5
    assert len(cat([cls(a=np.zeros(2), b=None), cls(a=np.zeros(3), b=None)])) == 5
    cat([Batch(), cls(a=np.zeros(3), b=rows(2))])


def test_sample_batches_whose_columns_differ_in_length_are_not_joined():
    whole = SampleBatch(obs=np.zeros(3), actions=np.zeros(3))
    cut = SampleBatch(obs=np.zeros(3), actions=np.zeros(2))
    for first, second in ((whole, cut), (cut, whole)):
        with pytest.raises(errors.StructureError, match="different lengths: obs has 3, others 2"):
            first.concat(second)
