"""Meta that a record or protocol declares, given or read wrongly."""

from typing import Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from typedbatch import Batch, BatchProtocol, BatchRecord, cat, objects


class SamplingMeta(TypedDict):
    temperature: float


class Rollouts(BatchRecord):
    ids: NDArray[np.int64]
    meta: SamplingMeta


class Plain(BatchRecord):
    ids: NDArray[np.int64]


class HasTemperature(BatchProtocol, Protocol):
    @property
    @override
    def meta(self) -> SamplingMeta: ...


def loss(batch: HasTemperature) -> float:
    return batch.meta["temperature"]


def use(ids: NDArray[np.int64], rollouts: Rollouts) -> None:
    Rollouts(ids=ids)  # E: missing-meta: meta
    Rollouts(ids=ids, meta={"temperature": "hot"})  # E: wrong-meta
    Plain(ids=ids, meta={"temperature": 0.5})  # E: undeclared-meta: meta
    print(rollouts.meta["temprature"])  # E: misspelt-key: temprature
    rollouts.meta["temperature"] = "hot"  # E: wrong-meta-write
    cat([rollouts, rollouts], meta="last")  # E: unknown-rule
    loss(rollouts)
    objects(5)  # E: no-values
    Batch.from_rows([{"a": 1}], missing="pad")  # E: unknown-missing
