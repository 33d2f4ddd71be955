"""Batches of several policies: made, read, cut into time slices, copied, and refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.helpers import assert_identical
from typedbatch import Batch, MultiAgentBatch, SampleBatch
from typedbatch.errors import (
    FieldNameError,
    LeafError,
    MissingFieldError,
    RowAssignmentError,
    RowIndexError,
    SettingError,
    SizeError,
    StructureError,
    TypedBatchError,
)


def steps(rows: list[tuple[int, int, int]], **more: Any) -> SampleBatch:
    """Rows of ``(eps_id, t, agent_index)``."""
    eps_id, t, agent = (np.array(column, int) for column in zip(*rows, strict=True)) if rows else [np.zeros(0, int)] * 3
    return SampleBatch(row=np.arange(len(rows)), eps_id=eps_id, t=t, agent_index=agent, **more)


def two_policies() -> MultiAgentBatch:
    return MultiAgentBatch({"p": steps([(0, 0, 0), (0, 1, 0), (1, 0, 0)]), "q": steps([(0, 1, 1)])}, 3)


def what_is_in(pieces: list[MultiAgentBatch]) -> list[dict[str, list[int]]]:
    return [{name: batch.row.tolist() for name, batch in piece.policy_batches.items()} for piece in pieces]


def test_it_is_a_batch_of_two_fields():
    batch = two_policies()
    assert isinstance(batch, Batch)
    assert list(batch.keys()) == ["policy_batches", "count"]
    assert (len(batch), batch.count, batch.env_steps(), batch.agent_steps()) == (3, 3, 3, 4)
    assert type(batch.count) is int


def test_batches_are_shared_and_dicts_become_sample_batches():
    given_batch = SampleBatch(a=[1])
    batch = MultiAgentBatch({"p": given_batch, "q": {"a": [1, 2]}, "r": Batch(a=[3])}, 1)
    assert batch.policy_batches["p"] is given_batch
    assert [type(batch[name]) for name in "pqr"] == [SampleBatch] * 3
    assert batch.agent_steps() == 4


def test_policies_by_name_win_over_the_two_fields():
    inner = SampleBatch(a=[1])
    batch = MultiAgentBatch({"count": inner, "policy_batches": inner}, 1)
    assert batch["count"] is batch["policy_batches"] is inner
    assert batch.count == 1
    assert two_policies()["count"] == 3


def test_policies_can_be_added_and_removed():
    batch = two_policies()
    batch.policy_batches["r"] = SampleBatch(a=[1, 2])
    del batch.policy_batches["p"]
    assert batch.agent_steps() == 3
    assert batch["r"].a.tolist() == [1, 2]


def test_padding_and_sequences_count_as_steps():
    inner = SampleBatch(a=[1, 2, 3], seq_lens=[1, 2]).right_zero_pad(4)
    assert MultiAgentBatch({"p": inner}, 3).agent_steps() == 3


CONSTRUCTIONS = [
    ({"p": {"a": [1]}}, 2, StructureError, "got 2 env steps and 1 agent steps"),
    ({"p": {"a": [1]}}, -1, SizeError, "got -1"),
    ({"p": [1]}, 1, LeafError, "'p': a policy's steps must be a SampleBatch, got list"),
    ({"p": None}, 0, LeafError, "'p'.*got None"),
    ({"p": {"a": [1], "b": [1, 2]}}, 1, StructureError, "'p': the fields have different lengths"),
    ({"p": {"a": [1], "seq_lens": [2]}}, 1, StructureError, "'p.seq_lens'"),
    ({"p": {"a": 1}}, 1, TypeError, "'p.a': a scalar"),
    ({0: {"a": [1]}}, 1, FieldNameError, "names must be strings, got 0"),
    ({"p": {"a": [1]}}, 1.5, TypedBatchError, "env_steps.*1.5"),
    ({"p": {"a": [1]}}, "1", TypedBatchError, "env_steps"),
    ([SampleBatch(a=[1])], 1, TypedBatchError, "list"),
    (None, 0, TypedBatchError, "None"),
]


@pytest.mark.parametrize(("policies", "env_steps", "error", "text"), CONSTRUCTIONS, ids=[c[3] for c in CONSTRUCTIONS])
def test_what_is_no_multi_agent_batch(policies, env_steps, error, text):
    with pytest.raises(error, match=text) as caught:
        MultiAgentBatch(policies, env_steps)
    assert isinstance(caught.value, TypedBatchError)


def naive_slices(policies: dict[str, SampleBatch], k: int) -> list[dict[str, list[int]]]:
    """A loop over the steps of the environment: by episode, then by time; agents in the order of their numbers."""
    keys = sorted({(int(e), int(t)) for batch in policies.values() for e, t in zip(batch.eps_id, batch.t, strict=True)})
    found = []
    for first in range(0, len(keys), k):
        inside: dict[str, list[int]] = {}
        for name, batch in policies.items():
            rows = []
            for key in keys[first : first + k]:
                here = [i for i in range(len(batch)) if (batch.eps_id[i], batch.t[i]) == key]
                rows += sorted(here, key=lambda i: batch.agent_index[i])
            if rows:
                inside[name] = rows
        found.append(inside)
    return found


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=7)


@given(ROWS, ROWS, st.integers(1, 5))
def test_time_slices_are_those_of_a_naive_loop(p, q, k):
    policies = {"p": steps(p), "q": steps(q)}
    pieces = MultiAgentBatch(policies, 1).timeslices(k)
    assert what_is_in(pieces) == naive_slices(policies, k)
    total = len({row[:2] for row in p + q})
    assert sum(piece.env_steps() for piece in pieces) == total
    assert {type(batch) for piece in pieces for batch in piece.policy_batches.values()} == {SampleBatch}


def test_time_may_have_gaps_and_ids_may_be_text():
    batch = MultiAgentBatch({"p": {"row": [0, 1, 2], "eps_id": ["b", "a", "a"], "t": [5, 90, 7]}}, 3)
    assert what_is_in(batch.timeslices(1)) == [{"p": [2]}, {"p": [1]}, {"p": [0]}]


def test_time_slices_of_tensors():
    inner = SampleBatch(row=torch.arange(2), eps_id=torch.zeros(2), t=torch.tensor([1, 0]))
    pieces = MultiAgentBatch({"p": inner}, 2).timeslices(1)
    assert what_is_in(pieces) == [{"p": [1]}, {"p": [0]}]
    assert isinstance(pieces[0]["p"].row, torch.Tensor)


def test_time_slices_of_a_policy_without_rows():
    policies = {"p": steps([(0, 0, 0), (0, 1, 0)]), "q": steps([])}
    assert what_is_in(MultiAgentBatch(policies, 2).timeslices(1)) == [{"p": [0]}, {"p": [1]}]


def test_time_slices_of_a_policy_without_columns():
    batch = MultiAgentBatch({"p": steps([(0, 0, 0)]), "q": SampleBatch()}, 1)
    assert what_is_in(batch.timeslices(1)) == [{"p": [0]}]


def test_time_slices_of_sequences_keep_their_states():
    inner = steps([(0, 0, 0), (0, 1, 0), (0, 2, 0)], seq_lens=[1, 2], state_in_0=[10, 20])
    first, second = MultiAgentBatch({"p": inner}, 3).timeslices(2)
    assert (first["p"].row.tolist(), first["p"].state_in_0.tolist()) == ([0, 1], [10, 20])
    assert (second["p"].row.tolist(), second["p"].state_in_0.tolist()) == ([2], [20])


def test_time_slices_of_padded_sequences_leave_the_padding():
    inner = steps([(0, 0, 0), (0, 1, 0), (0, 2, 0)], seq_lens=[1, 2]).right_zero_pad(2)
    pieces = MultiAgentBatch({"p": inner}, 3).timeslices(2)
    assert what_is_in(pieces) == [{"p": [0, 1]}, {"p": [2]}]


UNKNOWN_TIMES = {
    "two dimensions": {"eps_id": [0, 0], "t": [[0], [1]]},
    "ids of several kinds": {"eps_id": ["x", 1], "t": [0, 1]},
    "a nested column": {"eps_id": [0, 0], "t": {"x": [0, 1]}},
}


@pytest.mark.parametrize("columns", UNKNOWN_TIMES.values(), ids=UNKNOWN_TIMES)
def test_columns_that_tell_no_time_are_named(columns):
    with pytest.raises(StructureError, match=r"eps_id|'t'|\bt\b"):
        MultiAgentBatch({"p": SampleBatch(columns)}, 1).timeslices(1)


@pytest.mark.parametrize("missing", ["eps_id", "t"])
def test_a_policy_without_the_columns_of_time_is_named(missing):
    batch = two_policies()
    del batch["q"][missing]
    with pytest.raises(MissingFieldError, match=f"q has no field '{missing}'"):
        batch.timeslices(1)


@pytest.mark.parametrize("k", [0, -1, 1.5, "1"])
def test_time_slices_have_at_least_one_step(k):
    with pytest.raises(SizeError, match=r"k is (1 or more|a whole number)"):
        two_policies().timeslices(k)


def test_copies_and_pickles_keep_classes_and_data():
    for back in (copy.deepcopy(two_policies()), pickle.loads(pickle.dumps(two_policies())), two_policies().copy()):
        assert_identical(back, two_policies())
    batch = two_policies()
    assert copy.copy(batch)["p"].row is batch["p"].row


def test_conversion_reaches_every_policy():
    batch = two_policies()
    assert batch.to_device("cpu") is batch
    assert isinstance(batch["p"].row, torch.Tensor)
    assert (len(batch.to_torch()), len(batch.to_numpy())) == (3, 3)
    assert two_policies() == batch.to_numpy()


def test_compression_that_is_refused_changes_no_policy():
    batch = MultiAgentBatch({"p": {"obs": np.zeros(3)}, "q": {"obs": np.array([{1}, None], object)}}, 1)
    before = batch.copy()
    with pytest.raises(LeafError, match=r"'(q\.)?obs'"):
        batch.compress()
    assert batch == before


def test_another_framework_changes_no_policy():
    batch = two_policies()
    with pytest.raises(SettingError, match="tf"):
        batch.to_device("cpu", "tf")
    assert batch == two_policies()


def test_as_multi_agent_under_another_name():
    assert list(SampleBatch(a=[1]).as_multi_agent("red").policy_batches) == ["red"]


def test_wrap_as_needed_converts_dicts():
    assert MultiAgentBatch.wrap_as_needed({"default_policy": {"a": [1]}}, 1) == SampleBatch(a=[1])
    empty = MultiAgentBatch.wrap_as_needed({}, 0)
    assert (len(empty), empty.agent_steps(), empty.timeslices(2)) == (0, 0, [])


ROWS_OF_ALL = {
    "int": lambda b: b[0], "slice": lambda b: b[:1], "mask": lambda b: b[[True, False, True]], "iteration": list,
    "split": lambda b: b.split(1),
}  # fmt: skip


@pytest.mark.parametrize("use", ROWS_OF_ALL.values(), ids=ROWS_OF_ALL)
def test_rows_are_those_of_one_policy(use):
    batch = two_policies()
    with pytest.raises(RowIndexError, match=r"policy_batches\[...\] \('p', 'q'\)"):
        use(batch)
    assert batch == two_policies()


def test_rows_are_not_written():
    batch = two_policies()
    with pytest.raises((RowIndexError, RowAssignmentError)):
        batch[0] = {"row": 1}
    assert batch == two_policies()


def test_an_unknown_policy_is_named_among_those_there():
    with pytest.raises(MissingFieldError, match="no field 'red'; it has p, q"):
        two_policies()["red"]


@pytest.mark.parametrize("name", ["count", "policy_batches"])
def test_the_two_fields_are_not_set_by_attribute(name):
    with pytest.raises(FieldNameError, match=name):
        setattr(two_policies(), name, 5)


def test_a_policy_set_by_its_name_is_read_by_its_name():
    batch = two_policies()
    try:
        batch["p"] = SampleBatch(row=[7])
    except TypedBatchError:
        return
    assert batch["p"].row.tolist() == [7]
    assert batch.agent_steps() == 2


def test_policies_are_told_by_in():
    assert "p" in two_policies()
    assert "zz" not in two_policies()
