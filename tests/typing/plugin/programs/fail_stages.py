"""Stages that are skipped, misspelt, half filled or filled with the wrong kind, starting from plain batches."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    ActBatchProtocol,
    ActStateBatchProtocol,
    Batch,
    BatchProtocol,
    BatchWithAdvantagesProtocol,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    LogpOldBatch,
    LogpOldProtocol,
    ObsBatchProtocol,
    PrioBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    convert,
    extend,
)

Array = NDArray[Any]


class GoalBatch(BatchProtocol, Protocol):
    goal: Array

    @property
    def weight(self) -> Array | None: ...


def act(batch: ObsBatchProtocol) -> ActBatchProtocol:
    return Batch(action=np.zeros(len(batch.obs), int))  # E: returned-misspelt: act


def act_with_state(batch: ObsBatchProtocol[Tensor]) -> ActStateBatchProtocol[Tensor]:
    out = Batch(act=batch.obs.argmax(-1))
    if len(batch) > 3:
        out.state = Batch(hidden=torch.zeros(len(batch), 2))
    return out  # E: returned-maybe: state


def learn(batch: RolloutBatchProtocol) -> None: ...
def learn_torch(batch: RolloutBatchProtocol[Tensor]) -> None: ...
def reach(batch: GoalBatch) -> None: ...


def extensions(b: RolloutBatchProtocol, r: BatchWithReturnsProtocol, a: Array, t: Tensor) -> None:
    extend(b, BatchWithReturnsProtocol, returns=a)
    extend(b, BatchWithReturnsProtocol, retruns=a)  # E: extend-misspelt: retruns
    extend(b, BatchWithReturnsProtocol)  # E: extend-forgotten: returns
    extend(b, BatchWithReturnsProtocol, returns=t)  # E: extend-wrong-kind: returns
    extend(b, BatchWithReturnsProtocol, returns=None)  # E: extend-wrong-kind: returns
    extend(b, BatchWithReturnsProtocol, returns=a, adv=a)  # E: extend-undeclared: adv
    extend(b, LogpOldProtocol, logp_old=a)  # E: extend-skipped: returns
    extend(r, LogpOldProtocol, adv=a, logp_old=a)  # E: extend-forgotten: v_s
    extend(r, BatchWithAdvantagesProtocol, adv=a, v_s=t)  # E: extend-wrong-kind: v_s
    extend(r, BatchWithAdvantagesProtocol, adv=a, v_s={"mean": a})  # E: extend-wrong-kind: v_s
    print(extend(r, BatchWithAdvantagesProtocol, adv=a, v_s=a).logp_old)  # E: not-yet: logp_old


class Rated(RolloutBatch[Tensor]):
    logp: Tensor
    note: str


def carried_over(b: RolloutBatch, p: RolloutBatchProtocol, t: RolloutBatch[Tensor], x: Tensor, y: Array) -> None:
    extend(b, Rated, logp=x, note="")  # E: extend-carries: "act", "obs", "obs_next", "rew"
    extend(p, BatchWithReturnsProtocol[Tensor], returns=x)  # E: extend-carries: as "ndarray", and it takes "Tensor"
    extend(t, BatchWithReturns, returns=y)  # E: extend-carries: as "Tensor", and it takes "ndarray"
    extend(t, BatchWithReturns[Tensor], returns=x)
    extend(convert(p, RolloutBatch[Tensor]), Rated, logp=x, note="")


def carried_over_but_for_some(b: RolloutBatch, x: Tensor) -> None:
    extend(b, Rated, logp=x, note="", rew=x, act=x)  # E: extend-carries: "obs", "obs_next", "terminated", "truncated" as


def plain_extensions(n: int) -> None:
    b = Batch(obs=np.zeros((n, 2)), act=np.zeros(n), rew=np.ones(n), info=Batch())
    extend(b, RolloutBatch, terminated=[False] * n, truncated=np.zeros(n, bool))  # E: extend-forgotten: obs_next
    b.obs_next = b.obs
    full = extend(b, RolloutBatch, terminated=[False] * n, truncated=np.zeros(n, bool))
    print(full.rew, full.reward)  # E: misspelt-read: reward
    extend(b, RolloutBatch, terminated=[False] * n)  # E: extend-forgotten: truncated
    extend(b, RolloutBatch, terminated=[False] * n, truncated="no")  # E: extend-wrong-kind: truncated
    extend(b, RolloutBatch, terminated=[False] * n, truncted=[False] * n)  # E: extend-misspelt: truncted
    b.terminated, b.truncated = np.zeros(n, bool), np.zeros(n, bool)
    extend(b, BatchWithReturns, returns=b.rew)
    extend(b, LogpOldBatch, logp_old=b.rew)  # E: extend-skipped: adv
    del b.rew
    extend(b, BatchWithReturns, returns=[0.0] * n)  # E: extend-lacks: rew


def conversions(n: int) -> None:
    b = Batch(obs=np.zeros((n, 2)), act=np.zeros(n), rew=np.ones(n), info=Batch(), obs_next=np.zeros((n, 2)))
    convert(b, RolloutBatchProtocol[Tensor])  # E: convert-lacks: terminated
    b.terminated, b.truncated = np.zeros(n, bool), np.zeros(n, bool)
    tensors = convert(b, RolloutBatchProtocol[Tensor])
    learn(tensors)  # E: wrong-stage
    learn_torch(tensors)
    learn(b)
    learn_torch(b)  # E: wrong-stage
    convert(b, PrioBatchProtocol[Tensor])  # E: convert-lacks: weight
    print(tensors.rew.numpyy())  # E: misspelt-method: numpyy


def in_place(n: int) -> None:
    b = Batch(obs=np.zeros((n, 2)), nested={"a": [1.0], "deep": {"b": np.zeros(2)}}, t=torch.zeros(n))
    print(b.obs.sigmoid())  # E: tensor-method-on-array: sigmoid
    b.to_torch_()
    print(b.obs.sigmoid(), b.nested.deep.b.sigmoid())
    print(b.obs.tofile("x"))  # E: array-method-on-tensor: tofile
    print(b.nested.deep.bb)  # E: misspelt-deep: bb
    b.to_numpy_()
    print(b.nested.a.dim())  # E: tensor-method-on-array: dim
    b.obs = torch.zeros(n)
    print(b.obs.dim())
    print(b.to_numpy().obs.dim())  # E: tensor-method-on-array: dim
    learn(b.to_numpy())  # E: too-few-fields


def goals(n: int) -> None:
    b = Batch(goal=np.zeros((n, 2)))
    reach(b)  # E: missing-field: weight
    b.weight = None
    reach(b)
    b.weight = np.ones(n)
    reach(b)
    b.weight = torch.ones(n)
    reach(b)  # E: wrong-kind: weight
    extend(Batch(goal=b.goal), GoalBatch)  # E: extend-forgotten: weight
    extend(Batch(goal=b.goal), GoalBatch, weights=None)  # E: extend-misspelt: weights
    extend(Batch(goal=b.goal), GoalBatch, weight=b.weight)  # E: extend-wrong-kind: weight


def assigned(n: int) -> None:
    b = Batch(obs=np.zeros(n), info=Batch())
    fine: ObsBatchProtocol = b
    wrong: ActBatchProtocol = b  # E: assigned-too-little: act
    torch_too: ObsBatchProtocol[Tensor] = b  # E: assigned-wrong-stage: obs
    several: list[ObsBatchProtocol] = [b, Batch(obs=np.zeros(n))]  # E: item-too-little: info
    print(fine, wrong, torch_too, several)


def unknown(table: dict[str, Any], b: Batch) -> None:
    whole = Batch(**table)
    print(whole["obs"], b["obs"])
    print(whole.obs)
    learn(whole)  # E: unknown-as-rollout
    learn(b)  # E: plain-as-rollout
    print(Batch(table).obs)
