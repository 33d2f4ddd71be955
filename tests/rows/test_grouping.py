"""Statistics over rows with the same key, as arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from typedbatch import Batch
from typedbatch.errors import LeafError, MissingFieldError, SettingError, SizeError, StructureError
from typedbatch.rows import groups

KEYS = ["b", "a", "b", "a", "b"]
X = [1.0, 10.0, 2.0, 20.0, 6.0]


@pytest.mark.parametrize("as_what", [np.array, torch.tensor])
def test_statistics_are_spread_to_the_rows(as_what):
    found = groups(Batch(uid=KEYS), "uid")
    x = as_what(X)
    assert type(found.mean(x)) is type(x)
    assert found.mean(x).dtype == x.dtype
    assert found.mean(x).tolist() == [3, 15, 3, 15, 3]
    assert found.std(x).tolist() == pytest.approx([7**0.5, 50**0.5, 7**0.5, 50**0.5, 7**0.5])
    assert found.leave_one_out(x).tolist() == [4, 20, 3.5, 10, 1.5]
    assert x.tolist() == X


def test_groups_are_numbered_as_they_are_first_seen():
    found = groups(Batch(uid=KEYS), "uid")
    assert (len(found), found.keys) == (2, ["b", "a"])
    assert found.index.tolist() == [0, 1, 0, 1, 0]
    assert found.count.tolist() == [3, 2, 3, 2, 3]
    assert len(groups(Batch(uid=[]), "uid")) == 0


@pytest.mark.parametrize("keys", [[7, 5, 7], np.array([7, 5, 7], object), torch.tensor([7, 5, 7])])
def test_keys_are_numbers_and_objects_too(keys):
    found = groups(Batch(uid=keys), "uid")
    assert found.keys == [7, 5]
    assert found.index.tolist() == [0, 1, 0]


@given(st.lists(st.integers(-3, 3)), st.sampled_from([int, float, str, object]))
def test_groups_are_those_of_a_dict(keys, kind):
    column = np.array([f"k{key}" if kind is str else key for key in keys], object if kind is object else kind)
    found = groups(Batch(key=column), "key")
    numbers: dict[Any, int] = {}
    assert found.index.tolist() == [numbers.setdefault(key, len(numbers)) for key in column.tolist()]
    assert found.keys == [*numbers]
    assert found.count.tolist() == [column.tolist().count(key) for key in column.tolist()]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-100, 100)), min_size=1, max_size=20), st.integers(1, 3))
def test_arrays_and_tensors_agree_with_a_loop_over_groups(rows, width):
    keys = np.array([key for key, _ in rows])
    x = np.array([value for _, value in rows])[:, None] * np.arange(1, width + 1)
    found = groups(Batch(k=keys), "k")
    for key in set(keys.tolist()):
        own = keys == key
        assert np.allclose(found.mean(x)[own], x[own].mean(0))
        spread = x[own].std(0, ddof=1) if own.sum() > 1 else np.zeros(width)
        assert np.allclose(found.std(x)[own], spread, atol=1e-6)
    tensor = torch.tensor(x)
    assert np.allclose(found.mean(tensor), found.mean(x))
    assert np.allclose(found.std(tensor), found.std(x), atol=1e-6)


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (np.array([1, 2, 4]), "float64"), (np.array([True, False, True]), "float64"),
        (np.ones(3, np.float16), "float64"), (np.ones(3, np.float32), "float32"),
        (torch.tensor([1, 2, 4]), "torch.float32"), (torch.ones(3, dtype=torch.bfloat16), "torch.float32"),
        (torch.ones(3, dtype=torch.float64), "torch.float64"),
    ],
)  # fmt: skip
def test_what_is_not_precise_enough_becomes_so(x, dtype):
    assert str(groups(Batch(k=[0, 0, 0]), "k").mean(x).dtype) == dtype


def test_a_group_of_one_has_no_spread_and_no_others():
    found = groups(Batch(uid=["a", "b", "a"]), "uid")
    assert found.std(np.array([1.0, 5.0, 3.0]))[1] == 0
    assert found.std(torch.tensor([1.0, 5.0, 3.0]))[1] == 0
    with pytest.raises(
        SizeError, match=r"two rows in each group, but group 'b' has only row 1; .*batch\[groups.count > 1\]"
    ):
        found.leave_one_out(np.zeros(3))


@pytest.mark.parametrize("as_what", [np.array, torch.tensor])
def test_the_others_are_summed_without_the_row_itself(as_what):
    found = groups(Batch(k=["a", "b", "a", "b", "a"]), "k")
    large = as_what([1e17, 3.0, 1.0, 5.0, 2.0])
    assert found.leave_one_out(large).tolist() == pytest.approx([1.5, 5, 5e16, 3, 5e16])
    infinite = as_what([np.inf, np.nan, 1.0, 5.0, 2.0])
    assert found.leave_one_out(infinite, nan="skip")[:2].tolist() == [1.5, 5]
    assert str(found.leave_one_out(infinite, nan="skip")[2:].tolist()) == "[inf, nan, inf]"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(allow_nan=False)), max_size=20),
    st.integers(1, 3),
    st.sampled_from(["f8", "f4"]),
)
def test_leave_one_out_agrees_with_a_loop_over_groups(rows, width, dtype):
    drawn = np.array([key for key, _ in rows], int)
    keys = np.concatenate([drawn, drawn])  # no group of one
    with np.errstate(all="ignore"):
        x = (np.array([value for _, value in rows] * 2)[:, None] * np.arange(1, width + 1)).astype(dtype)
        found = groups(Batch(k=keys), "k")
        wanted = np.zeros_like(x)
        for row, key in enumerate(keys):
            others = (keys == key) & (np.arange(len(keys)) != row)
            wanted[row] = x[others].astype("f8").mean(0)
        one_way, other_way = found.leave_one_out(x), found.leave_one_out(torch.tensor(x))
    assert one_way.dtype == dtype
    scale = np.abs(np.where(np.isfinite(wanted), wanted, 0)).max(initial=0)
    largest = np.abs(np.where(np.isfinite(x), x, 0).astype("f8")).max(initial=0)
    may_overflow = largest > 1e300  # in another order than in the loop
    assert np.allclose(one_way, wanted, atol=1e-6 * scale, equal_nan=True) or may_overflow
    assert np.array_equal(one_way, other_way, equal_nan=True)


@pytest.mark.parametrize("as_what", [np.array, torch.tensor])
def test_sums_are_precise_where_values_are_not(as_what):
    x = as_what(np.full(2**22, 0.1, np.float32))
    x[0] = 1e7
    found = groups(Batch(k=np.zeros(2**22, int)), "k")
    exact = np.asarray(x, np.float64)
    assert found.mean(x)[1] == np.float32(exact.mean())
    assert found.std(x)[1] == pytest.approx(exact.std(ddof=1))
    assert found.leave_one_out(x)[0] == np.float32(0.1)
    assert groups(Batch(k=[0, 0]), "k").mean(as_what(np.float32([3e38, 3e38]))).tolist() == [np.float32(3e38)] * 2


def test_what_is_masked_is_in_no_statistics():
    found = groups(Batch(k=[0, 0]), "k")
    hidden = np.ma.masked_array([1.0, 1e9], [False, True])
    for call in (found.mean, found.std, found.leave_one_out):
        with pytest.raises(LeafError, match=r"count every row, but in f64\[2\] .*some values are masked.*filled\(0\)"):
            call(hidden)
    assert found.mean(np.ma.masked_array([1.0, 3.0])).tolist() == [2, 2]
    with pytest.raises(
        StructureError, match="'k': groups are identified by a value for each row, but some values are masked"
    ):
        groups(Batch(k=np.ma.masked_array([0, 0], [False, True])), "k")


def test_gradients_go_through_the_others():
    x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    groups(Batch(k=[0, 0, 0]), "k").leave_one_out(x)[0].backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0.5, 0.5]


def test_gradients_go_through():
    x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    groups(Batch(k=[0, 0, 1]), "k").mean(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda b: groups(b, "uids"), MissingFieldError, "no field 'uids'"),
        (lambda b: groups(b, "wide"), StructureError, "'wide': groups are identified by one value for each of 2 rows"),
        (lambda b: groups(b, "listed"), StructureError, "'listed': its values cannot be compared: .*unhashable"),
        (lambda b: groups(Batch(a=[1], b=[1, 2]), "a"), StructureError, "different lengths"),
        (lambda b: groups(b, "uid").mean(np.zeros(3)), StructureError, r"the groups have 2 rows, got f64\[3\]"),
        (lambda b: groups(b, "uid").mean([1.0, 2.0]), LeafError, "an array of numbers or a tensor, got list"),
        (lambda b: groups(b, "uid").std(b.uid), LeafError, "an array of numbers or a tensor, got "),
        (lambda b: groups(b, "uid").mean(np.ones(2) * 1j), LeafError, "an array of numbers or a tensor, got c128"),
        (
            lambda b: groups(b, "uid").mean(torch.ones(2) * 1j),
            LeafError,
            "an array of numbers or a tensor, got torch c64",
        ),
        (lambda b: groups([1], "uid"), LeafError, r"groups\(\) takes a Batch, got list"),
    ],
)
def test_what_is_refused(call, error, text):
    listed = np.empty(2, object)
    listed[:] = [["x"], ["y"]]
    with pytest.raises(error, match=text):
        call(Batch(uid=["a", "b"], wide=np.zeros((2, 2)), listed=listed))


def test_groups_of_inference_mode_have_gradients_later():
    found = groups(Batch(k=np.array([0, 0, 1, 1])), "k")
    with torch.inference_mode():
        found.mean(torch.arange(4.0))
    x = torch.arange(4.0, requires_grad=True)
    (found.mean(x) ** 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1, 5, 5]


def test_keys_are_structured_values_too():
    keys = np.array([(2, 1), (1, 1), (2, 1)], [("a", int), ("b", int)])
    found = groups(Batch(k=keys), "k")
    assert (found.index.tolist(), found.keys) == ([0, 1, 0], [(2, 1), (1, 1)])


@pytest.mark.parametrize("as_what", [np.array, torch.tensor])
def test_rewards_of_functions_that_abstain(as_what):
    found = groups(Batch(k=["a", "a", "b", "a", "b", "c", "c"]), "k")
    rewards = as_what([1.0, np.nan, 4.0, 3.0, np.nan, np.nan, np.nan])
    before = str(rewards)
    for call in (found.mean, found.std, found.leave_one_out, found.pairs):
        with pytest.raises(LeafError, match=r"the value of row 1, in group 'a', is NaN; nan='skip' takes"):
            call(rewards)
        with pytest.raises(SettingError, match="nan= must be 'error' or 'skip', got 'drop'"):
            call(rewards, nan="drop")
    assert str(found.mean(rewards, nan="skip").tolist()) == "[2.0, 2.0, 4.0, 2.0, 4.0, nan, nan]"
    np.testing.assert_allclose(found.std(rewards, nan="skip")[[0, 2, 5]], [2**0.5, 0.0, np.nan], rtol=1e-6)
    assert str(found.leave_one_out(rewards, nan="skip").tolist()) == "[3.0, 2.0, nan, 1.0, 4.0, nan, nan]"
    better, worse = found.pairs(rewards, nan="skip")
    assert (better.tolist(), worse.tolist()) == ([3], [0])
    assert str(rewards) == before


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.floats(-9, 9)), min_size=1, max_size=20))
def test_statistics_of_the_others_agree_with_a_loop(rows):
    keys = [key for key, _ in rows]
    values = np.array([np.nan if value is None else value for _, value in rows])
    found = groups(Batch(k=keys), "k")
    mean, std = found.mean(values, nan="skip"), found.std(values, nan="skip")
    for row, key in enumerate(keys):
        own = [value for other, value in rows if other == key and value is not None]
        assert np.isnan(mean[row]) == (not own) == np.isnan(std[row])
        if own:
            assert mean[row] == pytest.approx(np.mean(own))
            assert std[row] == pytest.approx(np.std(own, ddof=1) if len(own) > 1 else 0, abs=1e-9)


def test_gradients_flow_through_means_of_the_others():
    found, rewards = groups(Batch(k=["a", "a", "a"]), "k"), torch.tensor([1.0, np.nan, 3.0], requires_grad=True)
    found.mean(rewards, nan="skip")[0].backward()
    assert rewards.grad is not None
    assert rewards.grad.tolist() == [0.5, 0.0, 0.5]
