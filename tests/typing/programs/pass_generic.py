"""Generic contracts of one's own, contracts of arrays and tensors at once, and records made from protocols."""

from typing import Any, Generic, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar, assert_type

from typedbatch import (
    Act_co,
    ActStateBatch,
    ActStateBatchProtocol,
    ArrayOrTensor,
    Batch,
    FQFBatch,
    FQFBatchProtocol,
    K_co,
    LogpOldBatch,
    LogpOldProtocol,
    Obs_co,
    RolloutBatch,
    RolloutBatchProtocol,
    conforms,
    convert,
    validate,
)

Array = NDArray[Any]
T = TypeVar("T", bound=ArrayOrTensor, default=Array)
T_co = TypeVar("T_co", bound=ArrayOrTensor, covariant=True)


# a type variable of one's own has the bound
class Costs(RolloutBatch[T], Generic[T]):
    cost: T


class HasCost(RolloutBatchProtocol[T_co], Protocol[T_co]):
    @property
    def cost(self) -> T_co: ...


# with the type variables of the library, the observation and the action may be nested too
class Safe(RolloutBatch[K_co, Obs_co, Act_co], Generic[K_co, Obs_co, Act_co]):
    cost: K_co


def total(batch: Costs[Tensor], safe: Safe[Tensor], any_cost: HasCost[Tensor]) -> None:
    assert_type(batch.cost, Tensor)
    assert_type(batch.rew, Tensor)
    assert_type(batch.obs, Tensor)
    assert_type(safe.cost, Tensor)
    assert_type(safe.act, Tensor)
    assert_type(any_cost.cost, Tensor)
    assert_type(any_cost.rew, Tensor)
    tensors(batch)
    tensors(safe)


def tensors(batch: RolloutBatchProtocol[Tensor]) -> None: ...


# after process_fn: arrays from the buffer, tensors from the networks
def learn(batch: LogpOldProtocol[np.ndarray | torch.Tensor]) -> Array:
    assert_type(batch.adv, np.ndarray | torch.Tensor)
    assert_type(batch.obs, np.ndarray | torch.Tensor)
    adv = batch.adv
    return adv if isinstance(adv, np.ndarray) else adv.numpy()


def either(arrays: LogpOldBatch, torches: LogpOldBatch[Tensor]) -> None:
    learn(arrays)
    learn(torches)
    rows(arrays)


def rows(batch: RolloutBatchProtocol[np.ndarray | torch.Tensor]) -> int:
    return len(batch)


# what a protocol has goes into a record
def again(b: RolloutBatchProtocol) -> RolloutBatch:
    return RolloutBatch(
        obs=b.obs, info=b.info, obs_next=b.obs_next, act=b.act, rew=b.rew, terminated=b.terminated, truncated=b.truncated
    )


def again_in_torch(b: RolloutBatchProtocol[Tensor]) -> RolloutBatch[Tensor]:
    return RolloutBatch(
        obs=b.obs, info=b.info, obs_next=b.obs_next, act=b.act, rew=b.rew, terminated=b.terminated, truncated=b.truncated
    )


def states(act: ActStateBatchProtocol[Tensor], f: FQFBatchProtocol[Tensor]) -> ActStateBatch[Tensor]:
    FQFBatch(act=f.act, state=f.state, logits=f.logits, fractions=f.fractions, quantiles_tau=f.quantiles_tau)
    return ActStateBatch(act=act.act, state=act.state)


def reinform(batch: RolloutBatch, other: RolloutBatchProtocol) -> int:
    batch.info = other.info
    batch.info = Batch(step=batch.rew)
    return len(batch.info)


def main(n: int) -> None:
    x: Array = np.ones(n)
    done: Array = np.zeros(n, bool)
    costs = Costs(obs=x, info=Batch(), obs_next=x, act=x, rew=x, terminated=done, truncated=done, cost=x)
    assert_type(again(costs), RolloutBatch)
    assert len(again_in_torch(convert(costs, RolloutBatch[Tensor]))) == reinform(again(costs), costs) == n
    total(convert(costs, Costs[Tensor]), convert(costs, Safe[Tensor]), convert(costs, HasCost[Tensor]))
    t = torch.ones(n)
    batch = Batch(costs, returns=t, adv=t, v_s=t, logp_old=t)
    both = validate(batch, LogpOldProtocol[np.ndarray | torch.Tensor])
    assert_type(both.rew, np.ndarray | torch.Tensor)
    assert learn(both).sum() == rows(both) == n
    assert conforms(batch, LogpOldProtocol[np.ndarray | torch.Tensor])
    assert conforms(Batch(costs), Costs)


main(2)
