"""validate, conforms, checked, extend and convert: what comes out has the type that was asked for."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import assert_type

from typedbatch import (
    ActBatch,
    ActStateBatchProtocol,
    Batch,
    BatchWithAdvantages,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    LogpOldBatch,
    LogpOldProtocol,
    ObsBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    checked,
    conforms,
    convert,
    extend,
    validate,
)

Array = NDArray[Any]


def validated(b: Batch, raw: object) -> None:
    assert_type(validate(b, RolloutBatchProtocol), RolloutBatchProtocol)
    assert_type(validate(b, RolloutBatchProtocol).rew, Array)
    assert_type(validate(b, RolloutBatch), RolloutBatch)
    assert_type(validate(raw, ObsBatchProtocol), ObsBatchProtocol)
    assert_type(validate(b, RolloutBatch | ActBatch), RolloutBatch | ActBatch)
    assert_type(validate(None, RolloutBatch | None), RolloutBatch | None)
    typed = validate(b, RolloutBatch)
    typed.rew = typed.rew * 2
    assert_type(typed[:2].act, Array)


def narrowed(b: Batch) -> float:
    if not conforms(b, RolloutBatchProtocol):
        return 0.0
    rew: Array = b.rew
    return float(rew.sum())


def either(b: object) -> int:
    if conforms(b, BatchWithReturns):
        assert_type(b, BatchWithReturns)
        return len(b.returns)
    if conforms(b, RolloutBatch):
        assert_type(b.rew, Array)
        return len(b)
    return -1


@checked
def discounted(batch: RolloutBatchProtocol, gamma: float = 0.99, *, lam: float = 1.0) -> BatchWithReturns:
    returns = np.cumsum(batch.rew[::-1])[::-1] * gamma * lam
    return extend(batch, BatchWithReturns, returns=returns)


class Policy:
    gamma = 0.9

    @checked
    def process(self, batch: RolloutBatchProtocol) -> BatchWithReturnsProtocol:
        return discounted(batch, self.gamma)

    @checked
    def forward(self, batch: ObsBatchProtocol, state: Batch | None = None) -> ActStateBatchProtocol:
        return validate(Batch(act=np.zeros(len(batch)), state=state), ActStateBatchProtocol)


def ppo(rollout: RolloutBatch) -> LogpOldBatch:
    with_returns = extend(rollout, BatchWithReturns, returns=rollout.rew)
    assert_type(with_returns, BatchWithReturns)
    with_adv = extend(with_returns, BatchWithAdvantages, adv=with_returns.returns, v_s=rollout.rew)
    assert_type(with_adv.adv, Array)
    assert_type(extend(with_adv, LogpOldProtocol, logp_old=rollout.rew), LogpOldProtocol)
    return extend(with_adv, LogpOldBatch, logp_old=rollout.rew)


def to_arrays(tensors: RolloutBatch[Tensor]) -> RolloutBatch:
    assert_type(convert(tensors, RolloutBatch), RolloutBatch)
    assert_type(convert(tensors, RolloutBatchProtocol).rew, Array)
    return convert(tensors, RolloutBatch)


# Tensors last: mypy 1.20 mistakes some of what is asked for bare after them; see fault_inference.py.
def validated_torch(b: Batch) -> None:
    assert_type(validate(b, RolloutBatchProtocol[Tensor]), RolloutBatchProtocol[Tensor])
    assert_type(validate(b, RolloutBatch[Tensor]).rew, Tensor)


def to_tensors(rollout: RolloutBatchProtocol, b: Batch) -> RolloutBatch[Tensor]:
    tensors = convert(rollout, RolloutBatch[Tensor])
    assert_type(tensors, RolloutBatch[Tensor])
    assert_type(tensors.rew, Tensor)
    assert_type(convert(b, RolloutBatchProtocol[Tensor]), RolloutBatchProtocol[Tensor])
    assert_type(convert(b, RolloutBatch[Tensor], device="cpu"), RolloutBatch[Tensor])
    assert_type(convert(b, RolloutBatch[Tensor], device=torch.device("cpu")), RolloutBatch[Tensor])
    return tensors


def main(n: int) -> None:
    f, done = np.ones(n), np.zeros(n, bool)
    b = Batch(obs=f, info=Batch(), obs_next=f, act=f, rew=f, terminated=done, truncated=done)
    rollout: RolloutBatch = validate(b, RolloutBatch)
    validated(b.copy(), b)
    validated_torch(b.to_torch())
    assert narrowed(b) == n
    assert either(rollout) == n
    assert_type(discounted(rollout, lam=0.95), BatchWithReturns)
    assert_type(discounted(batch=rollout, gamma=0.9), BatchWithReturns)
    assert_type(Policy().process(rollout).returns, Array)
    assert_type(Policy().forward(rollout).act, Array)
    ppo(rollout)
    to_arrays(to_tensors(rollout, b))


main(4)
