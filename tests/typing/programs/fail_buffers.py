"""Mistakes with replay buffers."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import Batch, ObsBatch, RolloutBatch, RolloutBatchProtocol
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer, compute_nstep_return

Array = NDArray[Any]


class GoalRollout(RolloutBatch):
    goal: Array


def array_value(buffer: ReplayBuffer[Any, Any], indices: NDArray[np.intp]) -> Array:
    return np.zeros(len(indices))


def wants_goals(buffer: ReplayBuffer[GoalRollout]) -> None: ...


def wants_rollouts(buffer: ReplayBuffer[Any, RolloutBatchProtocol]) -> None: ...


def wrong(rollout: RolloutBatch, plain: ReplayBuffer[RolloutBatch], goals: GoalRollout, open_: Batch, obs: ObsBatch) -> None:
    buffer = ReplayBuffer[GoalRollout](20)
    buffer.add(rollout)  # E: too-few-fields-added
    buffer.add(open_)  # E: open-batch-added
    buffer.sample(4)[0].gaol  # E: misspelt-read-of-sample: gaol
    buffer[:].rwe  # E: misspelt-read-of-sample: rwe
    buffer.smaple(4)  # E: misspelt-method: smaple
    buffer.sample("4")  # E: wrong-size
    buffer.extend(rollout)  # E: too-few-fields-added
    buffer.extend([goals])  # E: list-of-rows-added
    buffer.sample(4, into=RolloutBatch[Tensor])[0].gaol  # E: misspelt-read-of-sample: gaol
    buffer.sample(4, dtype=torch.float32)  # E: dtype-of-no-tensors
    buffer.sample_sequences(4, 3)[0].mask  # E: mask-of-rows: mask
    buffer.sample_sequences(4)  # E: no-length
    buffer.sample_sequences(4, 3, burnin=1)  # E: misspelt-option-of-windows
    buffer.sample_sequences(4, 3, into=RolloutBatch[Tensor])[0].mask  # E: mask-of-rows: mask
    VectorReplayBuffer[GoalRollout](20, 2, stack_nmu=4)  # E: misspelt-option: stack_nmu [not: ty]
    VectorReplayBuffer[GoalRollout](20)  # E: no-rings
    PrioritizedReplayBuffer[GoalRollout](20, 0.6, 0.4)[:].goal  # E: misspelt-read-of-sample: goal
    wants_goals(plain)  # E: buffer-of-others
    wants_rollouts(ReplayBuffer[GoalRollout, ObsBatch](20))  # E: buffer-of-others
    compute_nstep_return(obs, buffer, np.arange(3), array_value)  # E: returns-of-no-rollout
    compute_nstep_return(goals, buffer, np.arange(3), lambda b, i: "nothing")  # E: value-of-no-stage
    compute_nstep_return(goals, buffer, np.arange(3), array_value).adv  # E: misspelt-read-of-sample: adv


ReplayBuffer[int](20)  # E: buffer-of-no-batches
