"""Writing rows the short way and the long way is the same; what the short way cannot do is left to the long one."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.ops.helpers import assert_identical
from tests.strategies import numpy_batches, row_indices
from typedbatch import Batch
from typedbatch._ops import assignment
from typedbatch._ops.assignment import set_directly, write_rows
from typedbatch._ops.indexing import plain_index
from typedbatch._ops.writer import plain_arrays, plain_pairs
from typedbatch.errors import RowIndexError


def transitions(rows: int = 6) -> Batch:
    number = np.arange(rows)
    return Batch(
        obs={"cam": np.arange(rows * 4.0).reshape(rows, 2, 2).copy(), "pos": number.astype(np.float32)},
        act=number.copy(),
        rew=number / 2,
        done=number > 3,
        info=Batch(),
    )


def takes_short_way(batch: Batch, index: Any, rows: Any) -> bool:
    return plain_pairs(batch.__dict__, index, rows) is not None


def changed(batch: Batch) -> Batch:
    out: Batch = copy.deepcopy(batch)[::-1]
    return Batch.cat([out])


@pytest.mark.parametrize(
    "index", [2, -1, slice(1, 4), slice(None, None, -2), np.array([5, 0]), np.arange(6) > 2], ids=repr
)
def test_rows_as_the_columns_hold_them_go_the_short_way(index: Any) -> None:
    batch, rows = transitions(), changed(transitions())[index]
    expected = copy.deepcopy(batch)
    write_rows(expected.__dict__, index, rows.__dict__, strict=False)
    assert takes_short_way(batch, index, rows.__dict__)
    batch[index] = rows
    assert_identical(batch, expected)
    assert plain_arrays(batch.__dict__) is not None
    write_rows(expected.__dict__, index, {}, strict=False)
    assert_identical(batch.empty_(index), expected)


@given(st.data())
def test_both_ways_write_the_same(data: st.DataObject) -> None:
    batch, rows = data.draw(numpy_batches(min_rows=1)), None
    index = data.draw(row_indices(len(batch)))
    assume(index is not None)
    index = plain_index(index)
    rows = copy.deepcopy(batch)[::-1][index]
    short, long = copy.deepcopy(batch), copy.deepcopy(batch)
    write_rows(long.__dict__, index, rows.__dict__, strict=False)
    short[index] = rows
    assert_identical(short, long)
    write_rows(long.__dict__, index, {}, strict=False)
    assert_identical(copy.deepcopy(batch).empty_(index), long)


def read_only() -> np.ndarray[Any, Any]:
    array = np.zeros(3)
    array.setflags(write=False)
    return array


LEFT: dict[str, tuple[Any, Any, Any]] = {
    "a view of bytes": (lambda: np.frombuffer(bytearray(24)), 0, np.float64(1)),
    "a view of a view of bytes": (lambda: np.frombuffer(bytearray(32))[1:], 0, np.float64(1)),
    "a read-only view": (lambda: np.broadcast_to(np.zeros(1), 3), 0, np.float64(1)),
    "read-only": (read_only, 0, np.float64(1)),
    "a tensor": (lambda: torch.zeros(3), 0, torch.ones(())),
    "a masked array": (lambda: np.ma.zeros(3), 0, np.float64(1)),
    "None": (lambda: None, 0, None),
    "a scalar": (lambda: np.zeros(()), 0, np.float64(1)),
    "a number": (lambda: np.zeros(3), 0, 1.0),
    "another dtype": (lambda: np.zeros(3), 0, np.float32(1)),
    "dates of another unit": (lambda: np.zeros(3, "M8[ns]"), 0, np.datetime64("9999")),
    "an array of another dtype": (lambda: np.zeros(3), slice(0, 1), np.ones(1, np.float32)),
    "too many rows": (lambda: np.zeros(3), slice(0, 1), np.ones(2)),
    "rows to repeat": (lambda: np.zeros(3), slice(0, 2), np.ones(1)),
    "out of range": (lambda: np.zeros(3), 3, np.float64(1)),
    "rows out of range": (lambda: np.zeros(3), np.array([0, 3]), np.ones(2)),
    "a mask of another length": (lambda: np.zeros(3), np.arange(9) > 7, np.ones(1)),
    "two dimensions": (lambda: np.zeros((3, 2)), (0, 1), np.float64(1)),
    "an array for a cell": (lambda: np.array([None] * 3), 1, np.zeros(2)),
    "an array in an array for a cell": (lambda: np.array([None] * 3), 1, np.array(None)),
    "an array over memory that is not numpy's": (lambda: np.zeros(3), slice(0, 1), torch.ones(1).double().numpy()),
    "a batch": (lambda: Batch(x=np.zeros(3)), 0, np.float64(1)),
    "an object with those fields": (lambda: Batch(x=np.zeros(3)), 0, type("Row", (), {})()),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_unusual_is_left_to_the_long_way(case: str) -> None:
    make, index, value = LEFT[case]
    batch = Batch(first=np.zeros((9, 9)), a=make())
    rows = {"first": np.ones((9, 9))[index].copy(), "a": value}
    before = copy.deepcopy(batch)
    assert not takes_short_way(batch, index, rows)
    assert_identical(batch, before)


def test_fields_in_two_places_are_left_to_the_long_way() -> None:
    done = np.zeros(3, bool)
    one, two = Batch(a=done, b=done), Batch(a=Batch(x=done), b=Batch(x=done))
    nested = Batch(x=np.zeros(3, bool))
    for batch in (one, two, Batch(a=nested, b=nested)):
        rows = copy.deepcopy(batch)[0]
        assert not takes_short_way(batch, 0, rows.__dict__)
        assert plain_arrays(batch.__dict__) is None


def test_views_go_the_short_way_unless_two_are_on_one_array() -> None:
    whole, other = np.zeros((4, 3)), np.zeros(5)
    batch = Batch(a=whole[:, 1], n={"b": other[1:]})
    rows = Batch(a=np.float64(2), n={"b": np.float64(3)})
    assert takes_short_way(batch, 1, rows.__dict__)
    batch[1] = rows
    assert (whole[1].tolist(), other.tolist()) == ([0, 2, 0], [0, 0, 3, 0, 0])
    batch += 1
    assert (whole.sum(), other.sum()) == (6, 7)
    assert plain_arrays(batch.__dict__) is not None
    for shared in (
        Batch(a=whole[:, 1], b=whole[:, 2]),
        Batch(a=whole, n={"b": whole[:, 1]}),
        Batch(n={"a": other[1:]}, b=other),
    ):
        assert not takes_short_way(shared, 1, shared[2].__dict__)
        assert plain_arrays(shared.__dict__) is None
    assert not takes_short_way(batch, slice(0, 2), Batch(a=other[:2], n={"b": whole[:2, 0]}).__dict__)


def test_values_are_read_before_they_are_written() -> None:
    batch = Batch(a=np.arange(4.0), b=-np.arange(4.0))
    batch[:] = Batch(a=batch.b, b=batch.a)
    assert (batch.a.tolist(), batch.b.tolist()) == ([0, -1, -2, -3], [0, 1, 2, 3])
    batch[1:] = batch[:-1]
    assert (batch.a.tolist(), batch.b.tolist()) == ([0, 0, -1, -2], [0, 0, 1, 2])
    batch[np.array([3, 2, 1, 0])] = batch
    assert (batch.a.tolist(), batch.b.tolist()) == ([-2, -1, 0, 0], [2, 1, 0, 0])


@pytest.mark.parametrize("number", [5, -5, 300, 2**70, 2.5, -0.0, 1e300, float("nan"), True], ids=repr)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "u8", "f2", "f4", "f8", "?", "c8", "M8[s]"])
def test_a_number_in_a_dict_is_what_it_is_in_a_batch(dtype: str, number: Any) -> None:
    def outcome(make_rows: Any) -> str:
        batch = Batch(a=np.zeros(2, dtype))
        try:
            batch[0] = make_rows(a=number)
        except ValueError as error:
            return str(error)
        return repr((batch.a.tolist(), batch.a.dtype))

    assert outcome(dict) == outcome(Batch)


def test_a_column_is_set_the_short_way_when_nothing_is_unusual() -> None:
    column, index = np.zeros(4), np.array([0, 2])
    assert set_directly(column, index, np.array([1.0, 2.0]))
    assert column.tolist() == [1, 0, 2, 0]
    for other, where, values in (
        (column, np.array([0, 4]), np.ones(2)),
        (column, index, np.ones(2, np.float32)),
        (column, index, np.ones(3)),
        (column, index, column[:2]),
        (column, [0, 2], np.ones(2)),
        (column, np.array([True, False, True, False]), np.ones(2)),
        (np.zeros(4)[:], index, np.ones(2)),
        (torch.zeros(4), index, np.ones(2)),
    ):
        assert not set_directly(other, where, values)
    assert column.tolist() == [1, 0, 2, 0]


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 6))
def test_rows_that_overlap_their_source_are_written_as_from_a_copy(i, j, count):
    table = np.arange(40).reshape(4, 10)
    batch = Batch(a=np.arange(10), x=table[0], y=table[1])
    count = min(count, 10 - max(i, j))
    expected = copy.deepcopy(batch)
    expected[i : i + count] = copy.deepcopy(batch[j : j + count])
    batch[i : i + count] = batch[j : j + count]
    assert batch == expected


@pytest.mark.parametrize("index", [(..., 5), (..., np.array([5])), (..., np.arange(12) == 5), slice(None, None, 0)])
def test_a_clearing_that_one_field_refuses_clears_nothing(index: Any) -> None:
    batch = Batch(a=np.ones((10, 12)), b=np.ones((10, 3)))
    with pytest.raises(RowIndexError):
        batch.empty_(index)
    assert (batch.a.sum(), batch.b.sum()) == (120, 30)


@pytest.mark.parametrize("index", [[0, 2], range(2), torch.tensor([0, 2]), np.int64(2)], ids=repr)
def test_indices_of_other_classes_go_the_short_way_once_they_are_plain(index: Any, monkeypatch: Any) -> None:
    batch, rows = transitions(), changed(transitions())[index]
    monkeypatch.setattr(assignment, "write_rows", None)
    batch[index] = rows
    assert batch[index] == rows
