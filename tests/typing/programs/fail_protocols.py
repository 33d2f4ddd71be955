"""Arguments that do not hold what a function asks for."""

from typing import Any, Protocol

from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    ActBatch,
    ActBatchProtocol,
    ActStateBatchProtocol,
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithAdvantagesProtocol,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    DistBatchProtocol,
    DistLogProbBatchProtocol,
    FQFBatchProtocol,
    ImitationBatchProtocol,
    LogpOldProtocol,
    ModelOutputBatchProtocol,
    ObsBatch,
    ObsBatchProtocol,
    PrioBatchProtocol,
    QuantileRegressionBatchProtocol,
    RecurrentState,
    RecurrentStateBatch,
    RolloutBatch,
    RolloutBatchProtocol,
)

Array = NDArray[Any]


# an unvalidated batch is none of them
def unvalidated(b: Batch) -> None:
    _00: BatchProtocol = b
    _01: ObsBatchProtocol = b  # E: unvalidated: ObsBatchProtocol
    _02: ActBatchProtocol = b  # E: unvalidated: ActBatchProtocol
    _03: ActStateBatchProtocol = b  # E: unvalidated: ActStateBatchProtocol
    _04: ModelOutputBatchProtocol = b  # E: unvalidated: ModelOutputBatchProtocol
    _05: DistBatchProtocol = b  # E: unvalidated: DistBatchProtocol
    _06: DistLogProbBatchProtocol = b  # E: unvalidated: DistLogProbBatchProtocol
    _07: RolloutBatchProtocol = b  # E: unvalidated: RolloutBatchProtocol
    _08: PrioBatchProtocol = b  # E: unvalidated: PrioBatchProtocol
    _09: BatchWithReturnsProtocol = b  # E: unvalidated: BatchWithReturnsProtocol
    _10: BatchWithAdvantagesProtocol = b  # E: unvalidated: BatchWithAdvantagesProtocol
    _11: LogpOldProtocol = b  # E: unvalidated: LogpOldProtocol
    _12: RecurrentStateBatch = b  # E: unvalidated: RecurrentStateBatch
    _13: QuantileRegressionBatchProtocol = b  # E: unvalidated: QuantileRegressionBatchProtocol
    _14: FQFBatchProtocol = b  # E: unvalidated: FQFBatchProtocol
    _15: ImitationBatchProtocol = b  # E: unvalidated: ImitationBatchProtocol
    _16: RolloutBatchProtocol[Tensor] = b  # E: unvalidated: RolloutBatchProtocol
    _17: RolloutBatch = b  # E: unvalidated: RolloutBatch
    _18: BatchRecord = b  # E: unvalidated: BatchRecord


def learn(batch: BatchWithReturnsProtocol) -> None: ...
def learn_torch(batch: BatchWithReturnsProtocol[Tensor]) -> None: ...
def act_on(batch: ObsBatchProtocol) -> None: ...
def act_on_torch(batch: ObsBatchProtocol[Tensor]) -> None: ...
def either(batch: RolloutBatchProtocol[Array | Tensor]) -> None: ...


def calls(b: Batch, a: Array, t: Tensor) -> None:
    learn(Batch(obs=a, act=a))  # E: unvalidated
    learn(b[:3])  # E: unvalidated
    learn(b.to_numpy())  # E: unvalidated
    either(b)  # E: unvalidated
    learn({"obs": a})  # E: wrong-kind
    act_on(a)  # E: wrong-kind
    act_on(None)  # E: wrong-kind
    act_on(ObsBatch(obs=a, info=Batch()))
    act_on_torch(ObsBatch(obs=t, info=Batch()))


# a step that has not been taken yet
def too_early(b: RolloutBatch, o: ObsBatch, r: BatchWithReturns, p: RolloutBatchProtocol) -> None:
    act_on(b)
    learn(r)
    learn(b)  # E: too-early
    learn(p)  # E: too-early
    learn(o)  # E: too-early
    learn(b[:3])  # E: too-early
    adv: BatchWithAdvantagesProtocol = r  # E: too-early
    prio: PrioBatchProtocol = r  # E: too-early
    act: ActBatchProtocol = o  # E: too-early
    print(adv, prio, act)


# the other stage
def other_stage(
    b: BatchWithReturns,
    t: BatchWithReturns[Tensor],
    p: RolloutBatchProtocol,
    o: ObsBatch[Tensor],
    wide: RolloutBatchProtocol[Array | Tensor],
) -> None:
    learn(b)
    learn_torch(t)
    learn_torch(b)  # E: wrong-stage
    learn(t)  # E: wrong-stage
    act_on(o)  # E: wrong-stage
    act_on_torch(p)  # E: wrong-stage
    act_on_torch(b[:10])  # E: wrong-stage
    learn(t.copy())  # E: wrong-stage
    lstm: RecurrentStateBatch[Tensor] = RecurrentState(hidden=b.rew, cell=b.rew)  # E: wrong-stage
    either(b)
    either(t)
    narrow: RolloutBatchProtocol = wide  # E: wrong-stage
    print(lstm, narrow)


# another nested observation
class Pixels(BatchRecord):
    cam: Array


class Camera(BatchProtocol, Protocol):
    @property
    def cam(self) -> Array: ...
    @property
    def depth(self) -> Array: ...


def look(batch: RolloutBatchProtocol[Array, Camera]) -> None: ...
def flat(batch: RolloutBatchProtocol) -> None: ...


def other_nested(b: RolloutBatch[Array, Pixels], p: RolloutBatch[Array, Camera], f: RolloutBatch) -> None:
    look(p)
    look(b)  # E: wrong-nested
    look(f)  # E: wrong-nested
    flat(b)  # E: wrong-nested
    flat(p)  # E: wrong-nested
    seen: RolloutBatch[Array, Pixels] = f  # E: wrong-nested
    print(seen)


# a class of one's own that lacks a member, or has it with another type
class Acts:
    def __init__(self, act: Array) -> None:
        self.act = act


class Texts(BatchRecord):
    act: str


class Narrow(Protocol):
    @property
    def act(self) -> Array: ...


def own_class(acts: Acts, texts: Texts, b: ActBatch, t: ActBatch[Tensor]) -> None:
    ok: Narrow = acts
    fine: Narrow = b
    no_batch: ActBatchProtocol = acts  # E: wrong-kind
    text: Narrow = texts  # E: wrong-kind
    tensor: Narrow = t  # E: wrong-stage
    print(ok, fine, no_batch, text, tensor)
