"""Typed batches for reinforcement learning and post-training: checked at boundaries, open inside functions."""

from typing import TYPE_CHECKING, Any

from typedbatch import pytree as pytree
from typedbatch._checkers import mypy_plugin_active
from typedbatch._core.declaration import SeparateSizes
from typedbatch._core.level import checking
from typedbatch._markers import Flag, NoGradient, PerStep, StepsFirst
from typedbatch._typing import Act_co, ArrayOrTensor, K_co, Obs_co
from typedbatch._validation.checked import checked
from typedbatch._validation.convert import convert
from typedbatch._validation.validate import conforms, extend, validate
from typedbatch.batch import Batch, DynamicBatch, cat, objects, stack
from typedbatch.errors import Problem, SchemaError
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
from typedbatch.ragged import Ragged
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
from typedbatch.rules import Finite, Rule, Sorted, Unique, rule
from typedbatch.schema import schema_of
from typedbatch.schema.column import Column

__all__ = [
    "ActBatch", "ActBatchProtocol", "ActStateBatch", "ActStateBatchProtocol", "Act_co", "ArrayOrTensor", "Batch",
    "BatchProtocol", "BatchRecord", "BatchWithAdvantages", "BatchWithAdvantagesProtocol", "BatchWithReturns",
    "BatchWithReturnsProtocol", "Column", "DistBatch", "DistBatchProtocol", "DistLogProbBatch",
    "DistLogProbBatchProtocol", "DynamicBatch", "FQFBatch", "FQFBatchProtocol", "Finite", "Flag", "ImitationBatch",
    "ImitationBatchProtocol", "K_co", "LogpOldBatch", "LogpOldProtocol", "ModelOutputBatch",
    "ModelOutputBatchProtocol", "MultiAgentBatch", "NoGradient", "ObsBatch", "ObsBatchProtocol", "Obs_co", "PerStep",
    "PrioBatch", "PrioBatchProtocol", "Problem", "QuantileRegressionBatch", "QuantileRegressionBatchProtocol",
    "Ragged", "RecurrentState", "RecurrentStateBatch", "RolloutBatch", "RolloutBatchProtocol", "Rule", "SampleBatch",
    "SchemaError", "SeparateSizes", "Sorted", "StepsFirst", "Unique", "cat", "checked", "checking", "conforms",
    "convert", "extend", "mypy_plugin_active", "objects", "rule", "schema_of", "stack", "validate",
]  # fmt: skip

__version__ = "0.1.0"

if TYPE_CHECKING:
    from typedbatch.sample_batches import MultiAgentBatch, SampleBatch
else:  # a module with a visible __getattr__ has every name, for type checkers

    def __getattr__(name: str) -> Any:
        if name in ("MultiAgentBatch", "SampleBatch"):  # RLlib's, which most programs do not use
            from typedbatch import sample_batches

            return getattr(sample_batches, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
