"""Batches with different fields, joined: gaps are filled or refused, and the order is fixed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array, assert_shows
from typedbatch import Batch, errors
from typedbatch.errors import TypedBatchError


def test_stack_fills_what_some_lack_with_zeros():
    first = Batch(a=np.ones((2, 3)), shared=np.array([1, 2]))
    second = Batch(b=np.zeros((2, 4)), shared=np.array([3, 4]))
    stacked = Batch.stack([first, second])
    assert_shows(
        stacked,
        """
        Batch(
            a: array([[[1., 1., 1.],
                       [1., 1., 1.]],

                      [[0., 0., 0.],
                       [0., 0., 0.]]]),
            shared: array([[1, 2],
                           [3, 4]]),
            b: array([[[0., 0., 0., 0.],
                       [0., 0., 0., 0.]],

                      [[0., 0., 0., 0.],
                       [0., 0., 0., 0.]]]),
        )
        """,
    )


def test_stack_fills_at_every_depth():
    first = Batch(a=np.zeros([4, 4]), common=Batch(c=np.zeros([4, 5])))
    second = Batch(b=np.zeros([4, 6]), common=Batch(c=np.zeros([4, 5])))
    stacked = Batch.stack([first, second])
    assert stacked.a.shape == (2, 4, 4)
    assert stacked.b.shape == (2, 4, 6)
    assert stacked.common.c.shape == (2, 4, 5)


def test_stack_fills_integers_with_integer_zeros():
    stacked = Batch.stack([Batch(a=[1, 2]), Batch(b=[3, 4])])
    assert_array(stacked.a, [[1, 2], [0, 0]], "int64")
    assert_array(stacked.b, [[0, 0], [3, 4]], "int64")


def test_stack_fills_objects_with_none():
    stacked = Batch.stack((Batch(a=np.array([0.0, 2.0])), Batch(a=np.array([1.0, 3.0]), b="done")))
    assert_shows(
        stacked,
        """
        Batch(
            a: array([[0., 2.],
                      [1., 3.]]),
            b: array([None, 'done'], dtype=object),
        )
        """,
    )


def test_cat_fills_when_asked_to():
    first = Batch(a=np.ones([3, 4]), common=Batch(c=np.ones([3, 5])))
    second = Batch(b=np.ones([4, 3]), common=Batch(c=np.ones([4, 5])))
    joined = Batch.cat([first, second], missing="pad")
    assert list(joined.keys()) == ["a", "common", "b"]
    assert_array(joined.a, np.concatenate([np.ones((3, 4)), np.zeros((4, 4))]))
    assert_array(joined.b, np.concatenate([np.zeros((3, 3)), np.ones((4, 3))]))
    assert_array(joined.common.c, np.ones((7, 5)))


@pytest.mark.parametrize(
    "join", [Batch.cat, lambda batches: Batch.stack(batches, missing="error")], ids=["cat", "stack when asked to"]
)
def test_different_fields_are_refused_and_named(join):
    with pytest.raises(ValueError, match=r"(?s)'a'.*'b'"):
        join([Batch(a=[1, 2]), Batch(b=[3, 4])])


def test_stack_along_another_axis_cannot_fill():
    with pytest.raises(ValueError, match="axis"):
        Batch.stack([Batch(a=np.zeros((2, 2))), Batch(b=np.zeros((2, 2)))], axis=1)


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
@pytest.mark.parametrize("parts", [[Batch(a=[1]), Batch(a=[2])], [Batch(a=[1]), Batch(b=[2])]], ids=["same", "other"])
def test_a_misspelt_missing_policy_is_no_policy(join, parts):
    with pytest.raises(TypedBatchError, match="eror"):
        join(parts, missing="eror")


@pytest.mark.parametrize("swap", [False, True], ids=["first lacks", "second lacks"])
def test_a_field_that_one_item_lacks_is_never_dropped(swap):
    pair = [Batch(a=[1], n={"x": [1]}), Batch(a=[2], n={"x": [2], "y": [3]}, b=["text"], t=torch.ones(1))]
    pair = pair[::-1] if swap else pair
    for joined in (Batch.stack(pair), Batch.cat(pair, missing="pad"), Batch([part.to_dict() for part in pair])):
        assert set(joined.keys()) == {"a", "n", "b", "t"}
        assert set(joined.n.keys()) == {"x", "y"}
        assert len(joined) == 2
        assert len(joined.n.y) == len(joined.b) == len(joined.t) == 2
    with pytest.raises(errors.StructureError, match="'b'"):
        Batch.cat(pair)
    with pytest.raises(errors.StructureError, match="'b'"):
        Batch.stack(pair, missing="error")


@pytest.mark.parametrize("gap", [{}, Batch()], ids=["dict", "Batch"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_empty_row_is_a_row(gap, position):
    rows: list[Any] = [{"a": 1}, {"a": 2}]
    rows.insert(position, gap)
    for stacked in (Batch.stack(rows), Batch(rows)):
        expected = [1, 2]
        expected.insert(position, 0)
        assert_array(stacked.a, expected)


def test_fields_reserved_by_all_stay_reserved():
    batches = [Batch(a=Batch(), b=[1]), Batch(a=Batch(), b=[2])]
    assert Batch.stack(batches).a == Batch()
    assert Batch.cat(batches).a == Batch()


def test_a_field_reserved_by_some_is_filled():
    batches = [Batch(a=Batch(), b=[1, 2]), Batch(a=[5], b=[3])]
    assert_array(Batch.cat(batches).a, [0, 0, 5])
    assert_array(Batch.stack([Batch(a=Batch(), b=1), Batch(a=5, b=3)]).a, [0, 5])


def test_growing_a_batch_of_reserved_fields_equals_joining_with_it():
    base, more = Batch(a=Batch()), Batch(a=[1])
    joined = Batch.cat([base, more])
    base.cat_([more])
    assert base == joined == Batch(a=[1])


def test_fields_keep_the_order_in_which_they_are_first_seen():
    batches = [Batch(z=[1], b=[1]), Batch(y=[1], b=[2]), Batch(a=[1], z=[3])]
    assert list(Batch.stack(batches).keys()) == ["z", "b", "y", "a"]
    assert list(Batch.cat(batches, missing="pad").keys()) == ["z", "b", "y", "a"]
    assert list(Batch([{"z": 1}, {"a": 1, "z": 2}]).keys()) == ["z", "a"]


ORDER = """
from typedbatch import Batch
names = ["obs", "act", "rew", "done", "info", "policy", "weight", "adv"]
parts = [Batch({name: [i] for name in names[i:i + 5]}) for i in range(4)]
rows = Batch([part.to_dict() for part in parts])
for joined in (Batch.stack(parts), Batch.cat(parts, missing="pad"), rows, parts[0] + parts[0]):
    print(list(joined.keys()))
print(Batch(s={"c", "a", "b"}))
try:
    Batch.cat(parts)
except ValueError as error:
    print(error)
try:
    Batch(a=1)[0] = Batch.stack(parts)
except ValueError as error:
    print(error)
"""


def test_order_and_texts_do_not_depend_on_the_hash_seed():
    printed = [
        subprocess.run(
            [sys.executable, "-c", ORDER],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "77")
    ]
    assert "['obs', 'act', 'rew', 'done', 'info', 'policy', 'weight', 'adv']" in printed[0]
    assert len(set(printed)) == 1
