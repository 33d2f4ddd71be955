"""Rules for data of tokens: what is right passes, what is wrong is named by its rows, under numpy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.validation.helpers import Array
from typedbatch import Batch, BatchRecord, SchemaError, validate
from typedbatch.rows import groups
from typedbatch.rules import groups_centered, groups_ordered, has_counted_token, logp_aligned, mask_matches

ROWS, TOKENS = 8, 12


class Ready(BatchRecord):
    mask: Any
    length: Any
    adv: Any
    uid: Any
    old: Any
    sampled: Any = None

    lengths = mask_matches("mask", "length")
    counts = has_counted_token("mask", each_row=True)
    centred = groups_centered("adv", "uid", mask="mask")
    aligned = logp_aligned("old", "sampled", mask="mask")


def data() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    mask = np.arange(TOKENS) < rng.integers(2, TOKENS + 1, ROWS)[:, None]
    score = rng.normal(size=(ROWS // 2, 2))
    old = -rng.exponential(size=(ROWS, TOKENS))
    return {
        "mask": mask,
        "length": mask.sum(1),
        "adv": (score - score.mean(1, keepdims=True)).reshape(-1)[:, None] * mask,
        "uid": np.array([f"prompt {row // 2}" for row in range(ROWS)], object),
        "old": old,
        "sampled": old + 0.02 * rng.normal(size=old.shape),
    }


def masked(row: int) -> dict[str, Array]:
    mask = data()["mask"].copy()
    mask[row] = False
    return {"mask": mask, "length": mask.sum(1)}


@pytest.mark.parametrize("kind", ["numpy", "torch", "bfloat16 masks"])
@pytest.mark.parametrize(
    ("changes", "says", "hint"),
    [
        ({}, "", ""),
        ({"sampled": None}, "", ""),
        ({"sampled": -np.random.default_rng(1).exponential(size=(ROWS, TOKENS))}, "", ""),
        (
            {"length": data()["length"] + (np.arange(ROWS) % 3 == 0)},
            "not so in 3 of 8 rows: each row of mask has length tokens, the first at [0]",
            "the rule Ready.lengths  rows 0, 3, 6",
        ),
        (
            masked(3),
            "not so in 1 of 8 rows: mask counts a token in each row, the first at [3]",
            "the rule Ready.counts",
        ),
        (
            {"adv": data()["adv"] + (data()["uid"] == "prompt 2")[:, None]},
            "not so in 2 of 8 rows: adv has mean 0 in each group of uid, the first at [4]",
            "the rule Ready.centred  rows 4, 5",
        ),
        *(
            (
                {"sampled": np.roll(data()["old"], by, axis=1)},
                "not so in 8 of 8 rows: old and sampled are of the same tokens, the first at [0]",
                "the rule Ready.aligned  rows 0, 1, 2, 3, 4, 5, 6, 7",
            )
            for by in (1, -1)
        ),
    ],
    ids=["right", "absent", "another policy", "lengths", "no token", "off centre", "shifted", "shifted back"],
)
def test_each_rule(changes: dict[str, Any], says: str, hint: str, kind: str):
    batch = Batch({**data(), **changes})
    if kind != "numpy":
        batch = batch.to_torch()
    if kind == "bfloat16 masks":
        batch.mask = batch.mask.to(torch.bfloat16)
    if not says:
        validate(batch, Ready, level="values")
        return
    with pytest.raises(SchemaError) as caught:
        validate(batch, Ready, level="values")
    assert [(problem.got, problem.hint) for problem in caught.value.problems] == [(says, hint)]


def test_a_batch_may_leave_samples_out_of_the_loss():
    leaves_out = has_counted_token("mask")
    assert leaves_out(Batch(mask=masked(3)["mask"]))
    assert not leaves_out(Batch(mask=np.zeros((2, 3))))


def test_groups_that_are_not_judged():
    centred = groups_centered("adv", "uid", mask="mask")
    alone = Batch(adv=[1.0, 0.5, -0.5], uid=[0, 1, 1], mask=[1, 1, 1])
    assert centred(alone).tolist() == [True, True, True]
    without = Batch(adv=[[1.0], [0.0]], uid=[0, 0], mask=[[1], [0]])
    assert centred(without).tolist() == [True, True]


def test_advantages_of_rows_in_another_order():
    ordered = groups_ordered("adv", "rew", "uid", mask="mask")
    rew, uid = np.array([1.0, 0.0, 0.5, 0.5, 2.0]), np.array(["a", "b", "a", "b", "a"])
    mask = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [1, 1]])
    adv = np.array([-0.2, -0.3, -0.7, 0.3, 0.8])[:, None] * mask
    right = Batch(adv=adv, rew=rew, uid=uid, mask=mask)
    assert ordered(right).all()
    assert ordered(right.to_torch()).all()
    assert ordered(Batch(right, adv=np.zeros((5, 2)), rew=np.ones(5))).all()
    swapped = Batch(right, adv=adv[[4, 1, 2, 3, 0]])  # of rows 0 and 4, which are both of group "a"
    assert ordered(Batch(swapped, mask=np.ones((5, 2)))).tolist() == [False, True, True, True, False]
    unequal = Batch(right, rew=np.array([1.0, 0.5, 0.5, 0.5, 2.0]))
    assert ordered(unequal).tolist() == [True, False, True, False, True]
    out_of_loss = Batch(swapped, mask=mask * np.array([[1], [1], [1], [1], [0]]))
    assert ordered(out_of_loss).all()
    assert ordered(Batch(right)[:0]).tolist() == []


def test_values_that_differ_by_rounding_or_are_not_finite_are_in_order():
    ordered = groups_ordered("adv", "rew", "uid")
    batch = Batch(uid=np.zeros(3, int), rew=np.array([1, 1 + 1e-9, 2]), adv=np.array([-0.5, -0.5, 1.0]))
    assert ordered(batch).all()
    assert ordered(Batch(batch, rew=np.array([np.nan, 1.0, 2.0]))).all()
    assert ordered(Batch(batch, adv=np.array([0.0, 0.0, 0.0]))).tolist() == [True, False, False]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-10, 10).map(lambda x: round(x, 2))), min_size=1, max_size=20))
def test_advantages_of_groups_are_in_the_order_of_their_rewards(rows: list[tuple[int, float]]):
    batch = Batch(uid=np.array([uid for uid, _ in rows]), rew=np.array([rew for _, rew in rows]))
    by_uid = groups(batch, "uid")
    batch.adv = (batch.rew - by_uid.mean(batch.rew)) / (by_uid.std(batch.rew) + 1e-6)
    assert groups_ordered("adv", "rew", "uid")(batch).all()


def test_one_row_that_is_shifted():
    rows = -np.random.default_rng(2).exponential(size=(ROWS, 2 * TOKENS))
    other = rows.copy()
    other[5] = np.roll(rows[5], 1)
    assert logp_aligned("a", "b")(Batch(a=rows, b=other)).tolist() == [row != 5 for row in range(ROWS)]


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.1, 1.0, 10.0]))
def test_data_of_other_policies_is_not_taken_for_shifted(seed: int, apart: float):
    rng = np.random.default_rng(seed)
    old = -rng.exponential(size=(4, 32))
    assert logp_aligned("a", "b")(Batch(a=old, b=old + apart * rng.normal(size=old.shape))).all()


def test_the_rules_hold_for_a_batch_without_rows():
    none = np.zeros(0, int)
    empty = Ready(mask=np.zeros((0, 3)), length=none, adv=np.zeros((0, 3)), uid=none, old=np.zeros((0, 3)))
    assert validate(empty, Ready, level="values") is empty
