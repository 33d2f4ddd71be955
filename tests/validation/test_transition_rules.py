"""Rules that find the classic mistakes of stored transitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from typedbatch import Batch, BatchRecord, checking, validate
from typedbatch.errors import SchemaError
from typedbatch.rules import chained, moves, one_end
from typedbatch.testing import example

Array = NDArray[Any]


class Steps(BatchRecord):
    obs: Any
    obs_next: Any
    rew: Array
    terminated: Any
    truncated: Any

    ends = one_end()
    goes_on = moves()


class File(Steps):
    """Rows of a whole file, in time order."""

    in_order = chained()


def steps(count: int = 12, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    obs, obs_next = rng.normal(size=(count, 3)), rng.normal(size=(count, 3))
    fate = rng.random(count)
    ended = fate < 0.3
    obs[1:] = np.where(ended[:-1, None], obs[1:], obs_next[:-1])
    return Batch(
        obs=obs, obs_next=obs_next, rew=rng.normal(size=count), terminated=fate < 0.15, truncated=ended & (fate >= 0.15)
    )


def said(batch: Any, schema: Any = File) -> str:
    with checking("values"), pytest.raises(SchemaError) as error:
        validate(batch, schema)
    return str(error.value)


@given(st.integers(1, 20), st.integers(0, 100), st.booleans(), st.booleans())
def test_rows_in_time_order_are_right_and_so_are_slices_of_them(count, seed, nested, tensors):
    batch = steps(count, seed)
    if nested:
        batch = Batch(
            batch, obs={"a": batch.obs, "b": batch.obs[:, 0]}, obs_next={"a": batch.obs_next, "b": batch.obs_next[:, 0]}
        )
    batch = batch.to_torch() if tensors else batch
    batch.rew = np.zeros(count)
    with checking("values"):
        validate(batch, File)
        validate(batch[count // 3 :], File)


def test_each_mistake_is_said():
    right = steps()
    assert "obs is obs_next of the row before, unless an episode begins" in said(
        right[np.random.default_rng(0).permutation(12)]
    )
    shifted = Batch(right, obs_next=np.roll(right.obs_next, 1, 0))
    assert "obs is obs_next of the row before" in said(shifted)
    assert "obs_next is not obs in all rows" in said(Batch(right, obs_next=right.obs), Steps)
    both = Batch(right, terminated=np.ones(12, bool), truncated=np.arange(12) == 4)
    assert "a row is not both terminated and truncated" in said(both, Steps)
    reset = Batch(right, obs_next=np.where(right.truncated[:, None], np.roll(right.obs, -1, 0), right.obs_next))
    with checking("values"):
        validate(reset, File)  # what a reset returned cannot be told from a next observation
        validate(right[[3, 1, 2]], Steps)


def test_names_tolerance_and_numbers_that_are_none():
    class Own(BatchRecord):
        now: Array
        after: Array
        done: Array
        rows = chained("now", "after", "done", tolerance=0.1)

    batch = Batch(now=np.array([0.0, 1.04, np.nan]), after=np.array([1.0, np.nan, 3.0]), done=np.zeros(3))
    with checking("values"):
        validate(batch, Own)
    assert "now is after of the row before" in said(Batch(batch, now=np.array([0.0, 1.2, np.nan])), Own)


def test_examples_keep_the_rules():
    class Numbers(BatchRecord):
        obs: Array
        obs_next: Array
        terminated: Array
        truncated: Array
        ends, goes_on, in_order = one_end(), moves(), chained()

    with checking("values"):
        validate(example(Numbers, N=9), Numbers)


@pytest.mark.parametrize("name", ["obs_next", "terminated"])
def test_rules_hold_where_a_field_is_absent(name):
    class Few(BatchRecord):
        obs: Array
        in_order = chained()
        ends = one_end()
        goes_on = moves()

    batch = steps()
    del batch[name]
    with checking("values"):
        validate(batch, Few)
