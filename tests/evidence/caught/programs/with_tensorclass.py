"""TensorDict's TensorClass: a class per kind of batch, a subclass per stage."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorClass, TensorDict
from torch import Tensor


class Rollout(TensorClass):
    obs: Tensor
    act: Tensor
    rew: Tensor
    terminated: Tensor


class WithReturns(Rollout):
    returns: Tensor


class GoalRollout(Rollout):
    goal: Tensor
    mask: Tensor | None


class RobotObs(TensorClass):
    cam: Tensor
    pos: Tensor


class RobotStep(TensorClass):
    obs: RobotObs
    act: Tensor


def add_returns(b: Rollout, values: Tensor) -> WithReturns:
    return WithReturns(
        obs=b.obs, act=b.act, rew=b.rew, terminated=b.terminated, returns=values, batch_size=b.batch_size
    )


def mean_return(batch: WithReturns) -> float:
    return float(batch.returns.mean())


def mean_goal(batch: GoalRollout) -> float:
    return float(batch.goal.mean())


def mean_array(values: NDArray[Any]) -> float:
    return float(np.mean(values))


# ---- reading


def misspelt_read(rollout: Rollout) -> float:
    return float(rollout.reward.mean())  # wrong
    # right: return float(rollout.rew.mean())


def old_gym_field(rollout: Rollout) -> float:
    return float(rollout.done.sum())  # wrong
    # right: return float(rollout.terminated.sum())


def read_too_early(rollout: Rollout, values: Tensor) -> float:
    return float(rollout.returns.mean())  # wrong
    # right: return float(add_returns(rollout, values).returns.mean())


def misspelt_key(rollout: Rollout) -> float:
    return float(rollout.get("reward").mean())  # wrong
    # right: return float(rollout.get("rew").mean())


def misspelt_nested(robot: RobotStep) -> float:
    return float(robot.obs.cma.mean())  # wrong
    # right: return float(robot.obs.cam.mean())


def optional_unchecked(goal: GoalRollout) -> float:
    return float(goal.mask.mean())  # wrong
    # right: return 0.0 if goal.mask is None else float(goal.mask.mean())


def read_after_removal(rollout: Rollout) -> float:
    rollout.pop("rew")
    return float(rollout.rew.mean())  # wrong
    # right: return float(rollout.act.mean())


# ---- writing


def misspelt_write(returns: WithReturns) -> None:
    returns.retruns = returns.returns * 0.5  # wrong
    # right: returns.returns = returns.returns * 0.5


def undeclared_write(rollout: Rollout, values: Tensor) -> None:
    rollout.returns = values  # wrong
    # right: add_returns(rollout, values).returns = values


def wrong_type_write(rollout: Rollout) -> None:
    rollout.rew = 0.0  # wrong
    # right: rollout.rew = torch.zeros(4)


# cannot: wrong_dtype_write: the type of a tensor does not tell its dtype


# ---- constructing


def misspelt_keyword(values: Tensor) -> Rollout:
    return Rollout(obs=values, act=values, reward=values, terminated=values, batch_size=[4])  # wrong
    # right: return Rollout(obs=values, act=values, rew=values, terminated=values, batch_size=[4])


def missing_field(values: Tensor) -> Rollout:
    return Rollout(obs=values, act=values, terminated=values, batch_size=[4])  # wrong
    # right: return Rollout(obs=values, act=values, rew=values, terminated=values, batch_size=[4])


def missing_own_field(values: Tensor) -> GoalRollout:
    return GoalRollout(obs=values, act=values, rew=values, terminated=values, mask=None, batch_size=[4])  # wrong
    # right: return GoalRollout(obs=values, act=values, rew=values, terminated=values, mask=None, goal=values, batch_size=[4])


def swapped_positions(obs: Tensor, values: Tensor) -> Rollout:
    return Rollout(values, obs, values, values, batch_size=[4])  # wrong
    # right: return Rollout(obs=obs, act=values, rew=values, terminated=values, batch_size=[4])


def one_row_short(values: Tensor) -> Rollout:
    return Rollout(obs=values, act=values, rew=values[1:], terminated=values, batch_size=[4])  # wrong
    # right: return Rollout(obs=values, act=values, rew=values, terminated=values, batch_size=[4])


# ---- passing on


def too_early_argument(rollout: Rollout, values: Tensor) -> float:
    return mean_return(rollout)  # wrong
    # right: return mean_return(add_returns(rollout, values))


def open_argument(loaded: TensorDict) -> float:
    return mean_return(loaded)  # wrong
    # right: return mean_return(WithReturns.from_tensordict(loaded))


def int_argument(returns: WithReturns) -> float:
    return mean_return(3)  # wrong
    # right: return mean_return(returns)


def own_field_lacks(step: Rollout, goal: GoalRollout) -> float:
    return mean_goal(step)  # wrong
    # right: return mean_goal(goal)


# cannot: arrays_for_tensors: arrays become tensors
# cannot: tensors_for_arrays: arrays become tensors
# cannot: array_field_for_torch: arrays become tensors


def tensor_field_for_numpy(returns: WithReturns) -> float:
    return mean_array(returns.returns)  # wrong
    # right: return mean_array(returns.returns.numpy())


# ---- rows


def slice_then_misspelt(rollout: Rollout) -> float:
    return float(rollout[:2].reward.mean())  # wrong
    # right: return float(rollout[:2].rew.mean())


def minibatch_then_misspelt(rollout: Rollout) -> float:
    total = 0.0
    for minibatch in rollout.split(2):
        total += float(minibatch.reward.sum())  # wrong
        # right: total += float(minibatch.rew.sum())
    return total


def cat_then_misspelt(rollout: Rollout) -> float:
    return float(Rollout.cat([rollout, rollout]).reward.mean())  # wrong
    # right: return float(Rollout.cat([rollout, rollout]).rew.mean())


def stack_then_misspelt(rollout: Rollout) -> float:
    return float(Rollout.stack([rollout, rollout]).reward.mean())  # wrong
    # right: return float(Rollout.stack([rollout, rollout]).rew.mean())


# ---- from stage to stage


def wrong_stage_returned(rollout: Rollout, values: Tensor) -> WithReturns:
    return rollout  # wrong
    # right: return add_returns(rollout, values)


def new_field_forgotten(b: Rollout) -> WithReturns:
    return WithReturns(obs=b.obs, act=b.act, rew=b.rew, terminated=b.terminated, batch_size=b.batch_size)  # wrong
    # right: return WithReturns(obs=b.obs, act=b.act, rew=b.rew, terminated=b.terminated, returns=b.rew, batch_size=b.batch_size)


def new_field_misspelt(b: Rollout) -> WithReturns:
    return WithReturns(obs=b.obs, act=b.act, rew=b.rew, terminated=b.terminated, retruns=b.rew, batch_size=b.batch_size)  # wrong
    # right: return WithReturns(obs=b.obs, act=b.act, rew=b.rew, terminated=b.terminated, returns=b.rew, batch_size=b.batch_size)


def samples() -> dict[str, object]:
    x = torch.ones(4)
    rollout = Rollout(obs=x, act=x, rew=x, terminated=x, batch_size=[4])
    return {
        "obs": torch.ones(4, 3),
        "values": x,
        "rollout": rollout,
        "b": rollout,
        "returns": add_returns(rollout, x),
        "loaded": TensorDict({"obs": x, "act": x, "rew": x, "terminated": x, "returns": x}, batch_size=[4]),
        "step": rollout,
        "goal": GoalRollout(obs=x, act=x, rew=x, terminated=x, goal=x, mask=None, batch_size=[4]),
        "robot": RobotStep(obs=RobotObs(cam=x, pos=x, batch_size=[4]), act=x, batch_size=[4]),
    }
