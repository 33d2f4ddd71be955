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


# ---- reading


def misspelt_read(rollout: RolloutBatchProtocol) -> float:
    return float(rollout.reward.mean())  # wrong
    # right: return float(rollout.rew.mean())


def old_gym_field(rollout: RolloutBatchProtocol) -> float:
    return float(rollout.done.sum())  # wrong
    # right: return float(rollout.terminated.sum())


def read_too_early(rollout: RolloutBatchProtocol, array: Array) -> float:
    return float(rollout.returns.mean())  # wrong
    # right: return float(add_returns(rollout, array).returns.mean())


def misspelt_key(rollout: RolloutBatchProtocol) -> float:
    return float(rollout["reward"].mean())  # wrong
    # right: return float(rollout["rew"].mean())


def misspelt_nested(robot: RobotStep) -> float:
    return float(robot.obs.cma.mean())  # wrong
    # right: return float(robot.obs.cam.mean())


def optional_unchecked(goal: GoalStep) -> float:
    return float(goal.mask.mean())  # wrong
    # right: return 0.0 if goal.mask is None else float(goal.mask.mean())


def read_after_removal(rollout: RolloutBatch) -> float:
    rollout.pop("rew")
    return float(rollout.rew.mean())  # wrong
    # right: return float(rollout.act.mean())


# ---- writing


def misspelt_write(returns: BatchWithReturns) -> None:
    returns.retruns = returns.returns * 0.5  # wrong
    # right: returns.returns = returns.returns * 0.5


def undeclared_write(rollout: RolloutBatch, array: Array) -> None:
    rollout.weight = array  # wrong
    # right: extend(rollout, PrioBatch, weight=array).weight = array


def wrong_type_write(rollout: RolloutBatch) -> None:
    rollout.rew = 0.0  # wrong
    # right: rollout.rew = np.zeros(4)


def wrong_dtype_write(goal: GoalStep, integers: NDArray[np.int64]) -> None:
    goal.goal = integers  # wrong
    # right: goal.goal = integers.astype(np.float32)


# ---- constructing


def misspelt_keyword(array: Array) -> Step:
    return Step(obs=array, act=array, reward=array)  # wrong
    # right: return Step(obs=array, act=array, rew=array)


def missing_field(array: Array) -> Step:
    return Step(obs=array, act=array)  # wrong
    # right: return Step(obs=array, act=array, rew=array)


def missing_own_field(array: Array) -> GoalStep:
    return GoalStep(obs=array, act=array, rew=array, mask=None)  # wrong
    # right: return GoalStep(obs=array, act=array, rew=array, mask=None, goal=array.astype(np.float32))


def swapped_positions(obs: Array, array: Array) -> Step:
    return Step(array, obs, array)  # wrong
    # right: return Step(obs=obs, act=array, rew=array)


def one_row_short(array: Array) -> Step:
    return Step(obs=array, act=array, rew=array[1:])  # wrong
    # right: return Step(obs=array, act=array, rew=array)


# ---- passing on


def too_early_argument(rollout: RolloutBatchProtocol, array: Array) -> float:
    return mean_return(rollout)  # wrong
    # right: return mean_return(add_returns(rollout, array))


def open_argument(loaded: Batch) -> float:
    return mean_return(loaded)  # wrong
    # right: return mean_return(validate(loaded, BatchWithReturnsProtocol))


def int_argument(returns: BatchWithReturns) -> float:
    return mean_return(3)  # wrong
    # right: return mean_return(returns)


def own_field_lacks(step: Step, goal: GoalStep) -> float:
    return mean_goal(step)  # wrong
    # right: return mean_goal(goal)


def arrays_for_tensors(returns: BatchWithReturns, tensors: BatchWithReturns[Tensor]) -> float:
    return mean_return_of_tensors(returns)  # wrong
    # right: return mean_return_of_tensors(tensors)


def tensors_for_arrays(returns: BatchWithReturns, tensors: BatchWithReturns[Tensor]) -> float:
    return mean_return(tensors)  # wrong
    # right: return mean_return(returns)


def array_field_for_torch(rollout: RolloutBatchProtocol) -> float:
    return mean_tensor(rollout.rew)  # wrong
    # right: return mean_tensor(torch.as_tensor(rollout.rew))


def tensor_field_for_numpy(tensors: BatchWithReturnsProtocol[Tensor]) -> float:
    return mean_array(tensors.returns)  # wrong
    # right: return mean_array(tensors.returns.numpy())


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
    return float(cat([rollout, rollout]).reward.mean())  # wrong
    # right: return float(cat([rollout, rollout]).rew.mean())


def stack_then_misspelt(rollout: RolloutBatchProtocol) -> float:
    return float(stack([rollout, rollout]).reward.mean())  # wrong
    # right: return float(stack([rollout, rollout]).rew.mean())


# ---- from stage to stage


def wrong_stage_returned(rollout: RolloutBatch, array: Array) -> BatchWithReturns:
    return rollout  # wrong
    # right: return add_returns(rollout, array)


def new_field_forgotten(rollout: RolloutBatchProtocol, array: Array) -> BatchWithReturns:
    return extend(rollout, BatchWithReturns)  # wrong
    # right: return extend(rollout, BatchWithReturns, returns=array)


def new_field_misspelt(rollout: RolloutBatchProtocol, array: Array) -> BatchWithReturns:
    return extend(rollout, BatchWithReturns, retruns=array)  # wrong
    # right: return extend(rollout, BatchWithReturns, returns=array)


# ---- right as it stands


def open_batch_read_by_dot(loaded: Batch) -> float:
    return float(loaded.rew.mean())


def samples() -> dict[str, object]:
    a = np.ones(4)
    t = torch.ones(4)
    rollout = RolloutBatch(obs=a, info=Batch(), obs_next=a, act=a, rew=a, terminated=a, truncated=a)
    tensors = BatchWithReturns(obs=t, info=Batch(), obs_next=t, act=t, rew=t, terminated=t, truncated=t, returns=t)
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
