"""Right programs in which a batch of one kind or another is handed over, or a function is chosen for it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    ActBatch,
    ActStateBatchProtocol,
    Batch,
    BatchProtocol,
    BatchRecord,
    ObsBatch,
    ObsBatchProtocol,
    SchemaError,
    checked,
    validate,
)

A, T = np.zeros(2), torch.zeros(2)


class Sight(BatchRecord):
    cam: NDArray[Any]


# other names for classes with type arguments
OfTensors, OfSight, Made = ObsBatchProtocol[Tensor], ObsBatchProtocol[NDArray[Any], Sight], ObsBatch[Tensor]
Acting = ActBatch[Tensor]


class WithLogp(Acting):
    logp: Tensor


def tensors(batch: OfTensors) -> Any: return batch.obs.sum()
def seen(batch: "OfSight") -> Any: return batch.obs.cam.sum()
def acting(batch: WithLogp) -> Any: return batch.act.sum()
def arrays(batch: ObsBatchProtocol) -> Any: return batch.obs.sum()
def stateful(batch: ActStateBatchProtocol[Tensor]) -> Any: return batch.state


tensors(Batch(obs=T, info=Batch()))
tensors(Batch(obs=T, info=T))
tensors(Made(obs=T, info=Batch()))
seen(Batch(obs=Sight(cam=A), info={}))
acting(WithLogp(act=T, logp=T))
stateful(Batch(act=T, state=T))
tensors(Batch(obs=A, info=Batch()).apply_values_transform(torch.as_tensor))
changed = Batch(obs=A, info=Batch())
changed.apply_values_transform(torch.as_tensor, inplace=True)
tensors(changed)


# what is chosen by the kind of a field
def total(batch: Batch) -> Any:
    if torch.is_tensor(batch.obs):
        return tensors(batch)
    return arrays(batch)


def chosen(batch: Batch) -> Any:
    return (tensors if isinstance(batch.obs, Tensor) else arrays)(batch)


for one in (Batch(obs=A, info=Batch()), Batch(obs=T, info=Batch())):
    total(one), chosen(one)
total(Batch(obs=A, info=Batch()))


class Dqn(BatchProtocol, Protocol):
    q: np.ndarray


def dqn(batch: Dqn) -> Any: return batch.q.sum()


def loss(batch):
    match batch.algo:
        case "ppo" | "a2c":
            return 0.0
        case _:
            return dqn(batch)


loss(Batch(algo="ppo"))


# what is refused before it comes that far
@checked
def strict(batch: Dqn) -> Any: return batch.q.sum()


def safe(batch):
    try:
        validate(batch, Dqn)
    except SchemaError:
        return 0.0
    return dqn(batch)


try:
    strict(Batch(x=A))
except SchemaError:
    safe(Batch(y=A))


# functions by names that are not known
def first(batch): batch.a = A
def second(batch): batch.b = batch.a


STEPS, steps = {"first": first, "second": second}, Batch()
for name in "first second".split():
    STEPS[name](steps)
for step in sorted([second, first], key=lambda one: one.__name__):
    step(Batch(a=A))
