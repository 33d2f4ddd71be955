"""A batch cut into pieces, in order or shuffled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array
from typedbatch import Batch, BatchRecord
from typedbatch.errors import StructureError


def test_split_shuffles_by_default_and_keeps_rows_together():
    large = Batch(obs=np.arange(400).reshape(100, 4), act=np.arange(100))
    first = next(large.split(32))
    assert len(first) == 32
    assert_array(first.obs[:, 0], first.act * 4)
    everything = Batch.cat(list(large.split(32)))
    assert sorted(everything.act.tolist()) == list(range(100))
    np.random.seed(3)
    assert not np.array_equal(Batch.cat(list(large.split(32))).act, np.arange(100))


def test_split_is_lazy_and_follows_numpys_global_seed():
    batch = Batch(a=np.arange(20))
    pieces = batch.split(6)
    assert isinstance(pieces, Iterator)
    np.random.seed(5)
    first = [piece.a.tolist() for piece in batch.split(6)]
    np.random.seed(5)
    assert [piece.a.tolist() for piece in batch.split(6)] == first


UNEQUAL = r"split\(\) uses the first 2 rows, the length of the shortest field, and drops the rest: a has 3, c\.d has 4"


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_plain_batch_of_unequal_fields_is_cut_to_its_shortest_with_a_warning(shuffle):
    batch = Batch(a=np.arange(3), b=np.ones((2, 2, 3)), c=Batch(d=torch.arange(4)))
    with pytest.warns(UserWarning, match=UNEQUAL) as caught:
        pieces = list(batch.split(1, shuffle))
    assert caught[0].filename == __file__
    assert sorted(piece.a.item() for piece in pieces) == [0, 1]
    assert all(piece.c.d.tolist() == piece.a.tolist() and piece.b.shape == (1, 2, 3) for piece in pieces)


def test_the_documented_split_of_stacked_batches_runs():
    b3 = Batch(a=np.zeros((3, 2)), b=np.ones((2, 3)), c=Batch(d=[[1], [2]]))
    stacked = Batch.stack((b3, Batch(a=np.ones((3, 2)), b=np.ones((2, 3)), c=Batch(d=[[0], [3]]))), axis=1)
    with pytest.warns(UserWarning, match="a has 3"):
        pieces = list(stacked.split(1, shuffle=True))
    assert [(p.a.shape, p.b.shape, p.c.d.shape) for p in pieces] == [((1, 2, 2), (1, 2, 3), (1, 2, 1))] * 2


class Pair(BatchRecord):
    a: np.ndarray
    b: np.ndarray


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_record_of_unequal_fields_is_refused_before_the_first_piece(shuffle):
    batch = Pair(a=np.zeros(3), b=np.ones(2))
    with pytest.raises(StructureError, match=r"different lengths: a has 3, others 2; rows would be lost"):
        batch.split(1, shuffle)


def test_a_generator_of_torch_shuffles_as_torch_itself():
    batch = Batch(a=np.arange(9), t=torch.arange(9))
    pieces = list(batch.split(4, rng=torch.Generator().manual_seed(3)))
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3)).tolist()
    assert [row for piece in pieces for row in piece.t.tolist()] == order
    assert [row for piece in pieces for row in piece.a.tolist()] == order


@pytest.mark.parametrize("size", [0, -2])
def test_split_refuses_a_size_that_makes_no_rows(size):
    with pytest.raises(AssertionError, match=str(size)):
        list(Batch(a=[1, 2]).split(size))


def test_split_of_nothing_gives_nothing():
    assert list(Batch().split(3)) == []
    assert list(Batch(a=np.zeros((0, 2))).split(3)) == []
