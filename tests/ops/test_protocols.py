"""Batches as they come from an environment pass the protocols that describe them."""

from __future__ import annotations

import numpy as np

from tests.ops.helpers import assert_array
from typedbatch import ActBatchProtocol, Batch, ObsBatchProtocol, RolloutBatchProtocol, validate


def transition() -> dict[str, object]:
    return {
        "obs": np.array([[1.0, 2.0], [3.0, 4.0]]), "obs_next": np.array([[2.0, 3.0], [4.0, 5.0]]),
        "act": np.array([0, 1]), "rew": np.array([1.0, 2.0]), "terminated": np.array([False, True]),
        "truncated": np.array([False, False]), "info": np.array([{}, {}], dtype=object),
    }  # fmt: skip


def test_batches_pass_their_protocols():
    act = validate(Batch(act=np.array([1, 2, 3])), ActBatchProtocol)
    assert_array(act.act, [1, 2, 3])
    fields = transition()
    obs = validate(Batch(obs=fields["obs"], info=fields["info"]), ObsBatchProtocol)
    assert_array(obs.obs, [[1.0, 2.0], [3.0, 4.0]])
    rollout = validate(Batch(transition()), RolloutBatchProtocol)
    assert_array(rollout.rew, [1.0, 2.0])


def test_a_function_reads_what_its_protocol_declares():
    def loss(batch: RolloutBatchProtocol) -> float:
        return float(((batch.rew - 0.5) ** 2).mean())

    assert loss(validate(Batch(transition()), RolloutBatchProtocol)) == 1.25


def test_info_as_one_empty_dict_is_accepted_beside_more_observations():
    batch = Batch(obs=np.array([1, 2, 3]), info=[{}])
    assert_array(validate(batch, ObsBatchProtocol).obs, [1, 2, 3])
