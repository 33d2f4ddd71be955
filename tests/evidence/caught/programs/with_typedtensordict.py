"""TensorDict's TypedTensorDict: a class per kind of batch, a subclass per stage, and ``**`` from one to the next."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TypedTensorDict
from torch import Tensor


class Rollout(TypedTensorDict):
    obs: Tensor
    act: Tensor
    rew: Tensor
    terminated: Tensor


class WithReturns(Rollout):
    returns: Tensor


class GoalRollout(Rollout):
    goal: Tensor
    mask: Tensor | None = None


class RobotObs(TypedTensorDict):
    cam: Tensor
    pos: Tensor


class RobotStep(TypedTensorDict):
    obs: RobotObs
    act: Tensor


def add_returns(rollout: Rollout, values: Tensor) -> WithReturns:
    return WithReturns(**rollout, returns=values, batch_size=rollout.batch_size)


def mean_return(batch: WithReturns) -> float:
    return float(batch.returns.mean())


def mean_goal(batch: GoalRollout) -> float:
    return float(batch.goal.mean())


def mean_array(values: NDArray[Any]) -> float:
    return float(np.mean(values))


# ----


# cannot: wrong_dtype_write: the type of a tensor does not tell its dtype


def missing_own_field(values: Tensor) -> GoalRollout:
    return GoalRollout(obs=values, act=values, rew=values, terminated=values, batch_size=[4])  # wrong
    # right: return GoalRollout(obs=values, act=values, rew=values, terminated=values, goal=values, batch_size=[4])


def swapped_positions(obs: Tensor, values: Tensor) -> Rollout:
    return Rollout(values, obs, values, values, batch_size=[4])  # wrong
    # right: return Rollout(obs=obs, act=values, rew=values, terminated=values, batch_size=[4])


# cannot: arrays_for_tensors: arrays become tensors
# cannot: tensors_for_arrays: arrays become tensors
# cannot: array_field_for_torch: arrays become tensors


# ----


def samples() -> dict[str, object]:
    x = torch.ones(4)
    rollout = Rollout(obs=x, act=x, rew=x, terminated=x, batch_size=[4])
    return {
        "obs": torch.ones(4, 3),
        "values": x,
        "rollout": rollout,
        "returns": add_returns(rollout, x),
        "loaded": TensorDict({"obs": x, "act": x, "rew": x, "terminated": x, "returns": x}, batch_size=[4]),
        "step": rollout,
        "goal": GoalRollout(obs=x, act=x, rew=x, terminated=x, goal=x, batch_size=[4]),
        "robot": RobotStep(obs=RobotObs(cam=x, pos=x, batch_size=[4]), act=x, batch_size=[4]),
    }
