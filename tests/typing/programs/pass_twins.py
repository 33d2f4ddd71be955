"""Each record is returned as the protocol of its name, so that the two stay in step."""

from torch import Tensor

from typedbatch import (
    ActBatch,
    ActBatchProtocol,
    ActStateBatch,
    ActStateBatchProtocol,
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


def obs(record: ObsBatch) -> ObsBatchProtocol:
    return record


def act(record: ActBatch) -> ActBatchProtocol:
    return record


def act_state(record: ActStateBatch) -> ActStateBatchProtocol:
    return record


def model_output(record: ModelOutputBatch) -> ModelOutputBatchProtocol:
    return record


def dist(record: DistBatch) -> DistBatchProtocol:
    return record


def dist_log_prob(record: DistLogProbBatch) -> DistLogProbBatchProtocol:
    return record


def quantile(record: QuantileRegressionBatch) -> QuantileRegressionBatchProtocol:
    return record


def fqf(record: FQFBatch) -> FQFBatchProtocol:
    return record


def imitation(record: ImitationBatch) -> ImitationBatchProtocol:
    return record


def recurrent(record: RecurrentState) -> RecurrentStateBatch:
    return record


def rollout(record: RolloutBatch) -> RolloutBatchProtocol:
    return record


def rollout_torch(record: RolloutBatch[Tensor]) -> RolloutBatchProtocol[Tensor]:
    return record


def prio(record: PrioBatch) -> PrioBatchProtocol:
    return record


def returns(record: BatchWithReturns) -> BatchWithReturnsProtocol:
    return record


def advantages(record: BatchWithAdvantages) -> BatchWithAdvantagesProtocol:
    return record


def logp_old(record: LogpOldBatch) -> LogpOldProtocol:
    return record
