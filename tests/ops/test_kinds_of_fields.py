"""Fields of distributions, jagged tensors, masked arrays, dates and texts."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal

from tests.ops.helpers import assert_array
from typedbatch import Batch, BatchRecord, SchemaError, conforms, validate
from typedbatch._core.distributions import dist_to_atleast_2d, get_len_of_dist, get_sliced_dist
from typedbatch._ops.equality import differences
from typedbatch.errors import LeafError, RowAssignmentError, RowIndexError, StructureError


def test_a_scalar_distribution_gets_a_batch_dimension():
    scalar = Categorical(probs=torch.tensor([0.3, 0.7]))
    assert scalar.batch_shape == ()
    assert dist_to_atleast_2d(scalar).batch_shape == (1,)
    batch = Batch(a=1, b=2, dist=Categorical(probs=torch.ones(3))).to_at_least_2d()
    assert batch.dist.batch_shape == (1,)
    assert_array(batch.a, [[1]])


@pytest.mark.parametrize(
    "dist",
    [
        Categorical(logits=torch.arange(6.0).reshape(3, 2)),
        Normal(torch.arange(3.0), torch.ones(3)),
        Independent(Normal(torch.arange(6.0).reshape(3, 2), torch.ones(3, 2)), 1),
    ],
    ids=["categorical", "normal", "independent"],
)
def test_functions_for_distributions(dist):
    assert get_len_of_dist(dist) == 3
    part = get_sliced_dist(dist, [2, 0])
    assert type(part) is type(dist)
    torch.testing.assert_close(part.entropy(), dist.entropy()[[2, 0]])
    assert dist_to_atleast_2d(dist) is dist
    assert dist_to_atleast_2d(get_sliced_dist(dist, 1)).batch_shape == (1,)


def test_a_scalar_distribution_has_no_length():
    with pytest.raises(TypeError):
        get_len_of_dist(Normal(0.0, 1.0))


ROWS = [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]


def jagged(rows: list[list[float]] = ROWS) -> Batch:
    tensor = torch.nested.nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)
    return Batch(uid=np.arange(len(rows)), tokens=tensor)


def lists(batch: Batch) -> list[list[float]]:
    return [row.tolist() for row in batch.tokens.unbind()]


@pytest.mark.parametrize(
    "index", [slice(1, 3), slice(None, None, -1), [2, 0, 0], np.array([True, False, True]), torch.tensor([1])]
)
def test_rows_are_those_of_a_list(index: Any) -> None:
    numbers = np.arange(3)[np.asarray(index) if not isinstance(index, slice) else index]
    assert lists(jagged()[index]) == [ROWS[i] for i in numbers]
    assert jagged()[2].tokens.tolist() == ROWS[2]


def test_split_and_cat():
    parts = list(jagged().split(2, shuffle=False))
    assert [lists(part) for part in parts] == [ROWS[:2], ROWS[2:]]
    assert lists(Batch.cat(parts)) == ROWS
    assert sorted(map(tuple, (lists(part)[0] for part in jagged().split(1, rng=0)))) == sorted(map(tuple, ROWS))


class Declared(BatchRecord):
    ids: Float[Tensor, "N T"]
    logp: Float[Tensor, "N T"] | None


def test_equal_lengths_are_one_size():
    tokens, same, other = (jagged(rows).tokens for rows in (ROWS, ROWS, ROWS[::-1]))
    assert conforms(Batch(ids=tokens, logp=same), Declared)
    assert conforms(Batch(ids=jagged([[1.0], [2.0]]).tokens, logp=torch.ones(2, 1)), Declared)
    assert not conforms(Batch(ids=tokens, logp=other), Declared)
    with pytest.raises(SchemaError, match=r"T is \(2, 1, 3\) here, but \(3, 1, 2\) in logp"):
        validate(Batch(ids=tokens, logp=other), Declared)


def test_a_gradient_goes_through():
    values = torch.ones(3, requires_grad=True)
    tensor = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 1, 3]))
    Batch(tokens=tensor)[1:].tokens.values().sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [0, 1, 1]


def test_other_nested_tensors_are_refused_by_name():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strided = Batch(tokens=torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
    with pytest.raises(
        RowIndexError, match=r"'tokens': nested torch f32 cannot be indexed by .*layout=torch.jagged.*Ragged"
    ):
        strided[0:1]
    with pytest.raises(RowIndexError, match="'tokens': nested torch f32 cannot be indexed by "):
        strided[[1, 0]]
    with pytest.raises(
        StructureError, match=r"'tokens': .* cannot be joined; build nested tensors with layout=torch\.jagged"
    ):
        Batch.cat([jagged(), {"uid": [1], "tokens": torch.ones(1, 2)}])


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
        (np.zeros(2, "M8[ns]"), 5), (np.zeros(2, "M8[ns]"), 2.0), (np.zeros(2, int), NEAR),
        (np.zeros(2, int), np.timedelta64(5, "s")), (np.zeros(2, bool), np.timedelta64(1, "s")),
        (np.zeros(2, "m8[s]"), 2.5), (np.zeros(2, "m8[s]"), True), (np.zeros(2, "m8[s]"), np.array(2**63, np.uint64)),
        (np.zeros(2, "m8[s]"), np.array(-(2**63))),
    ],
    ids=repr,
)  # fmt: skip
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
    """Return whether a number or date is unchanged but for rounding, by Python's integers, which do not overflow."""
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
