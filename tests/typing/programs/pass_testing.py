"""Data made for declarations, declarations written for data, and models: each knows its type."""

from typing import Any

import gymnasium as gym
import numpy as np
from hypothesis import given
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray
from pydantic import BaseModel
from torch import Tensor
from typing_extensions import assert_type

from typedbatch import Batch, BatchRecord, RolloutBatch, RolloutBatchProtocol
from typedbatch.bridges.pydantic import BatchModel, model_from, to_batch
from typedbatch.bridges.spaces import schema_from_spaces
from typedbatch.infer import infer_schema
from typedbatch.json_schema import json_schema
from typedbatch.testing import batches, example


class Step(BaseModel):
    rollout: RolloutBatchProtocol
    goal: RolloutBatch | None = None


def made() -> None:
    assert_type(example(RolloutBatchProtocol, N=8), RolloutBatchProtocol)
    assert_type(example(RolloutBatch, fields={"obs": np.zeros((4, 2))}), RolloutBatch)
    assert_type(example(RolloutBatchProtocol[Tensor], N=8).rew, Tensor)
    assert_type(batches(RolloutBatch, N=3), SearchStrategy[RolloutBatch])
    assert_type(infer_schema(Batch(obs=[1.0]), "Mine", "record", sizes=True), str)
    assert_type(json_schema(RolloutBatchProtocol), dict[str, Any])


@given(batches(RolloutBatchProtocol))
def test_rows(batch: RolloutBatchProtocol) -> None:
    assert len(batch[:1]) <= 1


def models(batch: RolloutBatch) -> None:
    step = Step(rollout=batch, goal=batch)
    rewards: NDArray[Any] = step.rollout.rew
    del rewards
    assert_type(model_from(RolloutBatchProtocol), type[BatchModel])
    assert_type(to_batch(step), Batch)


def spaces(env: gym.Env[Any, Any]) -> None:
    assert_type(schema_from_spaces(env.observation_space, env.action_space), type[BatchRecord])
