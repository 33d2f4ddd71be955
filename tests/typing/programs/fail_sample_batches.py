"""Mistakes with sample batches, sequences and names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, MultiAgentBatch, RolloutBatch, RolloutBatchProtocol, SampleBatch
from typedbatch.episodes import lookback, split_by_episode
from typedbatch.naming import rename
from typedbatch.sequences import cut, pack, pad, unpad


def wants_rollout(batch: RolloutBatchProtocol) -> None: ...


def wrong(batch: SampleBatch, both: MultiAgentBatch, rollout: RolloutBatch, lengths: NDArray[np.intp]) -> None:
    batch.slice("a", 3)  # E: wrong-start
    batch.slice(0)  # E: no-end
    batch.timeslices(sise=3)  # E: misspelt-option: sise
    batch.timeslices("3")  # E: wrong-size
    batch.split_by_episode(key=3)  # E: wrong-key
    batch.right_zero_pad()  # E: no-length
    batch.to_device("cpu", framework="tf")  # E: other-framework
    batch.columns("obs", "act")  # E: columns-are-a-list
    batch.concat(rollout)  # E: concat-with-another-class
    batch.as_multi_agent().rows()  # E: no-rows-of-policies
    batch.size_byts()  # E: misspelt-method
    batch.rewards  # E: read-by-attribute: rewards
    batch.rewards = np.zeros(3)  # E: write-by-attribute: rewards
    batch.count = 4  # E: count-is-read-only: count
    MultiAgentBatch({"a": 3}, 3)  # E: policy-of-a-number
    MultiAgentBatch({"a": batch})  # E: no-env-steps
    both.timeslices()  # E: no-size
    both.policy_batches["a"].timeslices(3)[0].slice()  # E: no-bounds
    cut(rollout, lengths)[0].rwe  # E: misspelt-read-of-piece: rwe
    pad(rollout, lengths).adv  # E: misspelt-read-of-padded: adv
    pad([rollout, rollout], side="middle")  # E: no-such-side
    pad(rollout)  # E: no-lengths
    unpad(rollout)  # E: no-mask
    pack(rollout, lengths).unpack().rwe  # E: misspelt-read-of-unpacked: rwe
    cut({"obs": np.zeros(3)}, lengths)  # E: dict-for-batch
    split_by_episode(rollout)[0].retruns  # E: misspelt-read-of-episode: retruns
    lookback(rollout, 4, fill="last")  # E: no-such-fill
    rename(rollout, "rlib")  # E: no-such-convention
    rename({"obs": np.zeros(3)}, "rllib")  # E: dict-for-batch
    wants_rollout(rename(rollout, "tianshou"))  # E: open-batch-for-rollout
    wants_rollout(batch)  # E: sample-batch-for-rollout


def returns(batch: SampleBatch) -> list[Batch]:
    return batch.split_by_episode()  # E: lists-are-invariant


def rows(batch: SampleBatch) -> dict[str, Any]:
    return batch.rows()  # E: iterator-for-row
