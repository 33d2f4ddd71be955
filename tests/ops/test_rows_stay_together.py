"""No row is lost, repeated or paired with another's values, whatever kinds of leaf a batch holds."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal

from tests.ops.helpers import assert_identical
from typedbatch import Batch


def everything(rows: int) -> Batch:
    """One field of every kind that has rows; field by field, row i is recognisable as i."""
    number = torch.arange(float(rows))
    return Batch(
        array=np.arange(rows),
        listed=list(range(rows)),
        tensor=torch.arange(rows),
        tensors=[torch.tensor(i) for i in range(rows)] or torch.zeros(0),
        objects=np.array([f"row {i}" for i in range(rows)], dtype=object),
        infos=[{"t": i, "deep": {"t": i}} for i in range(rows)] or Batch(t=[], deep=Batch(t=[])),
        blobs=np.array([[i] for i in range(rows)] + [None], dtype=object)[:rows],
        wide=np.repeat(np.arange(rows), 3).reshape(rows, 3),
        dist=Normal(number, torch.ones(rows)),
    )


def row_numbers(batch: Batch) -> list[list[int]]:
    return [
        batch.array.tolist(),
        batch.listed.tolist(),
        batch.tensor.tolist(),
        batch.tensors.tolist(),
        [int(text.split()[1]) for text in batch.objects],
        batch.infos.t.tolist(),
        batch.infos.deep.t.tolist(),
        [blob[0] for blob in batch.blobs],
        batch.wide[:, 2].tolist(),
        [int(x) for x in batch.dist.mean.tolist()],
    ]


def assert_rows(batch: Batch, expected: list[int]) -> None:
    assert row_numbers(batch) == [expected] * 10


@given(rows=st.integers(1, 17), size=st.integers(1, 20), merge_last=st.booleans(), shuffle=st.booleans())
def test_split_neither_loses_nor_repeats_nor_mixes_rows(rows, size, merge_last, shuffle):
    pieces = list(islice(everything(rows).split(size, shuffle, merge_last, rng=0), rows + 1))
    order = [row for piece in pieces for row in piece.array.tolist()]
    assert sorted(order) == list(range(rows))
    assert shuffle or order == list(range(rows))
    assert all(len(piece) > 0 for piece in pieces)
    assert_rows(Batch.cat(pieces), order)


@pytest.mark.parametrize("size", [2, 3, 4, 6, 100])
def test_split_ends_when_the_size_does_not_divide_the_rows(size):
    assert sum(len(piece) for piece in islice(everything(5).split(size), 6)) == 5


def test_infos_are_shuffled_with_the_rest():
    shuffled = next(everything(50).split(-1, shuffle=True, rng=3))
    order = shuffled.array.tolist()
    assert order != list(range(50))
    assert_rows(shuffled, order)


@given(rows=st.integers(1, 9), data=st.data())
def test_any_index_takes_the_same_rows_of_every_field(rows, data):
    size = st.integers(0, rows)
    index: Any = data.draw(
        st.one_of(
            st.slices(rows),
            st.lists(st.integers(-rows, rows - 1), max_size=12),
            hnp.arrays(bool, rows),
            st.builds(slice, size, size),
            st.lists(st.integers(0, rows - 1), min_size=1, max_size=5).map(torch.tensor),
        )
    )
    assert_rows(
        everything(rows)[index], np.arange(rows)[index if not torch.is_tensor(index) else index.numpy()].tolist()
    )


def test_an_empty_slice_takes_no_rows_and_steps_are_kept():
    assert_rows(everything(5)[0:0], [])
    assert_rows(everything(5)[::2], [0, 2, 4])
    assert_rows(everything(5)[7:], [])


def test_a_slice_leaves_its_source_as_it_was():
    batch = everything(4)
    batch.info_dict, batch.info_tensor, batch.none = {"t": [1, 2, 3, 4]}, torch.arange(4), None
    names, before = list(batch.keys()), copy.deepcopy(batch)
    for index in (0, slice(0, 1), [1], np.array([True, False, False, True])):
        part = batch[index]
        part.new = 1
        del part.array, part.infos
        part.info_dict.clear()
    assert list(batch.keys()) == names
    assert_identical(batch, before)


@given(cuts=st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_cat_keeps_every_row_of_every_field_in_order(cuts):
    batch, parts, expected = everything(8), [], []
    for cut in cuts:
        parts.append(batch[cut:])
        expected += range(cut, 8)
    assert_rows(Batch.cat(parts), expected)


def test_stack_of_rows_gives_the_rows_back():
    batch = everything(6)
    assert_rows(Batch.stack(list(batch)), list(range(6)))
    del batch.dist
    assert Batch(batch.to_list_of_dicts()).to_dict().keys() == batch.to_dict().keys()
