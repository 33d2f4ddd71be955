"""Rows and columns taken out of a batch by an index or by iteration."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_identical, assert_shows, rollout
from typedbatch import Batch
from typedbatch.errors import RowIndexError


def square() -> Batch:
    return Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5.0, -5.0], [1.0, -2.0]])


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


def test_slices_are_views_and_index_arrays_are_copies():
    batch = rollout()
    assert np.shares_memory(batch[1:].obs.cam, batch.obs.cam)
    assert batch[1:].act.data_ptr() == batch.act[1:].data_ptr()
    assert not np.shares_memory(batch[[0, 1]].obs.cam, batch.obs.cam)


@pytest.mark.parametrize("rows", [[1, 0], [[1, 0], [3, 1]]], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int64"])
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


@pytest.mark.parametrize(
    "batch", [Batch(a=1), Batch(a=[1, 2], n={"b": 1}), Batch(a=[1, 2])[0]], ids=["0-d", "nested", "row"]
)
def test_a_scalar_takes_no_index(batch):
    with pytest.raises(IndexError):
        batch[0]


def test_a_batch_without_fields_has_no_row_zero():
    with pytest.raises(IndexError):
        Batch()[0]


def test_a_row_holds_numpy_scalars():
    row = Batch(a=[1, 2, 3], b=[True, False, True])[0]
    assert type(row.a) is np.int64
    assert type(row.b) is np.bool_


@pytest.mark.parametrize(
    ("b", "rows"),
    [([[5.0, -5.0], [1.0, -2.0]], [[0.0, 2.0], [1.0, 3.0]]), ([[5, -5]], [[0.0, 2.0]])],
    ids=["as long", "shorter"],
)
def test_iteration_gives_rows_of_arrays_and_ends_with_the_shortest_field(b, rows):
    batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=b)
    assert [row.a.tolist() for row in batch] == rows


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


def test_a_slice_leaves_its_source_as_it_was():
    batch = Batch(array=np.arange(4), infos=[{"t": i} for i in range(4)], t=torch.arange(4), none=None)
    names, before = list(batch.keys()), copy.deepcopy(batch)
    for index in (0, slice(0, 1), [1], np.array([True, False, False, True])):
        part = batch[index]
        part.new = 1
        del part.array, part.infos
    assert list(batch.keys()) == names
    assert_identical(batch, before)
