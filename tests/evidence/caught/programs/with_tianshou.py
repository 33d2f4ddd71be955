"""Tianshou as its own code and docs use it: Batch, its protocols, and a cast where a batch gets its type."""

from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.data import Batch
from tianshou.data.batch import BatchProtocol
from tianshou.data.types import BatchWithReturnsProtocol, RolloutBatchProtocol
from torch import Tensor

Array = NDArray[Any]


class Step(BatchProtocol, Protocol):
    obs: Array
    act: Array
    rew: Array


class GoalStep(Step, Protocol):
    goal: NDArray[np.float32]
    mask: Array | None


class RobotObs(BatchProtocol, Protocol):
    cam: Array
    pos: Array


class RobotStep(BatchProtocol, Protocol):
    obs: RobotObs
    act: Array


def add_returns(rollout: RolloutBatchProtocol, values: Tensor) -> BatchWithReturnsProtocol:
    rollout.returns = values
    return cast(BatchWithReturnsProtocol, rollout)


def mean_return(batch: BatchWithReturnsProtocol) -> float:
    return float(batch.returns.mean())


def mean_goal(batch: GoalStep) -> float:
    return float(batch.goal.mean())


def mean_array(values: Array) -> float:
    return float(np.mean(values))


def mean_tensor(values: Tensor) -> float:
    return float(torch.mean(values))


# ----


# cannot: undeclared_write: this is how fields are added


# cannot: arrays_for_tensors: the protocols have one stage: `rew` is an array, `returns` a tensor
# cannot: tensors_for_arrays: the protocols have one stage: `rew` is an array, `returns` a tensor


def new_field_forgotten(rollout: RolloutBatchProtocol, values: Tensor) -> BatchWithReturnsProtocol:
    return cast(BatchWithReturnsProtocol, rollout)  # wrong
    # right: rollout.returns = values
    # right: return cast(BatchWithReturnsProtocol, rollout)


def new_field_misspelt(rollout: RolloutBatchProtocol, values: Tensor) -> BatchWithReturnsProtocol:
    rollout.retruns = values  # wrong
    # right: rollout.returns = values
    return cast(BatchWithReturnsProtocol, rollout)


# ----


def open_batch_read_by_dot(loaded: Batch) -> float:
    return float(loaded.rew.mean())


def samples() -> dict[str, object]:
    array, tensor = np.ones(4), torch.ones(4)
    fields = dict.fromkeys(("obs", "act", "obs_next", "rew", "terminated", "truncated"), array)
    return {
        "array": array,
        "obs": np.ones((4, 3)),
        "integers": np.ones(4, np.int64),
        "values": tensor,
        "rollout": Batch(fields, info=Batch()),
        "returns": Batch(fields, info=Batch(), returns=tensor),
        "loaded": Batch(fields, info=Batch(), returns=tensor),
        "step": Batch(obs=array, act=array, rew=array),
        "goal": Batch(obs=array, act=array, rew=array, goal=array.astype(np.float32), mask=None),
        "robot": Batch(obs=Batch(cam=array, pos=array), act=array),
    }
