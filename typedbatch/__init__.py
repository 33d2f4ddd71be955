"""Typed batches for reinforcement learning and post-training: contracts at the edges, open batches inside."""

from typedbatch.batch import Batch, DynamicBatch
from typedbatch.errors import Problem, SchemaError
from typedbatch.gate import checked, conforms, convert, extend, validate
from typedbatch.protocols import (
    ActBatchProtocol,
    ActStateBatchProtocol,
    BatchProtocol,
    BatchWithAdvantagesProtocol,
    BatchWithReturnsProtocol,
    DistBatchProtocol,
    DistLogProbBatchProtocol,
    FQFBatchProtocol,
    ImitationBatchProtocol,
    LogpOldProtocol,
    ModelOutputBatchProtocol,
    ObsBatchProtocol,
    PrioBatchProtocol,
    QuantileRegressionBatchProtocol,
    RecurrentStateBatch,
    RolloutBatchProtocol,
)
from typedbatch.records import (
    ActBatch,
    ActStateBatch,
    BatchRecord,
    BatchWithAdvantages,
    BatchWithReturns,
    DistBatch,
    DistLogProbBatch,
    FQFBatch,
    ImitationBatch,
    LogpOldBatch,
    ModelOutputBatch,
    ObsBatch,
    PrioBatch,
    QuantileRegressionBatch,
    RecurrentState,
    RolloutBatch,
)

__version__ = "0.1.0"

cat = Batch.cat
stack = Batch.stack
