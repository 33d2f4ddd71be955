"""Mistakes in code that uses Tianshou's batches. Without the overlay mypy reports those marked so in the test alone."""

from typing import Protocol, cast

import numpy as np
import torch
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.data import Batch, ReplayBuffer
from tianshou.data.batch import BatchProtocol
from tianshou.data.types import (
    BatchWithAdvantagesProtocol,
    BatchWithReturnsProtocol,
    DistBatchProtocol,
    LogpOldProtocol,
    ModelOutputBatchProtocol,
    ObsBatchProtocol,
    RolloutBatchProtocol,
)
from tianshou.utils.net.common import Net


class RobotObs(BatchProtocol, Protocol):
    cam: np.ndarray
    pos: np.ndarray


class RobotStep(BatchProtocol, Protocol):
    obs: RobotObs
    act: np.ndarray


def learn(batch: RolloutBatchProtocol) -> float:
    return float(batch.rew.sum())


def use_returns(batch: BatchWithReturnsProtocol) -> float:
    return float(batch.returns.sum())


def reading(rollout: RolloutBatchProtocol, robot: RobotStep, anything: BatchProtocol) -> None:
    print(rollout.reward.mean())  # E: misspelt-read: reward
    print(rollout.done.sum())  # E: old-gym-field: done
    print(rollout.returns.mean())  # E: read-too-early: returns
    print(robot.obs.cma.mean())  # E: misspelt-nested: cma
    print(anything.obs)  # E: field-of-any-batch: obs


def writing(rollout: RolloutBatchProtocol, returns: BatchWithReturnsProtocol) -> None:
    rollout.goal = np.zeros(3)  # E: undeclared-write: goal
    returns.retruns = returns.returns * 0.5  # E: misspelt-write: retruns
    rollout.returns = torch.zeros(3)  # E: stage-write: returns


def rows(rollout: RolloutBatchProtocol) -> None:
    print(rollout[:2].reward)  # E: slice-then-misspelt: reward
    for row in rollout:
        print(row.reward)  # E: row-then-misspelt: reward
    for minibatch in rollout.split(2):
        print(minibatch.reward)  # E: minibatch-then-misspelt: reward
    print(Batch.cat([rollout, rollout]).reward)  # E: cat-then-misspelt: reward
    print(Batch.stack([rollout, rollout]).reward)  # E: stack-then-misspelt: reward
    print(rollout.to_torch().reward)  # E: torch-then-misspelt: reward
    print((rollout + rollout).reward)  # E: sum-then-misspelt: reward


def output(policy: DiscreteQLearningPolicy[Net], obs: ObsBatchProtocol, made: ModelOutputBatchProtocol) -> None:
    print(policy.forward(obs).actions)  # E: misspelt-output: actions
    print(made.dist)  # E: output-too-early: dist
    print(cast(DistBatchProtocol, made).log_prob)  # E: output-too-early: log_prob


def unvalidated(loaded: Batch, buffer: ReplayBuffer, policy: DiscreteQLearningPolicy[Net]) -> RolloutBatchProtocol:
    learn(loaded)  # E: unvalidated-argument: Batch
    learn(Batch(obs=np.zeros(3), act=np.zeros(3)))  # E: unvalidated-argument: Batch
    use_returns(loaded)  # E: unvalidated-argument: Batch
    buffer.add(loaded)  # E: unvalidated-transition: Batch
    policy.forward(loaded)  # E: unvalidated-observation: Batch
    return loaded  # E: unvalidated-result: Batch


def stages(rollout: RolloutBatchProtocol, returns: BatchWithReturnsProtocol) -> BatchWithAdvantagesProtocol:
    use_returns(rollout)  # E: wrong-stage-argument: RolloutBatchProtocol
    logp: LogpOldProtocol = returns  # E: wrong-stage-value: BatchWithReturnsProtocol
    print(logp)
    return returns  # E: wrong-stage-result: BatchWithReturnsProtocol
