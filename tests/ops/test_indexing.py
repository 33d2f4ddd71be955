"""Rows and columns taken out of a batch by an index or by iteration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_array, assert_shows, rollout
from typedbatch import Batch
from typedbatch.errors import RowIndexError


def square() -> Batch:
    return Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5.0, -5.0], [1.0, -2.0]])


@pytest.mark.parametrize(
    ("index", "a", "b"),
    [
        (0, [0.0, 2.0], [5.0, -5.0]),
        (slice(None, 1), [[0.0, 2.0]], [[5.0, -5.0]]),
        ([0, 1], [[0.0, 2.0], [1.0, 3.0]], [[5.0, -5.0], [1.0, -2.0]]),
        ((slice(None), 0), [0.0, 1.0], [5.0, 1.0]),
        (np.array([False, True]), [[1.0, 3.0]], [[1.0, -2.0]]),
        (torch.tensor([1, 0]), [[1.0, 3.0], [0.0, 2.0]], [[1.0, -2.0], [5.0, -5.0]]),
        (np.int64(1), [1.0, 3.0], [1.0, -2.0]),
        ((..., 1), [2.0, 3.0], [-5.0, -2.0]),
        (None, [[[0.0, 2.0], [1.0, 3.0]]], [[[5.0, -5.0], [1.0, -2.0]]]),
    ],
    ids=str,
)
def test_an_index_goes_to_every_field(index, a, b):
    part = square()[index]
    assert list(part.keys()) == ["a", "b"]
    assert_array(part.a, a)
    assert_array(part.b, b)


def test_rows_print_without_numpy_type_names():
    assert_shows(
        square()[[0, 1]],
        """
        Batch(
            a: array([[0., 2.],
                      [1., 3.]]),
            b: array([[ 5., -5.],
                      [ 1., -2.]]),
        )
        """,
    )


def test_indices_of_a_field_with_three_dimensions():
    batch = Batch(a=np.arange(30.0).reshape(5, 3, 2))
    assert batch[0].a.shape == (3, 2)
    assert batch[:, 0].a.shape == (5, 2)
    assert batch[[0, 2, 4]].a.shape == (3, 3, 2)
    assert_array(batch[[0, 2, 4]].a, batch.a[[0, 2, 4]])


@pytest.mark.parametrize(
    "index",
    [
        1,
        -1,
        slice(1, None),
        slice(None, None, -1),
        [2, 0],
        range(2),
        [True, False, True],
        np.array([1, 1]),
        np.array([False, True, True]),
        torch.tensor([2, 1]),
        torch.tensor([True, False, True]),
        np.int64(2),
        torch.tensor(1),
        None,
        ...,
        [],
        (slice(0, 2),),
    ],
    ids=str,
)
def test_arrays_and_tensors_give_the_same_rows(index):
    part = Batch(a=np.arange(6).reshape(3, 2), t=torch.arange(6).reshape(3, 2))[index]
    np.testing.assert_array_equal(part.a, part.t.numpy())
    assert part.a.shape == tuple(part.t.shape)


def test_a_column_index_reaches_nested_fields():
    batch = Batch(a=np.arange(6).reshape(3, 2), n={"t": torch.arange(6).reshape(3, 2)})
    assert_array(batch[:, 1].a, [1, 3, 5])
    assert batch[:, 1].n.t.tolist() == [1, 3, 5]


def test_slices_are_views_and_index_arrays_are_copies():
    batch = rollout()
    assert np.shares_memory(batch[1:].obs.cam, batch.obs.cam)
    assert batch[1:].act.data_ptr() == batch.act[1:].data_ptr()
    assert not np.shares_memory(batch[[0, 1]].obs.cam, batch.obs.cam)


def test_none_and_reserved_fields_pass_through_an_index():
    row = Batch(a=[1, 2], n=None, r=Batch(), d={"r": Batch()})[0]
    assert row.n is None
    assert row.r == Batch()
    assert row.d.r == Batch()


def test_object_arrays_are_indexed_by_row_and_not_as_one_blob():
    batch = Batch(a=np.array([{"x"}, None, "z"], dtype=object))
    assert batch[2].a == "z"
    assert list(batch[1:].a) == [None, "z"]
    assert list(Batch.cat([batch[:1], batch[2:]]).a) == [{"x"}, "z"]


@pytest.mark.parametrize("rows", [[1, 0, 3, 1], [1, 0], [[1, 0], [3, 1]]], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"])
def test_row_numbers_of_any_integer_dtype_mean_the_same_to_every_field(dtype, rows):
    # To torch alone, uint8 is a mask: tensors would get other rows than the arrays beside them.
    batch = Batch(a=np.arange(4), t=torch.arange(4), n={"t": torch.arange(4)}, d=Normal(torch.arange(4.0), 1.0))
    index = np.array(rows, dtype)
    part = batch[index]
    assert part.a.tolist() == part.t.tolist() == part.n.t.tolist() == part.d.mean.tolist() == rows
    del batch.d
    batch[index] = {"a": index * 10, "t": index * 10, "n": {"t": index * 10}}
    expected = np.arange(4)
    expected[index] = index * 10
    assert batch.a.tolist() == batch.t.tolist() == batch.n.t.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8], ids=str)
def test_tensors_of_row_numbers_mean_the_same_to_every_field(dtype):
    part = Batch(a=np.arange(4), t=torch.arange(4))[torch.tensor([1, 0, 3, 1], dtype=dtype)]
    assert part.a.tolist() == part.t.tolist() == [1, 0, 3, 1]


@pytest.mark.parametrize(
    "batch", [Batch(a=1), Batch(a=[1, 2], n={"b": 1}), Batch(a=[1, 2])[0]], ids=["0-d", "nested", "row"]
)
def test_a_scalar_takes_no_index(batch):
    with pytest.raises(IndexError):
        batch[0]


@pytest.mark.parametrize("index", [9, [0, 9], -4], ids=repr)
def test_an_index_out_of_range_is_an_index_error(index):
    with pytest.raises(IndexError):
        rollout()[index]


def test_a_batch_without_fields_has_no_row_zero():
    with pytest.raises(IndexError):
        Batch()[0]


def test_a_row_holds_numpy_scalars():
    row = Batch(a=[1, 2, 3], b=[True, False, True])[0]
    assert type(row.a) is np.int64
    assert type(row.b) is np.bool_


def test_iteration_is_over_rows_and_not_over_names():
    rows = list(Batch(a=[1, 2, 3], b=[4, 5, 6]))
    assert [type(row) for row in rows] == [Batch] * 3
    assert_shows(
        rows[1],
        """
        Batch(
            a: 2,
            b: 5,
        )
        """,
    )
    assert [(row.a, row.b) for row in rows] == [(1, 4), (2, 5), (3, 6)]


@pytest.mark.parametrize(
    ("b", "rows"),
    [([[5.0, -5.0], [1.0, -2.0]], [[0.0, 2.0], [1.0, 3.0]]), ([[5, -5]], [[0.0, 2.0]])],
    ids=["as long", "shorter"],
)
def test_iteration_gives_rows_of_arrays_and_ends_with_the_shortest_field(b, rows):
    batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=b)
    assert [row.a.tolist() for row in batch] == rows


def test_list_gives_the_rows():
    batch = Batch(a=np.array([[0.0, 3.0], [1.0, 4.0]]), b=[[5, -4], [1, -1]])
    assert_shows(
        list(batch),
        """
        [Batch(
            a: array([0., 3.]),
            b: array([ 5, -4]),
        ), Batch(
            a: array([1., 4.]),
            b: array([ 1, -1]),
        )]
        """,
    )


@pytest.mark.parametrize(
    "index",
    [
        (0, slice(None), np.array([1, 0, 1])),
        (slice(None), 1, [0, 2]),
        ([1, 0], 2),
        (np.array([True, False, True, False]), slice(1, 3), 0),
        (..., 1, np.array([[0, 1], [2, 3]])),
    ],
    ids=["int first", "int in the middle", "int last", "mask", "ellipsis"],
)
def test_an_int_beside_an_array_means_the_same_for_arrays_and_tensors(index):
    values = np.arange(4 * 4 * 5).reshape(4, 4, 5)
    taken = Batch(a=values, t=torch.from_numpy(values))[index]
    assert np.array_equal(taken.a, values[index])
    assert np.array_equal(taken.t.numpy(), values[index])


@pytest.mark.parametrize("index", [np.array([2**64 - 1], np.uint64), [2**64 - 1], np.uint64(2**64 - 1)])
@pytest.mark.parametrize("leaf", [np.arange(5), torch.arange(5)], ids=["numpy", "torch"])
def test_a_row_number_beyond_64_bits_is_not_counted_from_the_end(index, leaf):
    with pytest.raises(RowIndexError, match=r"out of range|out of bounds|too large|Overflow|int64"):
        Batch(a=leaf)[index]
