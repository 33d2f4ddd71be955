"""Data from files and workers is checked where it enters; then records all the way."""

from __future__ import annotations

import io
import json
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    checked,
    conforms,
    convert,
    extend,
    validate,
)


class GoalRollout(RolloutBatch[NDArray[Any]]):
    goal: NDArray[np.float64]


class GoalReturns(GoalRollout):
    returns: NDArray[np.float64]


class TensorSteps(BatchRecord):
    obs: Tensor
    returns: Tensor


class HasGoal(BatchProtocol, Protocol):
    @property
    def obs(self) -> NDArray[Any]: ...
    @property
    def goal(self) -> NDArray[np.float64]: ...


def dump(n: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    rows = {"obs": rng.normal(size=(n, 2)).tolist(), "act": rng.integers(0, 2, n).tolist(), "goal": np.ones((n, 2)).tolist()}
    return json.dumps({**rows, "rew": rng.normal(size=n).tolist(), "done": [False] * (n - 1) + [True]})


def load(text: str) -> GoalRollout:
    raw = Batch(json.load(io.StringIO(text)))
    raw.terminated = raw.pop("done")
    raw.truncated = np.zeros(len(raw["rew"]), bool)
    raw.obs_next = np.roll(raw["obs"], -1, axis=0)
    raw.info = Batch()
    return validate(raw, GoalRollout)
    #! later-stage: return validate(raw, GoalReturns)


def distance(batch: HasGoal) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(batch.obs - batch.goal, axis=-1))


@checked
def add_returns(batch: GoalRollout, gamma: float) -> GoalReturns:
    returns = np.zeros(len(batch))
    running = 0.0
    for t in reversed(range(len(batch))):
        running = batch.rew[t] + gamma * running * (not batch.terminated[t])
        returns[t] = running
    return extend(batch, GoalReturns, returns=returns)
    #! wrong-stage: return batch


def to_tensors(batch: BatchWithReturnsProtocol) -> TensorSteps:
    both = convert(batch, BatchWithReturns[Tensor])
    return TensorSteps(obs=both.obs, returns=both.returns)
    #! wrong-kind: return TensorSteps(obs=both.obs, returns=batch.returns)


def fit(steps: TensorSteps) -> float:
    weights = torch.linalg.lstsq(steps.obs, steps.returns[:, None]).solution
    residual = torch.linalg.norm(steps.obs @ weights - steps.returns[:, None])
    #! misspelt-read: residual = torch.linalg.norm(steps.obs @ weights - steps.retruns[:, None])
    return float(residual.item())


def reward_stats(batch: RolloutBatchProtocol) -> str:
    return f"{batch.rew.mean():.3f} over {int(batch.terminated.sum() + batch.truncated.sum())} episodes"


def guess(batch: object) -> str:
    if conforms(batch, GoalRollout):
        return f"goals {batch.goal.shape}"
        #! misspelt-read: return f"goals {batch.gaol.shape}"
    return "no goals"


def main() -> None:
    rollout = load(dump(6, 0))
    finished = add_returns(rollout, 0.9)
    print(reward_stats(rollout), f"{fit(to_tensors(finished)):.4f}", np.round(distance(rollout), 3).tolist())
    #! wrong-stage: print(reward_stats(rollout), f"{fit(to_tensors(rollout)):.4f}", np.round(distance(rollout), 3).tolist())
    probe = Batch(obs=np.zeros((2, 2)), goal=np.ones((2, 2)))
    #! missing-field: probe = Batch(obs=np.zeros((2, 2)))
    far = distance(probe)
    print(np.round(far, 3).tolist(), guess(rollout), guess(probe))
    try:
        validate(probe, GoalRollout)
    except SchemaError as error:
        print(len(error.problems), sorted(problem.path for problem in error.problems)[:2])


if __name__ == "__main__":
    main()
