"""What goes with a batch as a whole, columns of objects, and rows that become columns."""

from typing import Any, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray
from typing_extensions import NotRequired, assert_type, override

from typedbatch import Batch, BatchProtocol, BatchRecord, cat, extend, objects, stack, validate


class SamplingMeta(TypedDict):
    temperature: float
    step: NotRequired[int]


class Rollouts(BatchRecord):
    ids: NDArray[np.int64]
    meta: SamplingMeta


class Ready(Rollouts):
    adv: NDArray[np.float32]


class HasTemperature(BatchProtocol, Protocol):
    @property
    def ids(self) -> NDArray[np.int64]: ...
    @property
    @override
    def meta(self) -> SamplingMeta: ...


def loss(batch: HasTemperature) -> float:
    return batch.meta["temperature"]


def of_a_record(ids: NDArray[np.int64], adv: NDArray[np.float32]) -> None:
    rollouts = Rollouts(ids=ids, meta={"temperature": 0.7})
    assert_type(rollouts.meta["temperature"], float)
    rollouts.meta["step"] = 3
    loss(rollouts)
    loss(rollouts[:2])
    assert_type(cat([rollouts, rollouts], meta="first"), Rollouts)
    assert_type(stack([rollouts, rollouts], meta={"step": max}), Rollouts)
    assert_type(extend(rollouts, Ready, adv=adv, meta={"temperature": 0.1}), Ready)
    loss(extend(Batch(ids=ids), Rollouts, meta={"temperature": 0.1}))
    loss(validate(Batch(ids=ids, meta={"temperature": 0.1}), HasTemperature))
    assert_type(Rollouts.from_rows([{"ids": 1}], meta={"temperature": 1.0}), Rollouts)


def of_any_batch(batch: BatchProtocol, ids: NDArray[np.int64]) -> Any:
    made = Batch(ids=ids, meta={"step": 1})
    made.meta["epoch"] = 2
    made.meta = {"step": 2}
    made.cat_([made], meta="drop")
    again = Batch(made, meta=made.meta)
    assert_type(Batch.from_rows([{"a": 1}, {"a": 2}], missing="none"), Batch)
    column: NDArray[np.object_] = objects([{"role": "user"}, {"role": "tool"}])
    return again.meta, [row.meta for row in made], Batch(messages=column)[0].meta, batch.meta["step"]
