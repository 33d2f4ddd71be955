"""typedbatch with the mypy plugin: batches are made where they are used, functions ask for protocols, no records."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    Batch,
    BatchProtocol,
    BatchWithReturnsProtocol,
    RolloutBatchProtocol,
    cat,
    extend,
    stack,
    validate,
)

Array = NDArray[Any]


class Step(BatchProtocol, Protocol):
    @property
    def obs(self) -> Array: ...
    @property
    def act(self) -> Array: ...
    @property
    def rew(self) -> Array: ...


class GoalStep(Step, Protocol):
    @property
    def goal(self) -> NDArray[np.float32]: ...
    @property
    def mask(self) -> Array | None: ...


def mean_reward(batch: Step) -> float:
    return float(batch.rew.mean())


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


def misspelt_read(array: Array) -> float:
    rollout = Batch(obs=array, act=array, rew=array)
    return float(rollout.reward.mean())  # wrong
    # right: return float(rollout.rew.mean())


def old_gym_field(array: Array) -> float:
    rollout = Batch(obs=array, act=array, terminated=array > 0, truncated=array > 0)
    return float(rollout.done.sum())  # wrong
    # right: return float(rollout.terminated.sum())


def read_too_early(array: Array) -> float:
    rollout = Batch(obs=array, act=array, rew=array)
    before = float(rollout.returns.mean())  # wrong
    # right: before = float(rollout.rew.mean())
    rollout.returns = rollout.rew[::-1].cumsum()[::-1]
    return before + float(rollout.returns.mean())


def misspelt_key(array: Array) -> float:
    rollout = Batch(obs=array, act=array, rew=array)
    return float(rollout["reward"].mean())  # wrong
    # right: return float(rollout["rew"].mean())


def misspelt_nested(array: Array) -> float:
    robot = Batch(obs={"cam": array, "pos": array}, act=array)
    return float(robot.obs.cma.mean())  # wrong
    # right: return float(robot.obs.cam.mean())


def optional_unchecked(array: Array, mask: Array | None) -> float:
    goal = Batch(obs=array, goal=array, mask=mask)
    return float(goal.mask.mean())  # wrong
    # right: return 0.0 if goal.mask is None else float(goal.mask.mean())


def read_after_removal(array: Array) -> float:
    rollout = Batch(obs=array, act=array, rew=array)
    rollout.pop("rew")
    return float(rollout.rew.mean())  # wrong
    # right: return float(rollout.act.mean())


def misspelt_write(array: Array) -> float:
    rollout = Batch(obs=array, rew=array, returns=array)
    rollout.retruns = rollout.returns * 0.5  # wrong
    # right: rollout.returns = rollout.returns * 0.5
    return float(rollout.returns.mean())


# cannot: undeclared_write: this is how fields are added


def wrong_type_write(array: Array) -> float:
    rollout = Batch(obs=array, act=array, rew=array)
    rollout.rew = 0.0  # wrong
    # right: rollout.rew = np.zeros(4)
    return mean_reward(rollout)  # or here


def wrong_dtype_write(array: Array, integers: NDArray[np.int64]) -> float:
    goal = Batch(obs=array, act=array, rew=array, mask=None)
    goal.goal = integers  # wrong
    # right: goal.goal = integers.astype(np.float32)
    return mean_goal(goal)  # or here


def too_early_argument(array: Array) -> float:
    rollout = Batch(obs=array, obs_next=array, act=array, rew=array, terminated=array > 0, truncated=array > 0, info=Batch())
    return mean_return(rollout)  # wrong
    # right: rollout.returns = rollout.rew[::-1].cumsum()[::-1]
    # right: return mean_return(rollout)


def int_argument(array: Array) -> float:
    rollout = Batch(obs=array, obs_next=array, act=array, rew=array, terminated=array > 0, truncated=array > 0, info=Batch())
    rollout.returns = rollout.rew[::-1].cumsum()[::-1]
    return mean_return(3)  # wrong
    # right: return mean_return(rollout)


def own_field_lacks(array: Array) -> float:
    step = Batch(obs=array, act=array, rew=array)
    goal = Batch(step, goal=array.astype(np.float32), mask=None)
    return mean_reward(goal) + mean_goal(step)  # wrong
    # right: return mean_reward(step) + mean_goal(goal)


def arrays_for_tensors(array: Array) -> float:
    rollout = Batch(obs=array, obs_next=array, act=array, rew=array, terminated=array > 0, truncated=array > 0, info=Batch())
    rollout.returns = rollout.rew[::-1].cumsum()[::-1]
    return mean_return_of_tensors(rollout)  # wrong
    # right: return mean_return_of_tensors(rollout.copy().to_torch())


def tensors_for_arrays(tensor: Tensor) -> float:
    rollout = Batch(obs=tensor, obs_next=tensor, act=tensor, rew=tensor, terminated=tensor > 0, info=Batch())
    rollout.truncated = torch.zeros_like(tensor)
    rollout.returns = rollout.rew.cumsum(0)
    return mean_return(rollout)  # wrong
    # right: return mean_return(rollout.to_numpy())


def array_field_for_torch(array: Array) -> float:
    rollout = Batch(obs=array, act=array, rew=array)
    return mean_tensor(rollout.rew)  # wrong
    # right: return mean_tensor(rollout.to_torch().rew)


def tensor_field_for_numpy(array: Array) -> float:
    tensors = Batch(obs=array, act=array, rew=array).to_torch()
    return mean_array(tensors.rew)  # wrong
    # right: return mean_array(tensors.rew.numpy())


def slice_then_misspelt(array: Array) -> float:
    rollout = Batch(obs=array, act=array, rew=array)
    return float(rollout[:2].reward.mean())  # wrong
    # right: return float(rollout[:2].rew.mean())


def minibatch_then_misspelt(array: Array) -> float:
    rollout = Batch(obs=array, act=array, rew=array)
    total = 0.0
    for minibatch in rollout.split(2):
        total += float(minibatch.reward.sum())  # wrong
        # right: total += float(minibatch.rew.sum())
    return total


def cat_then_misspelt(array: Array) -> float:
    parts = []
    for _ in range(2):
        parts.append(Batch(obs=array, act=array, rew=array))
    return float(cat(parts).reward.mean())  # wrong
    # right: return float(cat(parts).rew.mean())


def stack_then_misspelt(array: Array) -> float:
    steps = [Batch(obs=array, act=array, rew=array) for _ in range(2)]
    return float(stack(steps).reward.mean())  # wrong
    # right: return float(stack(steps).rew.mean())


def wrong_stage_returned(array: Array) -> BatchWithReturnsProtocol:
    rollout = Batch(obs=array, obs_next=array, act=array, rew=array, terminated=array > 0, truncated=array > 0, info=Batch())
    return rollout  # wrong
    # right: rollout.returns = rollout.rew[::-1].cumsum()[::-1]
    # right: return rollout


def new_field_forgotten(rollout: RolloutBatchProtocol) -> BatchWithReturnsProtocol:
    return extend(rollout, BatchWithReturnsProtocol)  # wrong
    # right: return extend(rollout, BatchWithReturnsProtocol, returns=rollout.rew[::-1].cumsum()[::-1])


def new_field_misspelt(rollout: RolloutBatchProtocol) -> BatchWithReturnsProtocol:
    return extend(rollout, BatchWithReturnsProtocol, retruns=rollout.rew[::-1].cumsum()[::-1])  # wrong
    # right: return extend(rollout, BatchWithReturnsProtocol, returns=rollout.rew[::-1].cumsum()[::-1])


# ----


def open_batch_read_by_dot(loaded: Batch) -> float:
    return float(loaded.rew.mean())


def samples() -> dict[str, object]:
    a = np.ones(4)
    rollout = Batch(obs=a, obs_next=a, act=a, rew=a, terminated=a > 0, truncated=a > 0, info=Batch())
    return {
        "array": a, "obs": np.ones((4, 3)), "integers": np.ones(4, np.int64), "tensor": torch.ones(4), "mask": None,
        "rollout": rollout, "loaded": Batch(rollout, returns=a),
    }  # fmt: skip
