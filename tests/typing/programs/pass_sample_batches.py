"""Sample batches, sequences and episodes: what goes in comes out as the same type."""

from collections.abc import Hashable
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

from typedbatch import Batch, BatchProtocol, MultiAgentBatch, RolloutBatch, RolloutBatchProtocol, SampleBatch, validate
from typedbatch.episodes import episode_lengths, group_by, lookback, lookback_mask, split_by_episode
from typedbatch.naming import NAMES, Convention, rename
from typedbatch.sample_batches.sample_batch import DEFAULT_POLICY_ID
from typedbatch.sequences import Packed, chop, cu_seqlens, cut, mask, pack, pad, position_ids, unpad

Array = NDArray[Any]


class Steps(BatchProtocol, Protocol):
    rewards: Array


class Mine(SampleBatch):
    limit: ClassVar[int] = 9


def members(batch: SampleBatch, mine: Mine) -> None:
    assert_type(batch.slice(0, 3), SampleBatch)
    assert_type(mine.slice(0, 3), Mine)
    assert_type(mine[:2], Mine)
    assert_type(mine.timeslices(2), list[Mine])
    assert_type(mine.timeslices(num_slices=2), list[Mine])
    assert_type(mine.split_by_episode(), list[Mine])
    assert_type(mine.concat(mine), Mine)
    assert_type(mine.shuffle(rng=np.random.default_rng(0)).right_zero_pad(4).compress(), Mine)
    assert_type(mine.to_device("cpu").decompress_if_needed().copy(shallow=True), Mine)
    assert_type(batch.as_multi_agent(), MultiAgentBatch)
    assert_type(batch.columns([SampleBatch.OBS, SampleBatch.REWARDS]), list[Any])
    assert_type(len(batch) + batch.count + batch.env_steps() + batch.agent_steps() + batch.size_bytes(), int)
    assert_type(batch.max_seq_len, int | None)
    assert_type(batch.zero_padded, bool)
    for row in batch.rows():
        assert_type(row, dict[str, Any])
    for piece in batch.split(32, shuffle=False):
        assert_type(piece, SampleBatch)
    for one in batch:
        assert_type(one, SampleBatch)
    rewards: Array = batch["rewards"]
    batch["advantages"] = rewards * 2
    assert_type(validate(batch, Steps).rewards, Array)


def policies(both: MultiAgentBatch, batch: SampleBatch) -> None:
    assert_type(both.policy_batches, dict[str, SampleBatch])
    assert_type(both.policy_batches[DEFAULT_POLICY_ID].slice(0, 1), SampleBatch)
    assert_type(both.timeslices(2), list[MultiAgentBatch])
    assert_type(both.copy().as_multi_agent().to_device("cpu"), MultiAgentBatch)
    assert_type(len(both) + both.count + both.agent_steps(), int)
    MultiAgentBatch({"a": batch, "b": {"obs": np.zeros(3)}}, 3)
    wrapped: MultiAgentBatch | SampleBatch = MultiAgentBatch.wrap_as_needed({DEFAULT_POLICY_ID: batch}, 3)
    del wrapped


def sequences(rollout: RolloutBatch, typed: RolloutBatchProtocol, open_: Batch, lengths: NDArray[np.intp]) -> None:
    assert_type(cut(rollout, lengths), list[RolloutBatch])
    assert_type(cut(typed, [2, 3]), list[RolloutBatchProtocol])
    assert_type(pad(rollout, lengths), RolloutBatch)
    assert_type(pad([rollout, rollout], length=9, side="left"), RolloutBatch)
    assert_type(unpad(pad(typed, lengths), mask(lengths)), RolloutBatchProtocol)
    assert_type(pack(rollout, lengths), Packed[RolloutBatch])
    assert_type(pack(rollout, lengths).unpack(), RolloutBatch)
    assert_type(cu_seqlens(chop(lengths, 8)), NDArray[np.int32])
    assert_type(position_ids([1, 2]), NDArray[np.intp])
    assert_type(split_by_episode(rollout), list[RolloutBatch])
    assert_type(group_by(open_, "id"), dict[Hashable, Batch])
    assert_type(lookback(typed, 4, episode_lengths(typed), fill="first"), RolloutBatchProtocol)
    assert_type(lookback_mask(lengths, 4), NDArray[np.bool_])
    assert_type(lookback(rollout, 4).obs_next, Array)


def names(batch: BatchProtocol, to: Convention) -> RolloutBatchProtocol:
    assert_type(rename(batch, "rllib"), SampleBatch)
    assert_type(rename(batch, to="torchrl"), Batch)
    assert_type(NAMES[to], tuple[str, ...])
    return validate(rename(SampleBatch(obs=np.zeros(2)), "tianshou"), RolloutBatchProtocol)
