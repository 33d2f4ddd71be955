"""Episodes in a batch of steps: found, cut, grouped, and looked back on."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.helpers import assert_array, assert_identical
from typedbatch import Batch, ObsBatch, RolloutBatch, SampleBatch
from typedbatch.episodes import (
    episode_lengths,
    group_by,
    lookahead,
    lookahead_mask,
    lookback,
    lookback_mask,
    split_by_episode,
    train_test_split,
)
from typedbatch.errors import (
    LeafError,
    MissingFieldError,
    NoLengthError,
    RowIndexError,
    SettingError,
    SizeError,
    StructureError,
)

LENS = st.lists(st.integers(0, 4), max_size=4)


def steps(count: int, **more: Any) -> Batch:
    return Batch(
        a=np.arange(1, count + 1), obs={"x": np.arange(1.0, count + 1)[:, None]}, t=torch.arange(1.0, count + 1),
        o=np.array([f"o{i + 1}" for i in range(count)], object), nothing=None, reserved=Batch(), **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "lens"),
    [
        ({"eps_id": [7, 7, 3, 3, 3, 7]}, [2, 3, 1]),
        ({"eps_id": ["x", "x", "y"]}, [2, 1]),
        ({"eps_id": [None, None, 1]}, [2, 1]),
        ({"eps_id": torch.tensor([1, 2, 2])}, [1, 2]),
        ({"eps_id": torch.tensor([1.0, 2.0, 2.0], requires_grad=True)}, [1, 2]),
        ({"eps_id": np.array(["2020", "2020", "2021"], "datetime64[Y]")}, [2, 1]),
        ({"done": [0, 1, 0, 0, 1]}, [2, 3]),
        ({"done": [False, True, False]}, [2, 1]),
        ({"done": torch.tensor([True, True, False])}, [1, 1, 1]),
        ({"dones": [0.0, 1.0]}, [2]),
        ({"terminated": [0, 1, 0, 0], "truncated": [0, 0, 1, 0]}, [2, 1, 1]),
        ({"terminateds": [0, 1, 0], "truncateds": torch.tensor([False, False, True])}, [2, 1]),
        ({"eps_id": [1, 1, 1], "done": [1, 1, 1]}, [3]),
        ({"done": np.zeros(0, bool)}, []),
        ({"eps_id": np.zeros(0, object)}, []),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_episode_lengths(fields, lens):
    assert_array(episode_lengths(Batch(fields)), np.array(lens, np.intp), np.intp)


def test_episode_lengths_by_a_field():
    batch = Batch(a=[5, 5, 6, 6], last=[False, False, False, True], done=[1, 1, 1, 1])
    assert episode_lengths(batch, "a").tolist() == [2, 2]
    assert episode_lengths(batch, "last").tolist() == [4]
    assert episode_lengths(batch, by="done").tolist() == [1, 1, 1, 1]


@given(st.lists(st.booleans(), max_size=8))
def test_flags_end_episodes_as_in_a_naive_loop(flags):
    expected, length = [], 0
    for flag in flags:
        length += 1
        if flag:
            expected.append(length)
            length = 0
    expected += [length] if length else []
    assert episode_lengths(Batch(done=np.array(flags, bool))).tolist() == expected


@given(st.lists(st.integers(0, 2), max_size=8))
def test_ids_end_episodes_where_they_change(ids):
    expected = [len(list(group)) for _, group in itertools.groupby(ids)]
    assert episode_lengths(Batch(eps_id=np.array(ids, int))).tolist() == expected
    parts = split_by_episode(steps(len(ids), eps_id=np.array(ids, int)))
    assert [len(part) for part in parts] == expected
    assert [step for part in parts for step in part.a.tolist()] == list(range(1, len(ids) + 1))


def test_split_by_episode_gives_views_of_the_class():
    batch = RolloutBatch(
        obs=np.arange(3), act=[0, 1, 2], rew=[1.0, 2.0, 3.0], terminated=[False, True, False],
        truncated=[False] * 3, obs_next=np.arange(3), info=Batch(),
    )  # fmt: skip
    first, second = split_by_episode(batch)
    assert type(first) is RolloutBatch
    assert (first.act.tolist(), second.act.tolist()) == ([0, 1], [2])
    assert np.shares_memory(first.obs, batch.obs)
    assert [part.a.tolist() for part in split_by_episode(Batch(a=[1, 2], b=[4, 5]), by="b")] == [[1], [2]]


IDS = st.lists(st.integers(0, 3), max_size=8) | st.lists(st.sampled_from(["x", "", None, 2, (1, 2)]), max_size=8)


@given(IDS)
def test_group_by_is_a_naive_loop(ids):
    values = np.empty(len(ids), object)
    values[:] = ids
    expected: dict[Any, list[int]] = {}
    for row, name in enumerate(ids):
        expected.setdefault(name, []).append(row + 1)
    groups = group_by(steps(len(ids), eps_id=values))
    assert list(groups) == list(expected)
    assert {name: group.a.tolist() for name, group in groups.items()} == expected
    assert all(group.o.tolist() == [f"o{i}" for i in group.a] for group in groups.values())


def test_group_by_by_hand():
    batch = ObsBatch(obs=np.arange(4), info=torch.tensor([8, 9, 8, 8]))
    groups = group_by(batch, "info")
    assert list(groups) == [8, 9]
    assert [type(key) for key in groups] == [int, int]
    assert_identical(groups[8], ObsBatch(obs=np.array([0, 2, 3]), info=torch.tensor([8, 8, 8])))


def test_groups_that_stand_together_are_views():
    batch = Batch(a=np.arange(5), eps_id=[4, 4, 2, 2, 4])
    groups = group_by(batch)
    assert np.shares_memory(groups[2].a, batch.a)
    assert not np.shares_memory(groups[4].a, batch.a)


def test_no_rows_make_no_groups():
    assert group_by(Batch(eps_id=np.zeros(0, int))) == {}


def test_lookback_by_hand():
    found = lookback(steps(3), 2, [2, 1])
    assert_array(found.a, [[0, 1], [1, 2], [0, 3]])
    assert_array(found.o, [[None, "o1"], ["o1", "o2"], [None, "o3"]])
    assert found.obs.x.shape == (3, 2, 1)
    assert found.t.tolist() == [[0, 1], [1, 2], [0, 3]]
    assert (found.nothing, found.reserved) == (None, Batch())
    assert_array(lookback_mask([2, 1], 2), [[False, True], [True, True], [False, True]])


@pytest.mark.parametrize("fill", ["zeros", "first"])
@given(lens=LENS, size=st.integers(1, 5))
def test_lookback_is_a_naive_loop(fill, lens, size):
    expected, there, first = [], [], 1
    for length in lens:
        for step in range(length):
            window = range(step - size + 1, step + 1)
            filler = first if fill == "first" else 0
            expected.append([first + i if i >= 0 else filler for i in window])
            there.append([i >= 0 for i in window])
        first += length
    found = lookback(steps(sum(lens)), size, lens, fill=fill)
    assert found.a.tolist() == found.t.tolist() == expected
    assert found.obs.x.shape == (sum(lens), size, 1)
    assert lookback_mask(lens, size).tolist() == there


@pytest.mark.parametrize("fill", ["zeros", "last"])
@given(lens=LENS, size=st.integers(1, 5))
def test_lookahead_is_lookback_of_reversed_rows(fill, lens, size):
    found = lookahead(steps(sum(lens)), size, lens, fill=fill)
    mirrored = steps(sum(lens))[::-1] if sum(lens) else steps(0)
    expected = lookback(mirrored, size, lens[::-1], fill="zeros" if fill == "zeros" else "first")
    assert found.a.tolist() == found.t.tolist() == expected.a[::-1, ::-1].tolist()
    assert lookahead_mask(lens, size).tolist() == lookback_mask(lens[::-1], size)[::-1, ::-1].tolist()


def test_lookahead_by_hand():
    found = lookahead(Batch(a=[1, 2, 3], done=[0, 1, 0]), 2)
    assert found.a.tolist() == [[1, 2], [2, 0], [3, 0]]
    assert lookahead(Batch(a=[1, 2, 3], done=[0, 1, 0]), 3, fill="last").a.tolist() == [[1, 2, 2], [2, 2, 2], [3, 3, 3]]
    assert lookahead_mask([2, 1], 2).tolist() == [[True, True], [True, False], [True, False]]


def test_lookback_finds_the_episodes():
    assert lookback(Batch(a=[1, 2, 3], done=[0, 1, 0]), 2).a.tolist() == [[0, 1], [1, 2], [0, 3]]
    assert lookback(Batch(a=[1, 2, 3], eps_id=[0, 1, 1]), 2).a.tolist() == [[0, 1], [0, 2], [2, 3]]


def test_gradients_flow_through_lookback():
    t = torch.arange(3.0, requires_grad=True)
    lookback(Batch(t=t), 2, [2, 1]).t.sum().backward()
    assert t.grad.tolist() == [2, 1, 1]
    t.grad = None
    lookback(Batch(t=t), 2, [2, 1], fill="first").t.sum().backward()
    assert t.grad.tolist() == [3, 1, 2]


def test_lookback_keeps_class_and_dtype_and_shares_nothing():
    batch = ObsBatch(obs=np.arange(3, dtype=np.int8), info=torch.zeros(3, dtype=torch.bfloat16))
    found = lookback(batch, 1, [3])
    assert type(found) is ObsBatch
    assert (found.obs.dtype, found.info.dtype) == (np.int8, torch.bfloat16)
    found.obs[:] = 9
    assert batch.obs.tolist() == [0, 1, 2]


def test_lookback_of_nothing():
    for fill in ("zeros", "first"):
        assert lookback(Batch(a=np.zeros((0, 2))), 3, [], fill=fill).a.shape == (0, 3, 2)
        assert lookback(Batch(a=np.zeros((0, 2))), 3, [0, 0], fill=fill).a.shape == (0, 3, 2)
    assert lookback(Batch(), 2, []) == Batch()


def test_lookback_of_a_distribution_repeats_but_puts_no_zeros():
    batch = Batch(dist=torch.distributions.Normal(torch.arange(3.0), 1.0))
    assert lookback(batch, 2, [3], fill="first").dist.loc.tolist() == [[0, 0], [0, 1], [1, 2]]
    with pytest.raises(RowIndexError, match="'dist': Normal"):
        lookback(batch, 2, [3])


ARRAYS_AS_IDS = np.empty(2, object)
ARRAYS_AS_IDS[:] = [np.arange(2), np.arange(2)]

REFUSED = [
    (lambda b: episode_lengths(b), MissingFieldError, "the batch has no field 'eps_id or terminated"),
    (lambda b: split_by_episode(b, "nope"), MissingFieldError, "no field 'nope'; it has a, obs"),
    (lambda b: lookback(b, 2), MissingFieldError, "eps_id or"),
    (lambda b: group_by(b), MissingFieldError, "no field 'eps_id'"),
    (
        lambda b: episode_lengths(b, "obs"),
        StructureError,
        r"'obs': episodes are identified by one value for each of 3 rows",
    ),
    (lambda b: group_by(b, "nothing"), StructureError, r"'nothing'.*got None"),
    (lambda b: group_by(Batch(eps_id=[[1], [2]])), StructureError, r"2 rows, got i64\[2,1\]"),
    (lambda b: group_by(Batch(eps_id=ARRAYS_AS_IDS)), StructureError, "'eps_id'.*cannot be compared"),
    (lambda b: episode_lengths(Batch(eps_id=ARRAYS_AS_IDS)), StructureError, "'eps_id'.*cannot be compared"),
    (lambda b: episode_lengths(Batch(done=[0, 1], a=[1])), StructureError, "different lengths"),
    (lambda b: episode_lengths(Batch(done=1)), NoLengthError, "'done': a scalar"),
    (lambda b: episode_lengths({"done": [1]}), LeafError, r"episode_lengths\(\) takes a Batch, got dict"),
    (lambda b: split_by_episode([b]), LeafError, "takes a Batch, got list"),
    (lambda b: group_by(None), LeafError, r"group_by\(\) takes a Batch, got None"),
    (lambda b: lookahead(b, 0, [3]), SizeError, "size"),
    (lambda b: lookahead(b, 2, [3], fill="first"), SizeError, "fill= must be 'zeros' or 'last', got 'first'"),
    (lambda b: lookahead(b, 2, [2]), StructureError, "the lengths sum to 2, but there are 3 rows"),
    (lambda b: lookback({"a": [1]}, 2), LeafError, r"lookback\(\) takes a Batch, got dict"),
    (lambda b: lookback(b, 2, [1, 1]), StructureError, "sum to 2, but there are 3 rows"),
    (lambda b: lookback(b, 2, [1.5, 1.5]), SizeError, "whole numbers"),
    (lambda b: lookback(b, 0, [3]), SizeError, "size is 1 or more, got 0"),
    (lambda b: lookback(b, 1.5, [3]), SizeError, "size is a whole number, got 1.5"),
    (lambda b: lookback(b, "2", [3]), SizeError, "size is a whole number, got '2'"),
    (lambda b: lookback(b, 2, [3], fill="last"), SizeError, "'zeros' or 'first', got 'last'"),
    (lambda b: lookback_mask([3], -1), SizeError, "size is 1 or more, got -1"),
    (
        lambda b: lookback(b, 2**62, [3]),
        SizeError,
        r"size must be \d+ or less, the most that an array can hold, got 4611686018427387904",
    ),
    (lambda b: lookback_mask([3], 2**70), SizeError, "size must be .* or less"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[text for _, _, text in REFUSED])
def test_what_is_refused(call, error, text):
    batch = steps(3)
    with pytest.raises(error, match=text):
        call(batch)
    assert_identical(batch, steps(3))


def test_a_flag_is_told_by_its_name_or_its_dtype_alone():
    batch = Batch(a=[1, 2, 3], mine=[0, 1, 1])
    assert episode_lengths(batch, "mine").tolist() == [1, 2]
    batch.mine = batch.mine.astype(bool)
    assert episode_lengths(batch, "mine").tolist() == [2, 1]


SEQUENCES = {
    "split_by_episode": lambda b: [part.a.tolist() for part in split_by_episode(b, "dones")],
    "group_by": lambda b: [part.a.tolist() for part in group_by(b, "eps_id").values()],
    "lookback": lambda b: lookback(b, 1, [2, 1]).a.ravel().tolist(),
}


@pytest.mark.parametrize("use", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("lens", [[1, 1, 1], [2, 1], [0, 1, 2]], ids=repr)
def test_sample_batches_with_sequences_lose_and_mix_nothing(use, lens):
    batch = SampleBatch(a=[1, 2, 3], dones=[0, 1, 0], eps_id=[5, 5, 6], seq_lens=lens)
    before = batch.copy()
    try:
        found = use(batch)
    except StructureError:
        found = None
    assert found in (None, [[1, 2], [3]], [1, 2, 3])
    assert batch == before


def test_parts_of_sequences_have_lengths_that_fit():
    batch = SampleBatch(a=[1, 2, 3], dones=[0, 1, 0], seq_lens=[0, 1, 2])
    try:
        parts = split_by_episode(batch)
    except StructureError:
        return
    assert [len(part) for part in parts] == [2, 1]


@given(lens=st.lists(st.integers(1, 4), min_size=2, max_size=9), size=st.floats(0.05, 0.95), seed=st.integers(0, 99))
def test_whole_episodes_are_held_out(lens, size, seed):
    batch = Batch(steps(sum(lens)), eps_id=np.repeat(np.arange(len(lens)), lens))
    train, test = train_test_split(batch, size, seed=seed)
    assert sorted([*train.a.tolist(), *test.a.tolist()]) == batch.a.tolist()
    assert not {*train.eps_id.tolist()} & {*test.eps_id.tolist()}
    assert len({*test.eps_id.tolist()}) == min(max(1, round(size * len(lens))), len(lens) - 1)
    assert (np.diff(train.a) > 0).all()
    assert (np.diff(test.a) > 0).all()
    again = train_test_split(batch, size, seed=seed)
    assert (again[0], again[1]) == (train, test)
    assert not np.shares_memory(train.a, batch.a)


@pytest.mark.parametrize(
    ("lens", "size", "error", "text"),
    [
        ([3], 0.5, SizeError, "two episodes are needed, one to train and one to test with, got 1"),
        ([2, 1], 0, SettingError, "above 0 and below 1, got 0"),
        ([2, 1], 1.0, SettingError, "above 0 and below 1"),
        ([2, 1], math.nan, SettingError, "above 0 and below 1"),
    ],
)
def test_what_cannot_be_split(lens, size, error, text):
    batch = Batch(steps(3), eps_id=np.repeat(np.arange(len(lens)), lens))
    with pytest.raises(error, match=text):
        train_test_split(batch, size)
