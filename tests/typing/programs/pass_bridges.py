"""Files and other libraries: what is loaded has the type that was asked for, what is handed on keeps its own.

Bridges whose libraries come without types, or with some that a checker cannot read, are in test_package.py alone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tianshou.data as ts
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader
from typing_extensions import assert_type

from typedbatch import Batch, BatchProtocol, ObsBatch, RolloutBatch, RolloutBatchProtocol, SampleBatch
from typedbatch.bridges.arrow import read_parquet, write_parquet
from typedbatch.bridges.collate_tokens import CollateTokens
from typedbatch.bridges.dlpack import from_dlpack, to_dlpack
from typedbatch.bridges.gymnasium import observations, transitions
from typedbatch.bridges.minari import from_minari, from_minari_dataset, to_minari, write_minari
from typedbatch.bridges.tianshou import buffer_from_tianshou, buffer_to_tianshou, from_tianshou, to_tianshou
from typedbatch.bridges.torch_data import BatchDataset, collate
from typedbatch.bridges.trl import from_trl, to_trl
from typedbatch.buffers import ReplayBuffer
from typedbatch.files import load, save, schema_version
from typedbatch.posttraining import PolicyLossProtocol, Ready

Array = NDArray[Any]


@schema_version(2)
class GoalRollout(RolloutBatch):
    goal: Array


def files(rollout: RolloutBatch, typed: RolloutBatchProtocol, path: Path) -> None:
    save(rollout, path)
    save(typed, "steps.h5", RolloutBatchProtocol, compression="gzip")
    save(SampleBatch(obs=np.zeros(2)), path, allow_pickle=False)
    assert_type(load(path), Batch)
    assert_type(load("steps.h5", GoalRollout, device="cpu"), GoalRollout)
    assert_type(load(path, RolloutBatchProtocol, mmap=True), RolloutBatchProtocol)
    assert_type(load(path, GoalRollout).goal, Array)


def environments(env: gym.Env[Array, np.int64]) -> None:
    assert_type(observations(env.reset()), ObsBatch)
    assert_type(transitions(np.zeros(4), 0, env.step(np.int64(0))), RolloutBatch)


def episodes(dataset: Any, one: Any, typed: RolloutBatchProtocol) -> None:
    assert_type(from_minari_dataset(dataset), Iterator[RolloutBatch])
    assert_type(from_minari(one).obs_next, Array)
    to_minari(typed, seed=3)
    write_minari(typed, "cartpole/mine-v0", "CartPole-v1", author="me")


def loaders(rollout: RolloutBatch, typed: RolloutBatchProtocol) -> None:
    dataset = BatchDataset(rollout)
    assert_type(dataset, BatchDataset[RolloutBatch])
    assert_type(dataset[0], RolloutBatch)
    assert_type(collate([rollout, rollout]), RolloutBatch)
    assert_type(collate([typed, typed]), RolloutBatchProtocol)
    for minibatch in DataLoader(dataset, batch_size=2, collate_fn=collate):
        del minibatch


def others(rollout: RolloutBatch, theirs: ts.Batch, buffer: ReplayBuffer[RolloutBatch]) -> None:
    assert_type(from_tianshou(theirs), Batch)
    assert_type(to_tianshou(rollout), ts.Batch)
    assert_type(buffer_from_tianshou(buffer_to_tianshou(buffer)), ReplayBuffer[Any, Any])
    write_parquet(rollout, "steps.parquet", compression="zstd")
    assert_type(read_parquet("steps.parquet", columns=["obs"]), Batch)
    assert_type(from_dlpack({"a": torch.zeros(3), "n": {"b": np.zeros(3)}}, "torch"), Batch)
    assert_type(to_dlpack(rollout), dict[str, Any])


def rows_of_theirs(buffer: ts.ReplayBuffer, prioritized: ts.PrioritizedReplayBuffer) -> None:
    rows, _ = buffer.sample(8)
    assert_type(from_tianshou(rows), Batch)
    assert_type(from_tianshou(buffer.sample(8)[0]), Batch)
    assert_type(from_tianshou(prioritized.sample(8)[0]), Batch)


def post_training(inputs: dict[str, torch.Tensor], ready: Ready) -> None:
    assert_type(from_trl(inputs), Batch)
    assert_type(from_trl(inputs, into=Ready), Ready)
    assert_type(from_trl(inputs, PolicyLossProtocol), PolicyLossProtocol)
    assert_type(to_trl(ready), dict[str, Any])
    collate = CollateTokens(Ready, left=["prompt_ids"], right=["response_ids"], pad_token_id=0)
    assert_type(collate([{"prompt_ids": [1]}]), Ready)


def typed_again(batch: BatchProtocol) -> RolloutBatchProtocol:
    save(batch, "a.safetensors")
    return load("a.safetensors", RolloutBatchProtocol)
