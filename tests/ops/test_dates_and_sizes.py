"""A value that a dtype cannot hold is refused, and never becomes another: dates, integers, floats, text."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedbatch import Batch
from typedbatch.errors import RowAssignmentError, StructureError

FAR, NEAR = np.datetime64("9999-01-01"), np.datetime64("2020-01-02")
LONG = np.timedelta64(10**7, "D")


@pytest.mark.parametrize("index", [0, slice(0, 1), [0], np.array([True, False])], ids=repr)
def test_a_date_that_overflows_is_refused(index: Any) -> None:
    batch = Batch(first=np.zeros(2), at=np.zeros(2, "M8[ns]"), took=np.zeros(2, "m8[ns]"))
    before = copy.deepcopy(batch)
    for name, value in (("at", FAR), ("took", LONG)):
        with pytest.raises(
            RowAssignmentError, match=rf"field '{name}': .*\[ns\] cannot hold these .*\[D\] values unchanged"
        ):
            batch[index] = {"first": 1.0, name: value}
        assert batch == before
    batch[index] = {"first": 1.0, "at": NEAR, "took": np.timedelta64(1, "s")}
    assert (batch.at[0], batch.took[0]) == (NEAR, np.timedelta64(1, "s"))


def test_a_date_is_not_cut_to_a_coarser_unit() -> None:
    batch = Batch(at=np.zeros(2, "M8[D]"))
    with pytest.raises(RowAssignmentError, match="unchanged"):
        batch[0] = {"at": np.datetime64("2020-01-02T03")}
    batch[:] = {"at": np.array(["2020-01-02T00", "NaT"], "M8[h]")}
    assert batch.at[0] == NEAR
    assert np.isnat(batch.at[1])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (np.zeros(2, "M8[ns]"), 5),
        (np.zeros(2, "M8[ns]"), 2.0),
        (np.zeros(2, int), NEAR),
        (np.zeros(2, int), np.timedelta64(5, "s")),
        (np.zeros(2, bool), np.timedelta64(1, "s")),
        (np.zeros(2, "m8[s]"), 2.5),
        (np.zeros(2, "m8[s]"), True),
        (np.zeros(2, "m8[s]"), np.array(2**63, np.uint64)),
        (np.zeros(2, "m8[s]"), np.array(-(2**63))),
    ],
    ids=repr,
)
def test_dates_and_numbers_do_not_stand_for_each_other(column: Any, value: Any) -> None:
    batch = Batch(at=column)
    with pytest.raises(RowAssignmentError, match="field 'at'"):
        batch[0] = {"at": value}
    assert batch.at.tolist() == np.zeros_like(column).tolist()


def test_integers_count_in_the_unit_of_a_column_of_durations() -> None:
    batch = Batch(took=np.zeros(2, "m8[s]"))
    batch[0] = {"took": 5}
    assert batch.took[0] == np.timedelta64(5, "s")


LOST = r"datetime64\[ns\] cannot hold all of the datetime64\[D\]|Overflow when converting between datetime64 units"
"""The second is what numpy says, since 2.5."""


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack], ids=["cat", "stack"])
def test_dates_that_no_unit_holds_together_are_not_joined(join: Any) -> None:
    far, near = Batch(at=np.array([FAR])), Batch(at=np.array([NEAR], "M8[ns]"))
    for parts in ([far, near], [near, far]):
        with pytest.raises(StructureError, match=rf"field 'at': .*({LOST})"):
            join(parts)
    assert join([Batch(at=np.array([NEAR])), near]).at.ravel().tolist() == near.at.tolist() * 2
    with pytest.raises(StructureError, match=LOST):
        Batch.stack([{"at": FAR}, {"at": near.at[0]}])


def test_a_list_of_dates_far_apart_keeps_them_as_objects() -> None:
    near = NEAR.astype("M8[ns]")
    assert Batch(at=[FAR, near]).at.tolist() == [FAR, near]


NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
NANOSECONDS = {"D": 86_400 * 10**9, "h": 3_600 * 10**9, "s": 10**9, "us": 10**3, "ns": 1}
DATES, TIMES = ([f"{kind}[{unit}]" for unit in NANOSECONDS] for kind in ("M8", "m8"))


def is_same(kept: Any, given_: Any) -> bool:
    """Whether a number or date is what it was, but for rounding; in Python's integers, which do not overflow."""
    if kept.dtype.kind in "mM":
        if np.isnat(kept):
            return bool(np.isnat(given_))
        one, two = (int(x.astype(int)) * NANOSECONDS[np.datetime_data(x.dtype)[0]] for x in (kept, given_))
        return one == two
    if kept.dtype.kind != "f":
        return int(kept) == given_.item()
    number = float(given_)
    return bool(
        kept == number or np.isnan(number) or (np.isfinite(kept) and np.isclose(float(kept), number, 1e-3, 1e-7))
    )


@given(data=st.data(), pair=st.one_of(*(st.tuples(*[st.sampled_from(x)] * 2) for x in (NUMBERS, DATES, TIMES))))
def test_what_is_assigned_is_there_or_nothing_has_changed(data: st.DataObject, pair: tuple[str, str]) -> None:
    given_, held = map(np.dtype, pair)
    rows = data.draw(hnp.arrays(given_, 3))
    batch = Batch(a=np.zeros(3, held))
    try:
        batch[:] = {"a": rows}
    except RowAssignmentError:
        assert (batch.a == np.zeros(3, held)).all()
    else:
        assert all(is_same(kept, value) for kept, value in zip(batch.a, rows, strict=True))


strings = pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 2 has it")


@strings
def test_text_goes_into_a_column_of_its_own_dtype() -> None:
    batch = Batch(s=np.array(["a", "bb", "c"], np.dtypes.StringDType()), n={"x": [1, 2, 3]})
    batch[0] = batch[1]
    batch[1:] = {"s": ["long text", "y"], "n": {"x": [8, 9]}}
    assert batch.s.tolist() == ["bb", "long text", "y"]
    batch[[0]] = batch[2:]
    batch.empty_(2)
    assert batch.s.tolist() == ["y", "long text", ""]
    for other in (5, None, np.array([None], object), np.zeros(3)):
        with pytest.raises(RowAssignmentError, match="field 's'"):
            batch[0] = {"s": other}
    assert batch.s.tolist() == ["y", "long text", ""]


@strings
def test_missing_text_is_missing_and_stays_so() -> None:
    has_none, has_nan = (np.dtypes.StringDType(na_object=na) for na in (None, np.nan))
    batch = Batch(s=np.array(["a", None, "b"], has_none), t=np.array(["a", np.nan, "b"], has_nan))
    assert batch.isnull().s.tolist() == batch.isnull().t.tolist() == [False, True, False]
    assert len(batch.dropnull()) == 2
    batch[0] = {"s": None, "t": "x"}
    assert batch.s.tolist() == [None, None, "b"]
    without = Batch(s=np.array(["a", "b"], np.dtypes.StringDType()))
    with pytest.raises(RowAssignmentError, match="cannot hold"):
        without[:] = {"s": batch.s[1:]}
    assert without.s.tolist() == ["a", "b"]
