"""Batches from RLlib and to it, and the same results as RLlib's own where it has no defect."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ray.rllib.policy.sample_batch import MultiAgentBatch as RllibMultiAgentBatch
from ray.rllib.policy.sample_batch import SampleBatch as RllibSampleBatch

from typedbatch import MultiAgentBatch, RolloutBatchProtocol, SampleBatch, SchemaError, validate
from typedbatch.bridges.rllib import from_rllib, to_rllib
from typedbatch.errors import LeafError


def columns(rows: int = 6) -> dict:
    return {
        "obs": np.arange(rows * 2.0).reshape(rows, 2),
        "actions": np.arange(rows),
        "terminateds": np.arange(rows) % 3 == 2,
        "eps_id": np.arange(rows) // 3,
    }


def test_arrays_and_tensors_are_shared_both_ways():
    theirs = RllibSampleBatch({**columns(), "values": torch.ones(6)})
    ours = from_rllib(theirs)
    assert type(ours) is SampleBatch
    assert np.shares_memory(ours["obs"], theirs["obs"])
    assert ours["values"] is theirs["values"]
    back = to_rllib(ours)
    assert type(back) is RllibSampleBatch
    assert np.shares_memory(back["obs"], theirs["obs"])


def test_nested_columns_become_nested_batches():
    ours = from_rllib(RllibSampleBatch({"obs": {"cam": np.zeros((2, 3)), "pos": np.arange(2)}}))
    assert ours["obs"]["pos"].tolist() == [0, 1]
    assert to_rllib(ours)["obs"]["pos"].tolist() == [0, 1]


def test_infos_keep_what_only_some_of_them_have():
    ours = from_rllib(RllibSampleBatch({"actions": np.arange(2), "infos": [{}, {"x": 1}]}))
    assert ours["infos"].tolist() == [{}, {"x": 1}]
    assert list(to_rllib(ours)["infos"]) == [{}, {"x": 1}]


def test_sequences_and_padding():
    theirs = RllibSampleBatch({"a": np.array([1, 2, 3]), "state_in_0": np.ones((2, 4)), "seq_lens": [1, 2]})
    theirs.right_zero_pad(4)
    ours = from_rllib(theirs)
    assert (len(ours), ours.zero_padded, ours.max_seq_len) == (3, True, 4)
    back = to_rllib(ours)
    assert (len(back), back.zero_padded, back.max_seq_len) == (3, True, 4)
    assert back["seq_lens"].dtype == np.int32


def test_multi_agent_batches():
    theirs = RllibMultiAgentBatch({"p": RllibSampleBatch(columns())}, 6)
    ours = from_rllib(theirs)
    assert type(ours) is MultiAgentBatch
    assert (ours.count, to_rllib(ours).count) == (6, 6)
    assert from_rllib(to_rllib(ours)) == ours


def test_dones_become_terminateds():
    assert to_rllib(SampleBatch(a=[1, 2], dones=[False, True]))["terminateds"].tolist() == [False, True]


def test_what_is_no_batch_of_rllib():
    with pytest.raises(LeafError, match="takes an RLlib SampleBatch or MultiAgentBatch, got dict"):
        from_rllib({})  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "operation",
    [
        lambda b: b.concat(b), lambda b: b.slice(1, 4), lambda b: b.timeslices(num_slices=3),
        lambda b: b.timeslices(size=2), lambda b: b.split_by_episode(), lambda b: b.columns(["obs", "actions"]),
    ],
)  # fmt: skip
def test_the_same_results(operation):
    ours, theirs = operation(SampleBatch(columns())), operation(RllibSampleBatch(columns()))
    pairs = zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]
    for one, other in pairs:
        if isinstance(other, np.ndarray):
            np.testing.assert_array_equal(one, other)
        else:
            assert one == from_rllib(other)


def test_the_same_padding():
    batch = {"a": np.arange(1, 7), "state_in_0": np.ones((3, 2)), "seq_lens": np.array([2, 3, 1])}
    ours, theirs = SampleBatch(dict(batch)).right_zero_pad(4), RllibSampleBatch(dict(batch)).right_zero_pad(4)
    assert ours["a"].tolist() == theirs["a"].tolist()
    sliced, theirs = SampleBatch(dict(batch)).slice(1, 5), RllibSampleBatch(dict(batch)).slice(1, 5)
    assert sliced["seq_lens"].tolist() == np.asarray(theirs["seq_lens"]).tolist()


def test_the_same_lockstep():
    def batch(sample, multi):
        first = sample(
            {"o": np.arange(3), "eps_id": np.zeros(3, int), "t": np.arange(3), "agent_index": np.zeros(3, int)}
        )
        second = sample({"o": np.array([7]), "eps_id": np.array([0]), "t": np.array([2]), "agent_index": np.array([1])})
        return multi({"a": first, "b": second}, 3).timeslices(2)

    ours, theirs = batch(SampleBatch, MultiAgentBatch), batch(RllibSampleBatch, RllibMultiAgentBatch)
    found, expected = (
        [{name: list(one["o"]) for name, one in piece.policy_batches.items()} for piece in pieces]
        for pieces in (ours, theirs)
    )
    assert found == expected == [{"a": [0, 1]}, {"a": [2], "b": [7]}]


@pytest.mark.parametrize(
    "given",
    [RllibSampleBatch(columns()), RllibMultiAgentBatch({"a": RllibSampleBatch(columns())}, 6)],
    ids=lambda given: type(given).__name__,
)
def test_a_report_names_the_class_of_rllib_and_the_bridge(given: object):
    with pytest.raises(SchemaError) as caught:
        validate(given, RolloutBatchProtocol)
    (problem,) = caught.value.problems
    assert problem.got == f"a ray.rllib.policy.sample_batch.{type(given).__name__}"
    assert problem.expected == "a typedbatch.Batch"
    assert problem.hint == "typedbatch.bridges.rllib.from_rllib(batch) makes it one"
