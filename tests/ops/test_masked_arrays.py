"""Masked values stay masked, or are refused: what lies under a mask is never taken for data."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from typedbatch import Batch
from typedbatch._ops.equality import differences
from typedbatch.errors import LeafError, RowAssignmentError

NO_DATA = 1e20


def measured() -> np.ma.MaskedArray[Any, Any]:
    return np.ma.array([1.0, NO_DATA, 3.0], mask=[False, True, False])


def assert_masked(value: Any, expected: list[Any]) -> None:
    """``None`` stands for what is masked."""
    assert isinstance(value, np.ma.MaskedArray)
    assert value.tolist() == expected


@pytest.mark.parametrize(
    "column",
    [np.zeros(3), np.zeros(3, np.float32), torch.zeros(3), np.array([None] * 3)],
    ids=["float64", "float32", "tensor", "objects"],
)
def test_a_column_without_a_mask_refuses_masked_rows(column: Any) -> None:
    batch = Batch(first=np.zeros(3), a=column)
    before = copy.deepcopy(batch)
    for index, value in ((slice(None), measured()), ([0, 1], measured()[:2]), (slice(1, 2), measured()[1:2])):
        with pytest.raises(RowAssignmentError, match=r"field 'a': some values are masked, .* filled\(0\)"):
            batch[index] = {"first": 9.0, "a": value}
    assert batch == before
    batch[:2] = {"first": 9.0, "a": measured()[[0, 2]]}  # none of these is masked
    assert list(batch.a)[:2] == [1, 3]


def test_a_masked_number_is_refused_too() -> None:
    batch = Batch(a=np.zeros(2))
    for row in ({"a": np.ma.masked}, Batch(a=measured())[1]):
        with pytest.raises(RowAssignmentError, match="masked"):
            batch[0] = row
    assert batch.a.tolist() == [0, 0]


def test_a_column_with_a_mask_takes_masked_rows_and_plain_ones() -> None:
    batch = Batch(a=measured(), i=np.ma.array([1, 2, 3]))
    batch[:2] = Batch(a=measured(), i=np.ma.array([7, 10**12, 9], mask=[False, True, False]))[1:]
    assert_masked(batch.a, [None, 3.0, 3.0])
    assert_masked(batch.i, [None, 9, 3])
    batch[0] = {"a": 5.0, "i": 5}
    batch[2] = batch[0]
    assert_masked(batch.a, [5.0, 3.0, 5.0])
    batch.empty_([1])
    assert_masked(batch.i, [5, 0, 5])


def test_what_lies_under_a_mask_need_not_fit_the_dtype() -> None:
    batch = Batch(a=np.ma.zeros(2, np.int8))
    batch[:] = {"a": np.ma.array([1000, 2], mask=[True, False])}
    assert_masked(batch.a, [None, 2])
    with pytest.raises(RowAssignmentError, match="unchanged"):
        batch[:] = {"a": np.ma.array([1000, 2], mask=[False, True])}


def test_masks_are_joined_with_their_arrays() -> None:
    masked, plain = Batch(a=measured()), Batch(a=np.array([4.0]))
    assert_masked(Batch.cat([masked, plain]).a, [1.0, None, 3.0, 4.0])
    assert_masked(Batch.cat([plain, masked]).a, [4.0, 1.0, None, 3.0])
    assert_masked(np.concatenate([masked, masked]).a, [1.0, None, 3.0] * 2)
    assert_masked(Batch.stack([masked, Batch(a=np.ones(3))]).a, [[1.0, None, 3.0], [1.0, 1.0, 1.0]])
    assert_masked(Batch.stack([masked, masked], axis=1).a, [[1.0, 1.0], [None, None], [3.0, 3.0]])
    assert_masked(Batch([{"a": measured()}, {"a": measured()}]).a, [[1.0, None, 3.0]] * 2)
    assert_masked(Batch.cat([Batch(a=measured(), b=np.ones(3)), Batch(b=np.ones(1))], "pad").a, [1.0, None, 3.0, 0.0])


def test_rows_with_masked_numbers_stack_to_what_they_came_from() -> None:
    numbers = np.ma.array([1, 2, 3], mask=[False, True, False])
    again = Batch.stack(list(Batch(a=numbers, b=[1, 2, 3])))
    assert_masked(again.a, [1, None, 3])
    assert again.a.dtype == numbers.dtype


def test_a_list_of_masked_arrays_is_one() -> None:
    assert_masked(Batch(a=[measured(), measured()]).a, [[1.0, None, 3.0]] * 2)
    assert_masked(Batch(a=[1.0, np.ma.masked]).a, [1.0, None])
    with pytest.raises(LeafError, match=r"field 'a': .*f64\[3\], f64\[1\] do not stack"):
        Batch(a=[measured(), measured()[:1]])


def test_copies_rows_and_pickles_keep_the_mask() -> None:
    batch = Batch(a=measured(), b=[1, 2, 3])
    for same in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch)), batch[:], batch[[0, 1, 2]]):
        assert_masked(same.a, [1.0, None, 3.0])
    assert_masked(Batch.cat(list(batch.split(2, shuffle=False))).a, [1.0, None, 3.0])


def test_a_tensor_is_made_of_what_is_not_masked_alone() -> None:
    with pytest.raises(LeafError, match="field 'a': a masked array cannot become a tensor: some values are masked"):
        Batch(a=measured()).to_torch()
    assert Batch(a=measured()[[0, 2]]).to_torch().a.tolist() == [1, 3]


def test_arithmetic_leaves_masked_values_alone() -> None:
    batch = Batch(a=measured())
    assert_masked((batch + 1).a, [2.0, None, 4.0])
    assert_masked((Batch(a=np.ones(3)) + batch).a, [2.0, None, 4.0])
    batch *= 2
    assert_masked(batch.a, [2.0, None, 6.0])
    plain = Batch(first=np.zeros(3), a=np.zeros(3))
    with pytest.raises(LeafError, match="field 'a': some values are masked"):
        plain += Batch(first=np.ones(3), a=measured())
    assert plain.first.tolist() == plain.a.tolist() == [0, 0, 0]


def test_a_masked_value_is_missing() -> None:
    batch = Batch(
        a=measured(), n={"b": np.ma.array([[1, 2], [3, 4], [5, 6]], mask=[[0, 0], [0, 0], [1, 0]])}, c=[1, 2, 3]
    )
    assert batch.hasnull()
    assert batch.isnull().a.tolist() == [False, True, False]
    assert type(batch.isnull().a) is np.ndarray
    assert batch.isnull().n.b.tolist() == [[False, False], [False, False], [True, False]]
    assert batch.dropnull().c.tolist() == [1]
    assert not Batch(a=measured()[[0, 2]]).hasnull()
    assert Batch(o=np.array([np.ma.masked, "x"], object)).isnull().o.tolist() == [True, False]
    parts = np.ma.array([(1, 2.0), (3, 4.0)], [("x", int), ("y", float)], mask=[(0, 1), (0, 0)])
    assert Batch(s=parts).isnull().s.tolist() == [True, False]


def test_masks_count_in_equality_and_what_is_under_them_does_not() -> None:
    one, other = Batch(a=measured()), Batch(a=np.ma.array([1.0, 5.0, 3.0], mask=[0, 1, 0]))
    plain = Batch(a=np.array([1.0, NO_DATA, 3.0]))
    moved = Batch(a=np.ma.array([1.0, NO_DATA, 3.0], mask=[1, 0, 0]))
    assert one == copy.deepcopy(one) == other
    assert one.allclose(other)
    for different in (plain, moved, Batch(a=torch.tensor([1.0, NO_DATA, 3.0], dtype=torch.float64))):
        assert one != different
        assert different != one
        assert not one.allclose(different)
    assert Batch(a=np.ma.array([1.0, 2.0])) == Batch(a=[1.0, 2.0]) == Batch(a=np.ma.array([1.0, 2.0]))
    assert not one.allclose(Batch(a=np.ma.array([1.0, NO_DATA, 3.5], mask=[0, 1, 0])))


def test_differences_tell_masks_from_values() -> None:
    masked = Batch(a=measured())
    assert differences(masked, Batch(a=np.array([1.0, NO_DATA, 3.0]))) == [
        "a  1 of 3 values is masked on one side only"
    ]
    (line,) = differences(masked, Batch(a=np.ma.array([1.0, 0.0, 4.0], mask=[0, 1, 0])))
    assert line == "a  1 of 2 values differs, the first at [1]: 3.0 != 4.0 (of those that are not masked)"


def test_a_new_masked_field_is_masked_where_it_got_no_value() -> None:
    batch = Batch(x=[1, 2, 3])
    batch.set_array_at_key(np.ma.array([5, 6]), "a", [0, 2])
    assert_masked(batch.a, [5, None, 6])
    assert len(batch.dropnull()) == 2
