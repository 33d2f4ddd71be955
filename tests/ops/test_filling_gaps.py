"""Batches with different fields, joined: gaps are filled or refused, and the order is fixed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.ops.helpers import assert_array, assert_shows
from typedbatch import Batch
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


@pytest.mark.parametrize("gap", [{}, Batch()], ids=["dict", "Batch"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_empty_row_is_a_row(gap, position):
    rows: list[Any] = [{"a": 1}, {"a": 2}]
    rows.insert(position, gap)
    for stacked in (Batch.stack(rows), Batch(rows)):
        expected = [1, 2]
        expected.insert(position, 0)
        assert_array(stacked.a, expected)


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
