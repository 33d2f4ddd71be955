"""Batches without fields or rows, fields that are reserved, and rows that are cleared."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array, assert_shows, rollout
from typedbatch import Batch


def test_a_reserved_field_prints_empty_and_is_filled_later():
    batch = Batch(known_field=np.array([1, 2]), future_field=Batch())
    assert_shows(
        batch,
        """
        Batch(
            known_field: array([1, 2]),
            future_field: Batch(),
        )
        """,
    )
    batch.future_field = np.array([3, 4])
    assert_shows(
        batch,
        """
        Batch(
            known_field: array([1, 2]),
            future_field: array([3, 4]),
        )
        """,
    )


def test_fields_are_reserved_inside_fields():
    batch = Batch(obs=Batch(camera=Batch(), lidar=np.zeros(10)))
    assert_shows(
        batch,
        """
        Batch(
            obs: Batch(
                     camera: Batch(),
                     lidar: array([0., 0., 0., 0., 0., 0., 0., 0., 0., 0.]),
                 ),
        )
        """,
    )
    deep = Batch(b=Batch(c=Batch()), d=Batch())
    assert list(deep.keys()) == ["b", "d"]
    assert deep.b.c == Batch()


def test_a_reserved_field_reads_while_an_unknown_one_does_not():
    assert Batch(b=Batch()).b == Batch()
    with pytest.raises(AttributeError):
        _ = Batch().b


def test_reserved_fields_become_none_at_every_depth():
    batch = Batch(r=Batch(), n={"r": Batch(), "a": [1]}, a=[2])
    nested = batch.n
    batch.replace_empty_batches_by_none()
    assert batch.r is None
    assert batch.n is nested
    assert nested.r is None
    assert_array(nested.a, [1])


@pytest.mark.parametrize(
    ("batch", "keys"),
    [(Batch(), 0), (Batch(a=Batch(), b=Batch()), 2), (Batch(a=np.array([]), b=np.array([])), 2)],
    ids=["no fields", "reserved fields", "no rows"],
)
def test_three_ways_to_be_empty_have_length_zero(batch, keys):
    assert len(batch.get_keys()) == keys
    assert len(batch) == 0
    assert list(batch) == []


@pytest.mark.parametrize(
    ("batch", "empty", "empty_throughout"),
    [
        (Batch(), True, True),
        (Batch(a=Batch(), b=Batch(c=Batch())), False, True),
        (Batch(d=1), False, False),
        (Batch(a=np.float64(1.0)), False, False),
        (Batch(a=Batch(b=[1])), False, False),
        (Batch(a=None), False, False),
    ],
    ids=["no fields", "reserved", "number", "numpy number", "nested list", "none"],
)
def test_is_empty_looks_at_fields_or_at_leaves(batch, empty, empty_throughout):
    assert batch.is_empty() is empty
    assert batch.is_empty(recurse=True) is empty_throughout


def test_an_emptied_row_goes_back_into_its_batch_without_a_warning():
    batch = Batch(a=[1, 2, 3], b=["x", "y", "z"])
    batch[0] = Batch.empty(batch[0])
    assert_shows(
        batch,
        """
        Batch(
            a: array([0, 2, 3]),
            b: array([None, 'y', 'z'], dtype=object),
        )
        """,
    )


def test_an_emptied_row_of_a_nested_batch():
    batch = Batch(a=[False, True], b={"c": [2.0, "st"], "d": [1.0, 0.0]})
    batch[0] = Batch.empty(batch[1])
    assert_shows(
        batch,
        """
        Batch(
            a: array([False,  True]),
            b: Batch(
                   c: array([None, 'st'], dtype=object),
                   d: array([0., 0.]),
               ),
        )
        """,
    )


def test_empty_gives_zeros_and_leaves_the_source():
    batch = rollout()
    batch.note = ["x", "y", "z"]
    cleared = Batch.empty(batch)
    assert_array(cleared.obs.cam, np.zeros((3, 2)), "float64")
    assert cleared.act.tolist() == [0, 0, 0]
    assert_array(cleared.note, [None] * 3)
    assert batch.rew[0] == 1.0


def test_empty_only_at_an_index():
    batch = Batch(a=[1, 2, 3], o=["x", "y", "z"], n={"t": torch.tensor([1, 2, 3])})
    cleared = Batch.empty(batch, index=[0, 2])
    assert_array(cleared.a, [0, 2, 0])
    assert_array(cleared.o, [None, "y", None])
    assert cleared.n.t.tolist() == [0, 2, 0]
    assert_array(batch.a, [1, 2, 3])


def test_empty_of_a_row_gives_zeros_of_the_same_kind():
    row = Batch.empty(Batch(a=[1, 2], b=[1.5, 2.5], c=[True, False], o=["x", "y"])[0])
    assert (row.a, row.b, row.c, row.o) == (0, 0.0, False, None)
    assert (type(row.a), type(row.b), type(row.c)) == (np.int64, np.float64, np.bool_)


def test_empty_in_place_zeroes_numbers_and_clears_objects():
    data = Batch.stack((Batch(a=np.array([0.0, 2.0])), Batch(a=np.array([1.0, 3.0]), b="done")))
    array = data.a
    data.empty_()
    assert_shows(
        data,
        """
        Batch(
            a: array([[0., 0.],
                      [0., 0.]]),
            b: array([None, None], dtype=object),
        )
        """,
    )
    assert data.a is array


def test_empty_in_place_writes_into_the_arrays_and_returns_the_batch():
    array, tensor = np.array([1, 2]), torch.tensor([1, 2])
    batch = Batch(a=array, n={"t": tensor})
    assert batch.empty_(0) is batch
    assert_array(array, [0, 2])
    assert tensor.tolist() == [0, 2]
    batch.empty_()
    assert_array(array, [0, 0])
    assert tensor.tolist() == [0, 0]
