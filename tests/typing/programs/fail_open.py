"""Open batches where fields are declared: every one is refused, wherever it comes from, until it is validated."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    ObsBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    SampleBatch,
    cat,
    stack,
)

Array = NDArray[Any]


class Goals(BatchProtocol, Protocol):
    @property
    def goal(self) -> Array: ...


class GoalRecord(BatchRecord):
    goal: Array


@dataclass
class Holder:
    batch: Batch = field(default_factory=Batch)
    record: RolloutBatch | None = None


def learn(batch: RolloutBatchProtocol) -> None: ...
def learn_tensors(batch: ObsBatchProtocol[Tensor]) -> None: ...
def learn_record(batch: RolloutBatch) -> None: ...
def learn_goals(batch: Goals) -> None: ...
def take(array: Array) -> None: ...
def take_tensor(tensor: Tensor) -> None: ...
def welcome(batch: BatchProtocol) -> None: ...
def made() -> Batch:
    return Batch(obs=np.zeros(3))


def arguments(batch: Batch, many: list[Batch], by_name: dict[str, Batch], holder: Holder) -> None:
    local = Batch(obs=np.zeros(3))
    learn(local)  # E: unvalidated
    learn(batch)  # E: unvalidated
    learn(holder.batch)  # E: unvalidated
    learn(many[0])  # E: unvalidated
    learn(by_name["train"])  # E: unvalidated
    learn(made())  # E: unvalidated
    learn(Batch(obs=1))  # E: unvalidated
    learn(batch[:3])  # E: unvalidated
    learn(cat([batch, batch]))  # E: unvalidated
    learn(stack([batch, batch]))  # E: unvalidated
    learn(batch.copy())  # E: unvalidated
    learn(batch.to_torch())  # E: unvalidated
    learn(batch + 1)  # E: unvalidated
    learn(next(batch.split(2)))  # E: unvalidated
    learn_tensors(batch)  # E: unvalidated
    learn_record(batch)  # E: unvalidated
    learn_goals(batch)  # E: unvalidated
    for row in batch:
        learn(row)  # E: unvalidated


def elsewhere(batch: Batch, holder: Holder, rows: list[RolloutBatch]) -> Iterator[ObsBatchProtocol]:
    wanted: ObsBatchProtocol = batch  # E: unvalidated
    goals: list[Goals] = [batch]  # E: unvalidated
    function: Callable[[Batch], None] = learn  # E: unvalidated
    holder.record = batch  # E: unvalidated
    rows.append(batch)  # E: unvalidated
    yield batch  # E: unvalidated
    print(wanted, goals, function)


def returned(batch: Batch) -> RolloutBatchProtocol:
    return batch  # E: unvalidated


def not_a_batch(batch: Batch) -> None:
    take(batch)  # E: batch-for-array
    take_tensor(batch)  # E: batch-for-array
    float(batch)  # E: batch-for-number
    open(batch)  # E: batch-for-path
    next(batch)  # E: batch-for-iterator
    sorted([batch])  # E: batch-for-order
    with batch:  # E: batch-for-context
        pass
    batch()  # E: batch-for-function


def declared(record: RolloutBatch, goals: GoalRecord, sample: SampleBatch, rollout: RolloutBatchProtocol) -> None:
    learn(record)
    learn(rollout)
    learn_goals(goals)
    for batch in (record, goals, sample, rollout):
        welcome(batch)
    learn(sample)  # E: sample-batch-as-rollout
    learn(goals)  # E: other-record
    learn_goals(record)  # E: other-record
    print(goals.gaol)  # E: misspelt-read: gaol
    goals.gaol = record.rew  # E: undeclared-write: gaol
    goals.gaol += 1  # E: undeclared-write
    del goals.gaol  # E: undeclared-delete: gaol
    print(sample.rewrads)  # E: misspelt-read: rewrads
    sample.rewrads = record.rew  # E: undeclared-write: rewrads
