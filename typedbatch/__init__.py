"""Typed batches for reinforcement learning and post-training: checked at boundaries, open inside functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typedbatch import pytree as pytree
    from typedbatch._checkers import mypy_plugin_active
    from typedbatch._core.declaration import SeparateSizes
    from typedbatch._core.level import checking
    from typedbatch._markers import Flag, NoGradient, PerStep, Role, StepsFirst
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
    from typedbatch.sample_batches import MultiAgentBatch, SampleBatch
    from typedbatch.schema import schema_of
    from typedbatch.schema.column import Column

__all__ = [
    "ActBatch", "ActBatchProtocol", "ActStateBatch", "ActStateBatchProtocol", "Act_co", "ArrayOrTensor", "Batch",
    "BatchProtocol", "BatchRecord", "BatchWithAdvantages", "BatchWithAdvantagesProtocol", "BatchWithReturns",
    "BatchWithReturnsProtocol", "Column", "DistBatch", "DistBatchProtocol", "DistLogProbBatch",
    "DistLogProbBatchProtocol", "DynamicBatch", "FQFBatch", "FQFBatchProtocol", "Finite", "Flag", "ImitationBatch",
    "ImitationBatchProtocol", "K_co", "LogpOldBatch", "LogpOldProtocol", "ModelOutputBatch", "ModelOutputBatchProtocol",
    "MultiAgentBatch", "NoGradient", "ObsBatch", "ObsBatchProtocol", "Obs_co", "PerStep", "PrioBatch",
    "PrioBatchProtocol", "Problem", "QuantileRegressionBatch", "QuantileRegressionBatchProtocol", "Ragged",
    "RecurrentState", "RecurrentStateBatch", "Role", "RolloutBatch", "RolloutBatchProtocol", "Rule", "SampleBatch",
    "SchemaError", "SeparateSizes", "Sorted", "StepsFirst", "Unique", "cat", "checked", "checking", "conforms",
    "convert", "extend", "mypy_plugin_active", "objects", "rule", "schema_of", "stack", "validate",
]  # fmt: skip

__version__ = "0.1.0"

if not TYPE_CHECKING:  # a module with a visible __getattr__ has every name, for type checkers
    _HOMES = {
        "_checkers": "mypy_plugin_active",
        "_core.declaration": "SeparateSizes",
        "_core.level": "checking",
        "_markers": "Flag NoGradient PerStep Role StepsFirst",
        "_typing": "Act_co ArrayOrTensor K_co Obs_co",
        "_validation.checked": "checked",
        "_validation.convert": "convert",
        "_validation.validate": "conforms extend validate",
        "batch": "Batch DynamicBatch cat objects stack",
        "errors": "Problem SchemaError",
        "protocols": (
            "ActBatchProtocol ActStateBatchProtocol BatchProtocol BatchWithAdvantagesProtocol "
            "BatchWithReturnsProtocol DistBatchProtocol DistLogProbBatchProtocol FQFBatchProtocol "
            "ImitationBatchProtocol LogpOldProtocol ModelOutputBatchProtocol ObsBatchProtocol PrioBatchProtocol "
            "QuantileRegressionBatchProtocol RecurrentStateBatch RolloutBatchProtocol"
        ),
        "pytree": "",
        "ragged": "Ragged",
        "records": (
            "ActBatch ActStateBatch BatchRecord BatchWithAdvantages BatchWithReturns DistBatch DistLogProbBatch "
            "FQFBatch ImitationBatch LogpOldBatch ModelOutputBatch ObsBatch PrioBatch QuantileRegressionBatch "
            "RecurrentState RolloutBatch"
        ),
        "rules": "Finite Rule Sorted Unique rule",
        "sample_batches": "MultiAgentBatch SampleBatch",
        "schema": "schema_of",
        "schema.column": "Column",
    }
    _HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        # The mypy plugin and the command line do without numpy, whose import takes longer than most of their runs.
        if name in _HOME_OF:
            return globals().setdefault(name, getattr(import_module(_HOME_OF[name]), name))
        if name in _HOMES:  # a module, as in typedbatch.errors
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
