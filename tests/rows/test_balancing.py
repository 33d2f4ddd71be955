"""Parts of equal length and bins of so many tokens: each row in one of them, and all back in order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.helpers import assert_identical
from typedbatch import Batch, ObsBatch
from typedbatch.errors import LeafError, SizeError, StructureError
from typedbatch.rows import balance, bins, restore

LENGTHS = st.lists(st.integers(0, 50), min_size=1, max_size=24)


def some(rows: int) -> Batch:
    return Batch(a=np.arange(rows), t=torch.arange(rows), uid=np.array([f"row {i}" for i in range(rows)], object))


def totals(lengths, parts) -> list[int]:
    return [int(np.asarray(lengths)[rows].sum()) for rows in parts]


@given(LENGTHS, st.data())
def test_parts_have_each_row_once_and_are_put_back_in_order(lengths, data):
    parts = balance(lengths, data.draw(st.integers(1, len(lengths))), equal=False)
    batch = some(len(lengths))
    assert all(np.array_equal(rows, np.sort(rows)) for rows in parts)
    assert_identical(restore([batch[rows] for rows in parts], parts), batch)


@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_equal_parts_have_as_many_rows(parts, rows, data):
    lengths = data.draw(st.lists(st.integers(0, 50), min_size=parts * rows, max_size=parts * rows))
    found = balance(lengths, parts)
    assert [len(part) for part in found] == [rows] * parts
    assert_identical(restore([some(len(lengths))[i] for i in found], found), some(len(lengths)))


def test_parts_are_as_the_differencing_method_has_them():
    # 8, 7, 6, 5, 4: the differences 8 - 7, 6 - 5, then 4 - 1, then 3 - 1 leave 16 and 14
    assert sorted(totals([8, 7, 6, 5, 4], balance([8, 7, 6, 5, 4], 2, equal=False))) == [14, 16]
    assert totals([1, 2, 3, 4], balance([1, 2, 3, 4], 2)) == [5, 5]


def slowly_differenced(lengths: list[int], parts: int) -> list[tuple[int, int]]:
    """Total and rows of each part, with every part of every partition written down, empty ones too."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    left = [(number, [(lengths[row], 1)] + [(0, 0)] * (parts - 1)) for number, row in enumerate(order)]
    while len(left) > 1:
        left.sort(key=lambda one: (one[1][-1][0] - one[1][0][0], one[0]))
        (number, one), (_, two), *rest = left
        merged = [(a + c, b + d) for (a, b), (c, d) in zip(one, reversed(two), strict=True)]
        left = [(number, sorted(merged, reverse=True)), *rest]
    return left[0][1]


@given(st.lists(st.integers(0, 8) | st.integers(0, 1000), min_size=1, max_size=40), st.data())
def test_parts_have_the_totals_and_rows_of_a_slow_reference(lengths, data):
    parts = data.draw(st.integers(1, len(lengths)))
    found = balance(lengths, parts, equal=False)
    assert list(zip(totals(lengths, found), map(len, found), strict=True)) == slowly_differenced(lengths, parts)


def test_many_rows_into_many_parts():
    lengths = np.random.default_rng(0).lognormal(6, 1, 100_000).astype(int)
    found = balance(lengths, 50_000, equal=False)
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(100_000))
    assert max(totals(lengths, found)) == lengths.max()


@given(st.lists(st.integers(1, 30), min_size=6, max_size=6))
def test_parts_are_not_far_from_the_best(lengths):
    found = max(totals(lengths, balance(lengths, 2)))
    best = min(max(sum(lengths) - sum(chosen), sum(chosen)) for chosen in itertools.combinations(lengths, 3))
    assert best <= found <= best + max(lengths) - min(lengths)


def test_balanced_parts_are_closer_than_those_in_order():
    lengths = np.random.default_rng(0).lognormal(6, 1, 1024).astype(int)
    found = totals(lengths, balance(lengths, 8))
    in_order = totals(lengths, np.array_split(np.arange(1024), 8))
    assert max(found) - min(found) <= 0.03 * max(found)
    assert max(in_order) - min(in_order) > 0.1 * max(in_order)


@pytest.mark.parametrize("as_what", [list, lambda keys: np.array(keys, object)])
def test_rows_of_a_group_stay_together(as_what):
    keys = as_what(["a", "b", "c", "d"] * 3)
    parts = balance([5, 1, 1, 5] * 3, 2, groups=keys)
    assert totals([5, 1, 1, 5] * 3, parts) == [18, 18]
    for rows in parts:
        assert len(rows) == 6
        assert len({keys[row] for row in rows}) == 2
    assert [part.tolist() for part in balance([1, 1, 9], 2, equal=False, groups=torch.tensor([4, 4, 2]))] == [
        [2],
        [0, 1],
    ]


