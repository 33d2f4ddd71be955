"""The same work done by RLlib's batches and by ours; what RLlib gets wrong is not asked of it.

Left out, therefore: columns of unequal length, empty slices, negative starts, steps, ends behind the data, sizes that
do not divide the steps, more slices than steps, ids of episodes that come again, and infos.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from ray.rllib.policy import sample_batch as rllib

from typedbatch import MultiAgentBatch, SampleBatch
from typedbatch.bridges.rllib import from_rllib, to_rllib


def assert_same(ours: Any, theirs: Any, path: str = "batch") -> None:
    """The same names, dtypes and values."""
    if isinstance(theirs, rllib.SampleBatch):
        assert type(ours) is SampleBatch
        assert len(ours) == theirs.count
        assert ours.zero_padded or not theirs.zero_padded
        theirs = dict(dict.items(theirs))
    if isinstance(theirs, dict):
        assert set(ours.keys()) == set(theirs), path
        for name, value in theirs.items():
            assert_same(ours[name], value, f"{path}.{name}")
    elif isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype, path
        assert torch.equal(ours, theirs), path
    else:
        assert ours.dtype == np.asarray(theirs).dtype, path
        np.testing.assert_array_equal(ours, theirs, err_msg=path)


def assert_same_pieces(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert_same(one, other)


def both(theirs: rllib.SampleBatch) -> tuple[SampleBatch, rllib.SampleBatch]:
    """Two batches that share nothing."""
    return from_rllib(theirs.copy()), theirs.copy()


def has(draw: st.DrawFn, name: str, like: rllib.SampleBatch | None) -> bool:
    """Whether a batch has a column: as another one, if it is to be like that."""
    return draw(st.booleans()) if like is None else name in like


@st.composite
def steps(draw: st.DrawFn, tensors: bool = True, like: rllib.SampleBatch | None = None) -> rllib.SampleBatch:
    """Steps with nested observations, without sequences."""
    count = draw(st.integers(1, 9))
    columns: dict[str, Any] = {"row": np.arange(count)}
    if has(draw, "obs", like):
        columns["obs"] = {"cam": np.arange(count * 4.0).reshape(count, 2, 2), "deep": {"er": np.arange(count) % 2 == 0}}
    if has(draw, "rewards", like):
        columns["rewards"] = np.linspace(0, 1, count, dtype=np.float32)
    if tensors and draw(st.booleans()):
        columns["logits"] = torch.arange(2.0 * count).reshape(count, 2)
    return rllib.SampleBatch(columns)


@st.composite
def sequences(draw: st.DrawFn, like: rllib.SampleBatch | None = None) -> rllib.SampleBatch:
    """Sequences with one or two states."""
    lens = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    states = np.arange(len(lens) * 2.0).reshape(-1, 2)
    columns: dict[str, Any] = {
        "row": np.arange(1, sum(lens) + 1),
        "obs": np.arange(1.0, 1 + 3 * sum(lens)).reshape(-1, 3),
        "seq_lens": np.array(lens, np.int32),
        "state_in_0": states,
    }
    if has(draw, "state_in_1", like):
        columns["state_in_1"] = -states
    return rllib.SampleBatch(columns)


@given(steps(), st.data())
def test_slices(theirs, data):
    ours, theirs = both(theirs)
    assert len(ours) == len(theirs) == ours.env_steps() == theirs.agent_steps()
    start = data.draw(st.integers(0, len(theirs) - 1))
    end = data.draw(st.integers(start + 1, len(theirs)))
    assert_same(ours.slice(start, end), theirs.slice(start, end))
    assert_same(ours[start:end], theirs[start:end])


@given(steps(tensors=False), st.data())
def test_concat(one, data):
    other = data.draw(steps(tensors=False, like=one))
    assert_same(from_rllib(one).concat(from_rllib(other)), one.concat(other))


@given(steps(), st.integers(1, 9))
def test_time_slices_of_a_size(theirs, size):
    ours, theirs = both(theirs)
    assume(len(theirs) % size == 0)
    assert_same_pieces(ours.timeslices(size=size), theirs.timeslices(size=size))


@given(steps(), st.integers(1, 9))
def test_so_many_time_slices(theirs, number):
    ours, theirs = both(theirs)
    assume(number <= len(theirs))
    assert_same_pieces(ours.timeslices(num_slices=number), theirs.timeslices(num_slices=number))


@given(steps(), st.data())
def test_episodes_by_their_ids(theirs, data):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=len(theirs), max_size=len(theirs)))
    theirs["eps_id"] = np.repeat(np.arange(len(theirs)) * 7, lengths)[: len(theirs)]
    ours, theirs = both(theirs)
    assert_same_pieces(ours.split_by_episode(), theirs.split_by_episode())


@given(steps(), st.data())
def test_episodes_by_their_flags(theirs, data):
    for name in ("terminateds", "truncateds"):
        theirs[name] = np.array(data.draw(st.lists(st.booleans(), min_size=len(theirs), max_size=len(theirs))))
    ours, theirs = both(theirs)
    assert_same_pieces(ours.split_by_episode(), theirs.split_by_episode())


@given(steps(tensors=False))
def test_rows_copies_and_columns(theirs):
    ours, theirs = both(theirs)
    for one, other in zip(ours.rows(), theirs.rows(), strict=True):
        assert set(one) == set(other)
        assert one["row"] == other["row"]
    assert_same(ours.copy(), theirs.copy())
    assert ours.columns(["row"])[0].tolist() == theirs.columns(["row"])[0].tolist()


@given(steps())
def test_as_multi_agent(theirs):
    ours, theirs = both(theirs)
    mine, other = ours.as_multi_agent(), theirs.as_multi_agent()
    assert list(mine.policy_batches) == list(other.policy_batches)
    assert mine.count == other.count
    assert mine["default_policy"] is ours


@given(sequences(), st.integers(4, 6))
def test_padding(theirs, length):
    ours, theirs = both(theirs)
    assert_same(ours.right_zero_pad(length), theirs.right_zero_pad(length))
    assert ours.max_seq_len == theirs.max_seq_len == length


@given(sequences(), st.data())
def test_concat_of_sequences(one, data):
    other = data.draw(sequences(like=one))
    assert_same(from_rllib(one).concat(from_rllib(other)), one.concat(other))


@given(sequences(), st.data())
def test_whole_sequences_as_slices(theirs, data):
    ours, theirs = both(theirs)
    ends = np.concatenate([[0], np.cumsum(theirs["seq_lens"])]).tolist()
    first = data.draw(st.integers(0, len(ends) - 2))
    last = data.draw(st.integers(first + 1, len(ends) - 1))
    start, end = ends[first], ends[last]
    expected = theirs.slice(start, end, first, last)
    for piece in (ours.slice(start, end, first, last), ours.slice(start, end), ours[start:end]):
        assert_same(piece, expected)


@given(sequences(), st.data())
def test_slices_that_begin_at_the_first_step(theirs, data):
    ours, theirs = both(theirs)
    end = data.draw(st.integers(1, theirs.count))
    assert_same(ours.slice(0, end), theirs.slice(0, end))


@st.composite
def policies(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """For each policy the columns of its agents; no two rows are of the same agent at the same step."""
    where = st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3))
    rows = draw(st.lists(where, unique=True, min_size=1, max_size=12))
    columns = {}
    for number, name in enumerate("pq"):
        mine = [row for row in rows if row[2] % 2 == number]
        if mine:
            eps, t, agent = (np.array(column) for column in zip(*mine, strict=True))
            columns[name] = {"eps_id": eps, "t": t, "agent_index": agent, "row": np.arange(len(mine))}
    return columns


@given(policies(), st.integers(1, 4))
def test_time_slices_of_policies(columns, size):
    env_steps = len({(e, t) for one in columns.values() for e, t in zip(one["eps_id"], one["t"], strict=True)})
    theirs = rllib.MultiAgentBatch({name: rllib.SampleBatch(one) for name, one in columns.items()}, env_steps)
    ours = MultiAgentBatch(columns, env_steps)
    for one, other in zip(ours.timeslices(size), theirs.timeslices(size), strict=True):
        assert set(one.policy_batches) == set(other.policy_batches)
        assert one.count == other.count
        for name, part in other.policy_batches.items():
            part.pop("unroll_id")  # RLlib's builder adds one
            assert_same(one[name], part)


@given(policies())
def test_copies_and_counts(columns):
    theirs = rllib.MultiAgentBatch({name: rllib.SampleBatch(one) for name, one in columns.items()}, 1)
    ours = from_rllib(theirs)
    assert (ours.env_steps(), ours.agent_steps(), len(ours)) == (theirs.env_steps(), theirs.agent_steps(), len(theirs))
    for name, part in theirs.copy().policy_batches.items():
        assert_same(ours.copy()[name], part)


@given(steps())
def test_wrapping(theirs):
    ours = from_rllib(theirs)
    for names in (["default_policy"], ["p"], ["p", "q"]):
        mine = MultiAgentBatch.wrap_as_needed(dict.fromkeys(names, ours), 1)
        other = rllib.MultiAgentBatch.wrap_as_needed(dict.fromkeys(names, theirs), 1)
        assert type(mine).__name__ == type(other).__name__


def test_tuples_are_nested_whatever_the_number_of_their_parts():
    theirs = rllib.SampleBatch({"obs": (np.arange(2), {"x": np.arange(2) * 10.0}), "actions": np.arange(2)})
    ours = from_rllib(theirs)
    assert ours[0]["obs"]["0"] == 0
    assert ours["obs"]["1"]["x"].tolist() == [0, 10]
    assert ours["obs"]["0"] is theirs["obs"][0]


def test_reserved_fields_are_left_out():
    theirs = to_rllib(SampleBatch(obs=np.zeros(2), infos={}))
    assert list(theirs.keys()) == ["obs"]
    assert len(list(theirs.rows())) == len(from_rllib(theirs)) == 2
