"""Batches that are handed over: what they lack, and fields of another kind than is asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import Batch, BatchProtocol, BatchRecord, ObsBatchProtocol, RolloutBatch, convert

A, T = np.zeros((4, 2)), torch.zeros(4, 2)


class Camera(BatchProtocol, Protocol):
    @property
    def cam(self) -> NDArray[Any]: ...
    @property
    def pos(self) -> NDArray[np.float32]: ...


class Seen(BatchProtocol, Protocol):
    @property
    def obs(self) -> Camera: ...
    @property
    def act(self) -> NDArray[Any] | None: ...


class Named(BatchRecord):
    name: str
    logp: Tensor


P = TypeVar("P", bound=ObsBatchProtocol)


def see(batch: Seen) -> None: ...
def arrays(batch: ObsBatchProtocol) -> None: ...
def tensors(batch: ObsBatchProtocol[Tensor]) -> None: ...
def cameras(batch: ObsBatchProtocol[NDArray[Any], Camera]) -> None: ...
def name(batch: Named) -> None: ...
def same(batch: P) -> P:
    return batch


def anything(batch: ObsBatchProtocol[Any, Any]) -> None: ...


# nested fields
see(Batch(obs={"cam": A, "pos": A.astype(np.float32)}, act=None))
see(Batch(obs={"cam": A}, act=A))  # E: pos
see(Batch(obs=A, act=A))  # E: obs
see(Batch(obs=Batch(), act=A))  # E: cam
see(Batch(obs={"cam": A, "pos": np.zeros(4, np.int64)}, act=T))  # E: act
cameras(Batch(obs={"cam": A}, info=Batch()))  # E: pos

# kinds
arrays(Batch(obs=A, info=Batch()))
arrays(Batch(obs=T, info=Batch()))  # E: obs
arrays(Batch(obs="left", info=Batch()))  # E: obs
arrays(Batch(obs=None, info=Batch()))  # E: obs
arrays(Batch(obs=Batch(), info=Batch()))
arrays(Batch(obs=[[0.0, 1.0]], info={}))
tensors(Batch(obs=[[0.0, 1.0]], info={}))  # E: obs
tensors(Batch(obs=A, info=Batch()).to_torch())
anything(Batch(obs={"cam": A}, info=A))
name(Batch(name="a", logp=T))
name(Batch(name=T, logp=T))  # E: name
name(Batch(name="a", logp="b"))  # E: logp
same(Batch(obs={"cam": A}, info=Batch()))
same(Batch(obs=A))  # E: info

# where they are handed over
both: list[ObsBatchProtocol] = [Batch(obs=A, info=Batch()), Batch(obs=A)]  # E: info
pair: tuple[ObsBatchProtocol, Seen] = (Batch(obs=A, info=Batch()), Batch(act=A))  # E: obs
table: dict[str, ObsBatchProtocol] = {"a": Batch(info=Batch())}  # E: obs


@dataclass
class Step:
    batch: ObsBatchProtocol
    weight: float = 1.0


Step(Batch(obs=A, info=Batch()))
Step(Batch(obs=A), weight=2.0)  # E: info
Step(batch=Batch(info=Batch()))  # E: obs


def rollouts(count: int) -> Iterator[ObsBatchProtocol]:
    for _ in range(count):
        yield Batch(obs=A, info=Batch())
        yield Batch(obs=A)  # E: info


def chosen(kind: int) -> Batch:
    batch = Batch(rew=A)
    match kind:
        case 0:
            batch.out = A
        case 1:
            batch.out, batch.more = A, A
        case _:
            batch.more = A
    batch.out  # E: out
    return batch


# what others may have replaced, and what was converted
def later(fill: Any) -> None:
    batch = Batch(obs=T, info=Batch())
    fill(batch)
    arrays(batch)


def converted(batch: RolloutBatch) -> None:
    found = convert(batch, RolloutBatch[Tensor])
    name(Named(name="a", logp=found.obs))


# a batch without fields has no rows
for row in Batch():
    row.obs
steps = Batch(steps=[{"a": A}, {"a": A, "b": A}])
steps.steps.a, steps.steps.b
steps.steps.c  # E: c
for part in Batch().split(2):
    part.obs
popped = Batch(act=A)
popped.popitem()
for row in popped:
    row.obs
