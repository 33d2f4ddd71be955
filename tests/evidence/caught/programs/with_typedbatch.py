"""typedbatch without a plugin: functions ask for protocols, records are built, ``validate`` lets loaded data in."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    Batch,
    BatchRecord,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    PrioBatch,
    RolloutBatch,
    RolloutBatchProtocol,
    cat,
    extend,
    stack,
    validate,
)

Array = NDArray[Any]


class Step(BatchRecord):
    obs: Array
    act: Array
    rew: Array


class GoalStep(Step):
    goal: NDArray[np.float32]
    mask: Array | None


class RobotObs(BatchRecord):
    cam: Array
    pos: Array


class RobotStep(BatchRecord):
    obs: RobotObs
    act: Array


def add_returns(rollout: RolloutBatchProtocol, values: Array) -> BatchWithReturns:
    return extend(rollout, BatchWithReturns, returns=values)


def mean_return(batch: BatchWithReturnsProtocol) -> float:
    return float(batch.returns.mean())


def mean_return_of_tensors(batch: BatchWithReturnsProtocol[Tensor]) -> float:
    return float(batch.returns.mean())


def mean_goal(batch: GoalStep) -> float:
    return float(batch.goal.mean())


def mean_array(values: Array) -> float:
    return float(np.mean(values))


def mean_tensor(values: Tensor) -> float:
    return float(torch.mean(values))


# ----


def undeclared_write(rollout: RolloutBatch, array: Array) -> None:
    rollout.weight = array  # wrong
    # right: extend(rollout, PrioBatch, weight=array).weight = array


def tensor_field_for_numpy(tensors: BatchWithReturnsProtocol[Tensor]) -> float:
    return mean_array(tensors.returns)  # wrong
    # right: return mean_array(tensors.returns.numpy())


# ----


def open_batch_read_by_dot(loaded: Batch) -> float:
    return float(loaded.rew.mean())


def samples() -> dict[str, object]:
    a = np.ones(4)
    t = torch.ones(4)
    rollout = RolloutBatch(obs=a, info=Batch(), obs_next=a, act=a, rew=a, terminated=a > 0, truncated=a > 0)
    tensors = BatchWithReturns(obs=t, info=Batch(), obs_next=t, act=t, rew=t, terminated=t > 0, truncated=t > 0, returns=t)
    return {
        "array": a,
        "obs": np.ones((4, 3)),
        "integers": np.ones(4, np.int64),
        "rollout": rollout,
        "returns": add_returns(rollout, a),
        "tensors": tensors,
        "loaded": Batch(add_returns(rollout, a)),
        "step": Step(obs=a, act=a, rew=a),
        "goal": GoalStep(obs=a, act=a, rew=a, goal=a.astype(np.float32), mask=None),
        "robot": RobotStep(obs=RobotObs(cam=a, pos=a), act=a),
    }