@given(LENGTHS, st.integers(50, 200), st.integers(1, 3))
def test_bins_have_each_row_once_and_no_more_than_so_many_tokens(lengths, tokens, multiple):
    lengths = [*lengths, *[1] * 48]  # enough rows for one more bin, or two, whatever the tokens
    found = bins(lengths, tokens, multiple=multiple)
    assert len(found) % multiple == 0
    assert all(len(rows) for rows in found)
    assert max(totals(lengths, found)) <= tokens
    assert_identical(restore([some(len(lengths))[i] for i in found], found), some(len(lengths)))


@given(LENGTHS, st.integers(50, 200))
def test_each_row_is_in_the_first_bin_with_room(lengths, tokens):
    expected: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        fits = (rows for rows in expected if sum(lengths[r] for r in rows) + lengths[row] <= tokens)
        own = next(fits, None)
        if own is None:
            expected.append([row])
        else:
            own.append(row)
    assert [rows.tolist() for rows in bins(lengths, tokens)] == [sorted(rows) for rows in expected]


def test_bins_are_first_fit_decreasing():
    assert [rows.tolist() for rows in bins([3, 7, 5, 5], 10)] == [[0, 1], [2, 3]]
    assert len(bins([3, 7, 5, 5], 10, multiple=3)) == 3
    assert bins([], 10) == []
    assert [rows.tolist() for rows in bins([3, 0, 7], 2**70)] == [[0, 1, 2]]
    assert [rows.tolist() for rows in bins([0, 0], 2**63 - 1)] == [[0, 1]]


def test_restore_keeps_the_class_and_takes_what_was_computed_of_each_part():
    record = ObsBatch(obs=np.arange(6).reshape(3, 2), info=Batch())
    rows = [np.array([2]), np.array([0, 1])]
    assert type(restore([record[i] for i in rows], rows)) is ObsBatch
    assert restore([Batch(y=[20]), Batch(y=[0, 10])], [[2], [0, 1]]).y.tolist() == [0, 10, 20]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: balance([1, 2], 0), SizeError, "the number of parts is 1 or more, got 0"),
        (lambda: balance([1, -2], 1), SizeError, "lengths are whole numbers from 0 up"),
        (lambda: balance([1.5], 1), SizeError, "lengths are whole numbers from 0 up"),
        (lambda: balance([1, 2], 3), SizeError, "2 rows cannot be cut into 3 parts"),
        (lambda: balance([1, 2, 3], 2), SizeError, "3 rows cannot be cut into 2 equal parts; give equal=False"),
        (lambda: balance([1, 2, 3], 2, groups=[1, 1]), StructureError, r"one key for each of 3 rows, got shape \[2\]"),
        (lambda: balance([1, 2, 3], 2, groups=[1, 1, 1]), SizeError, "1 groups cannot be cut into 2 parts"),
        (lambda: balance([1, 2, 3], 2, groups=[1, 1, 2]), SizeError, "groups of different sizes"),
        (lambda: bins([3, 20], 10), SizeError, "row 1 has 20 tokens, more than a bin of 10 can hold"),
        (lambda: bins([3], 0), SizeError, "tokens is 1 or more, got 0"),
        (lambda: bins([3], 10, multiple=0), SizeError, "multiple is 1 or more, got 0"),
        (lambda: bins([3], 10, multiple=2), SizeError, r"1 rows cannot fill 2 bins, a multiple of 2; pad_rows\(\)"),
        (lambda: restore([some(2)], [[0, 2]]), SizeError, "those from 0 to 1, each exactly once"),
        (lambda: restore([some(2)], [[0, 0]]), SizeError, "each exactly once"),
        (lambda: balance([1, 2], 2**70), SizeError, f"2 rows cannot be cut into {2**70} parts"),
        (lambda: balance([2**62] * 4, 2), SizeError, f"lengths sum up to {2**64} rows"),
        (lambda: bins([2**62] * 4, 2**63), SizeError, f"lengths sum up to {2**64} rows"),
        (lambda: bins([3], 10, multiple=2**70), SizeError, f"1 rows cannot fill {2**70} bins"),
        (
            lambda: balance([1, 2], 1, groups=np.ma.masked_array([1, 1], [0, 1])),
            StructureError,
            "must have one key for each row",
        ),
        (lambda: restore([some(2)], [[2**62, 2**62]]), SizeError, "those from 0 to 1, each exactly once"),
        (lambda: restore([some(1)], [[-1]]), SizeError, "row numbers are whole numbers from 0 up"),
        (lambda: restore([some(2)], [[0]]), SizeError, "part 0 has 2 rows, but 1 row numbers"),
        (lambda: restore([some(2)], []), SizeError, "got 0 for 1 parts"),
        (lambda: restore([{"a": [1]}], [[0]]), LeafError, r"restore\(\) takes a Batch, got dict"),
        (lambda: restore([some(1), Batch(b=[1])], [[0], [1]]), StructureError, "fields"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
