"""Protocols as parameters: every record, sub-protocol and class with the right members is accepted."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Categorical, Distribution
from typing_extensions import assert_type

from typedbatch import (
    ActBatch,
    ActBatchProtocol,
    ActStateBatch,
    ActStateBatchProtocol,
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithAdvantages,
    BatchWithAdvantagesProtocol,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    DistBatch,
    DistBatchProtocol,
    DistLogProbBatch,
    DistLogProbBatchProtocol,
    FQFBatch,
    FQFBatchProtocol,
    ImitationBatch,
    ImitationBatchProtocol,
    LogpOldBatch,
    LogpOldProtocol,
    ModelOutputBatch,
    ModelOutputBatchProtocol,
    ObsBatch,
    ObsBatchProtocol,
    PrioBatch,
    PrioBatchProtocol,
    QuantileRegressionBatch,
    QuantileRegressionBatchProtocol,
    RecurrentState,
    RecurrentStateBatch,
    RolloutBatch,
    RolloutBatchProtocol,
)

Array = NDArray[Any]


# each record is its protocol, of arrays
def twins(
    obs: ObsBatch,
    act: ActBatch,
    act_state: ActStateBatch,
    output: ModelOutputBatch,
    dist: DistBatch,
    log_prob: DistLogProbBatch,
    rollout: RolloutBatch,
    prio: PrioBatch,
    returns: BatchWithReturns,
    advantages: BatchWithAdvantages,
    logp_old: LogpOldBatch,
    recurrent: RecurrentState,
    quantile: QuantileRegressionBatch,
    fqf: FQFBatch,
    imitation: ImitationBatch,
    record: BatchRecord,
    batch: Batch,
) -> None:
    _01: ObsBatchProtocol = obs
    _02: ActBatchProtocol = act
    _03: ActStateBatchProtocol = act_state
    _04: ModelOutputBatchProtocol = output
    _05: DistBatchProtocol = dist
    _06: DistLogProbBatchProtocol = log_prob
    _07: RolloutBatchProtocol = rollout
    _08: PrioBatchProtocol = prio
    _09: BatchWithReturnsProtocol = returns
    _10: BatchWithAdvantagesProtocol = advantages
    _11: LogpOldProtocol = logp_old
    _12: RecurrentStateBatch = recurrent
    _13: QuantileRegressionBatchProtocol = quantile
    _14: FQFBatchProtocol = fqf
    _15: ImitationBatchProtocol = imitation
    _16: BatchProtocol = record
    _17: BatchProtocol = batch


# and of tensors
def torch_twins(
    obs: ObsBatch[Tensor],
    act: ActBatch[Tensor],
    act_state: ActStateBatch[Tensor],
    output: ModelOutputBatch[Tensor],
    dist: DistBatch[Tensor],
    log_prob: DistLogProbBatch[Tensor],
    rollout: RolloutBatch[Tensor],
    prio: PrioBatch[Tensor],
    logp_old: LogpOldBatch[Tensor],
    recurrent: RecurrentState[Tensor],
    quantile: QuantileRegressionBatch[Tensor],
    fqf: FQFBatch[Tensor],
    imitation: ImitationBatch[Tensor],
) -> None:
    _01: ObsBatchProtocol[Tensor] = obs
    _02: ActBatchProtocol[Tensor] = act
    _03: ActStateBatchProtocol[Tensor] = act_state
    _04: ModelOutputBatchProtocol[Tensor] = output
    _05: DistBatchProtocol[Tensor] = dist
    _06: DistLogProbBatchProtocol[Tensor] = log_prob
    _07: PrioBatchProtocol[Tensor] = prio
    _08: LogpOldProtocol[Tensor] = logp_old
    _09: RecurrentStateBatch[Tensor] = recurrent
    _10: QuantileRegressionBatchProtocol[Tensor] = quantile
    _11: FQFBatchProtocol[Tensor] = fqf
    _12: ImitationBatchProtocol[Tensor] = imitation
    _13: RolloutBatchProtocol[Tensor] = rollout


# a later step passes wherever an earlier one is asked
def steps(ready: LogpOldProtocol, scored: DistLogProbBatchProtocol, prio: PrioBatchProtocol[Tensor]) -> None:
    advantages: BatchWithAdvantagesProtocol = ready
    returns: BatchWithReturnsProtocol = advantages
    rollout: RolloutBatchProtocol = returns
    obs: ObsBatchProtocol = rollout
    act: ActBatchProtocol = rollout
    anything: BatchProtocol = obs
    output: ModelOutputBatchProtocol = scored
    state: ActStateBatchProtocol = output
    sampled: RolloutBatchProtocol[Tensor] = prio
    assert_type(len(anything) + len(act) + len(state) + len(sampled), int)


# what a protocol holds is known, operations included
def normalise(batch: BatchWithAdvantagesProtocol) -> Array:
    assert_type(batch.adv, Array)
    assert_type(batch.obs, Array)
    assert_type(batch.info, BatchProtocol | Array)
    assert_type(len(batch), int)
    assert_type(batch.shape, list[int])
    assert_type(batch["policy"], Any)
    assert_type(batch.get("policy"), Any)
    assert_type("policy" in batch, bool)
    assert_type(batch.to_dict(), dict[str, Any])
    assert_type(batch.to_torch(), Batch)
    centred: Array = batch.adv - batch.adv.mean()
    normalised: Array = centred / (batch.adv.std() + 1e-8)
    return normalised


def entropy(batch: DistBatchProtocol[Tensor]) -> Tensor:
    assert_type(batch.dist, Distribution)
    assert_type(batch.act, Tensor)
    mean: Tensor = batch.logits.mean()
    return mean


# a function that needs two fields asks for two fields
class HasReward(BatchProtocol, Protocol):
    @property
    def rew(self) -> Array: ...
    @property
    def terminated(self) -> Array: ...


def total(batch: HasReward) -> float:
    return float(batch.rew[~batch.terminated].sum())


# neither batch nor protocol of ours: plain members are enough for a protocol that asks for no operation
class Rewards:
    def __init__(self, rew: Array) -> None:
        self.rew = rew


class JustReward(Protocol):
    @property
    def rew(self) -> Array: ...


def mean_reward(batch: JustReward) -> float:
    return float(batch.rew.mean())


# either stage
def rows(batch: RolloutBatchProtocol[Array | Tensor]) -> int:
    return len(batch.rew)


# a record that never named the protocol
class Chosen(BatchRecord):
    act: Array
    temperature: Array | float


def acts(batch: ActBatchProtocol) -> int:
    return len(batch.act)


def watches(batch: ObsBatchProtocol[Tensor]) -> int:
    return len(batch.obs)


def main(n: int) -> None:
    done: Array = np.zeros(n, bool)
    f: Array = np.ones(n)
    rollout = RolloutBatch(obs=f, info=Batch(), obs_next=f, act=f, rew=f, terminated=done, truncated=done)
    ready = BatchWithAdvantages(
        obs=f, info=Batch(), obs_next=f, act=f, rew=f, terminated=done, truncated=done, returns=f, adv=f, v_s=f
    )
    ready["policy"] = f
    normalise(ready[: n - 1])
    assert total(rollout) == total(ready) == n
    assert mean_reward(rollout) == mean_reward(Rewards(f)) == 1
    t = torch.zeros(n, 2)
    # built in the call itself
    entropy(DistBatch(act=t, state=None, logits=t, dist=Categorical(logits=t)))
    assert mean_reward(RolloutBatch(obs=f, info=f, obs_next=f, act=f, rew=f, terminated=done, truncated=done)) == 1
    assert acts(ActBatch(act=f)) == watches(ObsBatch(obs=t, info=Batch())) == n
    tensors = RolloutBatch(obs=t, info=Batch(), obs_next=t, act=t, rew=t, terminated=t, truncated=t)
    assert rows(rollout) == rows(tensors) == n
    assert acts(Chosen(act=f, temperature=0.5)) == acts(rollout) == n


main(4)
