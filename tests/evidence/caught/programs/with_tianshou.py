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


# ---- reading


def misspelt_read(rollout: RolloutBatchProtocol) -> float:
    return float(rollout.reward.mean())  # wrong
    # right: return float(rollout.rew.mean())


def old_gym_field(rollout: RolloutBatchProtocol) -> float:
    return float(rollout.done.sum())  # wrong
    # right: return float(rollout.terminated.sum())


def read_too_early(rollout: RolloutBatchProtocol, values: Tensor) -> float:
    return float(rollout.returns.mean())  # wrong
    # right: return float(add_returns(rollout, values).returns.mean())


def misspelt_key(rollout: RolloutBatchProtocol) -> float:
    return float(rollout["reward"].mean())  # wrong
    # right: return float(rollout["rew"].mean())


def misspelt_nested(robot: RobotStep) -> float:
    return float(robot.obs.cma.mean())  # wrong
    # right: return float(robot.obs.cam.mean())


def optional_unchecked(goal: GoalStep) -> float:
    return float(goal.mask.mean())  # wrong
    # right: return 0.0 if goal.mask is None else float(goal.mask.mean())


def read_after_removal(rollout: RolloutBatchProtocol) -> float:
    rollout.pop("rew")
    return float(rollout.rew.mean())  # wrong
    # right: return float(rollout.act.mean())


# ---- writing


def misspelt_write(returns: BatchWithReturnsProtocol) -> None:
    returns.retruns = returns.returns * 0.5  # wrong
    # right: returns.returns = returns.returns * 0.5


# cannot: undeclared_write: this is how fields are added


def wrong_type_write(rollout: RolloutBatchProtocol) -> None:
    rollout.rew = 0.0  # wrong
    # right: rollout.rew = np.zeros(4)


def wrong_dtype_write(goal: GoalStep, integers: NDArray[np.int64]) -> None:
    goal.goal = integers  # wrong
    # right: goal.goal = integers.astype(np.float32)


# ---- constructing


def misspelt_keyword(array: Array) -> Step:
    return cast(Step, Batch(obs=array, act=array, reward=array))  # wrong
    # right: return cast(Step, Batch(obs=array, act=array, rew=array))


def missing_field(array: Array) -> Step:
    return cast(Step, Batch(obs=array, act=array))  # wrong
    # right: return cast(Step, Batch(obs=array, act=array, rew=array))


def missing_own_field(array: Array) -> GoalStep:
    return cast(GoalStep, Batch(obs=array, act=array, rew=array, mask=None))  # wrong
    # right: return cast(GoalStep, Batch(obs=array, act=array, rew=array, mask=None, goal=array.astype(np.float32)))


def swapped_positions(obs: Array, array: Array) -> Step:
    return cast(Step, Batch(array, obs, array))  # wrong
    # right: return cast(Step, Batch(obs=obs, act=array, rew=array))


def one_row_short(array: Array) -> Step:
    return cast(Step, Batch(obs=array, act=array, rew=array[1:]))  # wrong
    # right: return cast(Step, Batch(obs=array, act=array, rew=array))


# ---- passing on


def too_early_argument(rollout: RolloutBatchProtocol, values: Tensor) -> float:
    return mean_return(rollout)  # wrong
    # right: return mean_return(add_returns(rollout, values))


def open_argument(loaded: Batch) -> float:
    return mean_return(loaded)  # wrong
    # right: return mean_return(cast(BatchWithReturnsProtocol, loaded))


def int_argument(returns: BatchWithReturnsProtocol) -> float:
    return mean_return(3)  # wrong
    # right: return mean_return(returns)


def own_field_lacks(step: Step, goal: GoalStep) -> float:
    return mean_goal(step)  # wrong
    # right: return mean_goal(goal)


# cannot: arrays_for_tensors: the protocols have one stage: `rew` is an array, `returns` a tensor
# cannot: tensors_for_arrays: the protocols have one stage: `rew` is an array, `returns` a tensor


def array_field_for_torch(rollout: RolloutBatchProtocol) -> float:
    return mean_tensor(rollout.rew)  # wrong
    # right: return mean_tensor(torch.as_tensor(rollout.rew))


def tensor_field_for_numpy(returns: BatchWithReturnsProtocol) -> float:
    return mean_array(returns.returns)  # wrong
    # right: return mean_array(returns.returns.numpy())


# ---- rows


def slice_then_misspelt(rollout: RolloutBatchProtocol) -> float:
    return float(rollout[:2].reward.mean())  # wrong
    # right: return float(rollout[:2].rew.mean())


def minibatch_then_misspelt(rollout: RolloutBatchProtocol) -> float:
    total = 0.0
    for minibatch in rollout.split(2):
        total += float(minibatch.reward.sum())  # wrong
        # right: total += float(minibatch.rew.sum())
    return total


def cat_then_misspelt(rollout: RolloutBatchProtocol) -> float:
    return float(Batch.cat([rollout, rollout]).reward.mean())  # wrong
    # right: return float(Batch.cat([rollout, rollout]).rew.mean())


def stack_then_misspelt(rollout: RolloutBatchProtocol) -> float:
    return float(Batch.stack([rollout, rollout]).reward.mean())  # wrong
    # right: return float(Batch.stack([rollout, rollout]).rew.mean())


# ---- from stage to stage


def wrong_stage_returned(rollout: RolloutBatchProtocol, values: Tensor) -> BatchWithReturnsProtocol:
    return rollout  # wrong
    # right: return add_returns(rollout, values)


def new_field_forgotten(rollout: RolloutBatchProtocol, values: Tensor) -> BatchWithReturnsProtocol:
    return cast(BatchWithReturnsProtocol, rollout)  # wrong
    # right: rollout.returns = values
    # right: return cast(BatchWithReturnsProtocol, rollout)


def new_field_misspelt(rollout: RolloutBatchProtocol, values: Tensor) -> BatchWithReturnsProtocol:
    rollout.retruns = values  # wrong
    # right: rollout.returns = values
    return cast(BatchWithReturnsProtocol, rollout)


# ---- right as it stands


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
