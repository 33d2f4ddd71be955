"""Sixteen mistakes that training code is really made of, each in a function of its own. No checker plugin is needed.

A line that ends in ``mistake 3: ...`` holds a mistake, and the comment below it says what was meant. Nothing else here
is wrong: ``demo.py`` has mypy confirm both, and runs each function to see what Python alone makes of it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pipeline import Policy, Value, add_logp_old, compute_returns, policy_gradient
from torch import Tensor

from typedbatch import (
    Batch,
    BatchRecord,
    BatchWithAdvantages,
    BatchWithAdvantagesProtocol,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    ObsBatch,
    ObsBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    convert,
)

Array: TypeAlias = NDArray[Any]


# ---- collecting ---------------------------------------------------------------------------------------------------


def record(obs: Array, act: Array, now: Array, rew: Array, fell: Array) -> RolloutBatch:
    info, cut = Batch(), np.zeros_like(fell)
    batch = RolloutBatch(obs=obs, info=info, act=act, obs_next=now, rew=rew, terminated=fell)  # mistake 1: no truncated
    # right: batch = RolloutBatch(obs=obs, info=info, act=act, obs_next=now, rew=rew, terminated=fell, truncated=cut)
    return batch


class Dynamics(BatchRecord):
    """What a model of the environment learns from."""

    obs: Array
    act: Array
    obs_next: Array


def record_dynamics(obs: Array, act: Array, now: Array) -> Dynamics:
    return Dynamics(obs=obs, act=act, next_obs=now)  # mistake 2: the field is called obs_next
    # right: return Dynamics(obs=obs, act=act, obs_next=now)


def observe(obs: Array) -> ObsBatch:
    return ObsBatch(obs, Batch())  # mistake 3: fields go by name
    # right: return ObsBatch(obs=obs, info=Batch())


def episode_ends(rollout: RolloutBatchProtocol) -> Array:
    return np.flatnonzero(rollout.done)  # mistake 4: gym had done, gymnasium has two flags
    # right: return np.flatnonzero(rollout.terminated | rollout.truncated)


def time_limits(rollout: RolloutBatchProtocol) -> int:
    return int(np.sum(rollout.info.get("TimeLimit.truncated", False)))  # mistake 5: gymnasium's info has no such key
    # right: return int(np.sum(rollout.truncated))


# ---- returns and advantages ---------------------------------------------------------------------------------------


def mean_reward(rollout: RolloutBatchProtocol) -> float:
    return float(rollout.reward.mean())  # mistake 6: the field is called rew
    # right: return float(rollout.rew.mean())


def value_error(rollout: RolloutBatchProtocol, value: Value) -> float:
    return float(np.mean((value(rollout.obs) - rollout.returns) ** 2))  # mistake 7: returns before they are computed
    # right: return float(np.mean((value(rollout.obs) - compute_returns(rollout, value).returns) ** 2))


def add_returns(rollout: RolloutBatch, value: Value) -> BatchWithReturns:
    compute_returns(rollout, value)
    return rollout  # mistake 8: the returns are in the new batch
    # right: return compute_returns(rollout, value)


def reported_reward(rollout: RolloutBatchProtocol, value: Value) -> float:
    rollout.rew = rollout.rew * 0.01  # mistake 9: scales the caller's rewards, too
    # right: rew = rollout.rew * 0.01
    return float(rollout.rew.mean())


def clipped(with_advantages: BatchWithAdvantages) -> Array:
    with_advantages.advs = with_advantages.adv.clip(-1.0, 1.0)  # mistake 10: writes advs, trains on adv
    # right: with_advantages.adv = with_advantages.adv.clip(-1.0, 1.0)
    return with_advantages.adv


# ---- learning -----------------------------------------------------------------------------------------------------


def epoch(with_advantages: BatchWithAdvantagesProtocol, policy: Policy) -> Array:
    total = np.zeros(4)
    for minibatch in with_advantages.split(500, shuffle=False):
        total += policy_gradient(policy, minibatch)  # mistake 11: minibatches of the wrong kind
        # right: total += policy_gradient(policy, add_logp_old(minibatch, policy))
    return total


def critic_loss(batch: BatchWithReturnsProtocol[Tensor], v_s: Tensor) -> Tensor:
    return torch.mean((batch.returns - v_s) ** 2)


def train_critic(with_returns: BatchWithReturns, v_s: Tensor) -> Tensor:
    return critic_loss(with_returns, v_s)  # mistake 12: arrays where tensors are asked for
    # right: return critic_loss(convert(with_returns, BatchWithReturns[Tensor]), v_s)


def cap_returns(with_returns: BatchWithReturns) -> BatchWithReturns:
    with_returns.returns = torch.from_numpy(with_returns.returns).clamp(max=50.0)  # mistake 13: a tensor among arrays
    # right: with_returns.returns = with_returns.returns.clip(max=50.0)
    return with_returns


def gain(now: BatchWithReturnsProtocol, before: RolloutBatchProtocol) -> float:
    return float(now.returns.mean() / before.rew.mean())


def report_gain(with_returns: BatchWithReturns, rollout: RolloutBatch) -> float:
    return gain(rollout, with_returns)  # mistake 14: the arguments are swapped
    # right: return gain(with_returns, rollout)


# ---- data of other shapes and from elsewhere ----------------------------------------------------------------------


class RobotObs(BatchRecord):
    """What a robot sees and where it is."""

    cam: Array
    pos: Array


def brightness(robot: ObsBatchProtocol[Array, RobotObs]) -> float:
    return float(robot.cam.mean())  # mistake 15: cam is inside obs
    # right: return float(robot.obs.cam.mean())


def from_d4rl(data: Batch) -> RolloutBatch:
    """A D4RL data set under our names."""
    return RolloutBatch(
        obs=data["observations"],
        info=Batch(),
        act=data["actions"],
        obs_next=data["next_observations"],
        rew=data["rewards"],
        terminated=data["terminals"],
        truncated=data["timeouts"],
    )


def offline_returns(d4rl: Batch, value: Value) -> BatchWithReturns:
    return compute_returns(d4rl, value)  # mistake 16: a plain Batch from a file, with fields of other names
    # right: return compute_returns(from_d4rl(d4rl), value)
