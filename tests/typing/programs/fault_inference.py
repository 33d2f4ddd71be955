"""Good code that checkers report all the same, most of them by a fault: we want to notice when they are mended.

``batch.copy()``, ``batch.split()`` and ``cat([batch])`` are understood by all; see ``pass_rows.py``.
"""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar, assert_type

from typedbatch import (
    ActBatch,
    Batch,
    ObsBatch,
    ObsBatchProtocol,
    RecurrentState,
    RecurrentStateBatch,
    RolloutBatch,
    RolloutBatchProtocol,
    conforms,
    convert,
    mypy_plugin_active,
    validate,
)

Array = NDArray[Any]
R = TypeVar("R", bound=RolloutBatchProtocol)
B = TypeVar("B", bound=RolloutBatch)


# what proves that mypy runs with its plugin, which it does not here
active: Literal[True] = mypy_plugin_active()  # E: proof-of-plugin [only: mypy, pyrefly, zuban]


# a field of an open batch that conforms() has narrowed
def narrowed(batch: Batch) -> None:
    if conforms(batch, RolloutBatchProtocol):
        assert_type(batch.obs, Array)  # E: narrowed-field [only: ty]


# a field is converted when it is set
def set_and_read(batch: Batch) -> None:
    batch.rew = [1.0, 2.0]
    print(batch.rew.mean())  # E: narrowed-write [only: zuban]
    batch.info.steps = [1, 2]
    print(batch.info.steps.mean())  # E: narrowed-nested-write [only: pyright, basedpyright, pyrefly, ty]


# rows that a mask of an open batch selects
def selected(batch: Batch) -> Batch:
    kept = batch[batch.adv > 0]
    return kept  # E: any-index [only: mypy, zuban]


# rows of a value whose type is a TypeVar
def first(batch: R) -> R:
    return batch[0]  # E: typevar-row [only: pyrefly]


def first_of_record(batch: B) -> B:
    return batch[:1]  # E: record-typevar-row [only: pyrefly, zuban]


def rows(batch: R) -> list[R]:
    return list(batch)  # E: typevar-list [only: mypy]


def rows_of_record(batch: B) -> list[B]:
    return list(batch)  # E: record-typevar-list [only: mypy, zuban]


def comprehension(batch: R) -> list[R]:
    return [row for row in batch]  # E: typevar-loop [only: pyrefly, zuban]


def loop(batch: R) -> Iterator[R]:
    for row in batch:
        yield row  # E: typevar-loop [only: pyrefly, zuban]


def minibatches_of_record(batch: B) -> list[B]:
    return list(batch.split(2))  # E: record-typevar-split [only: zuban]


# rows by hand
def by_hand(batch: RolloutBatch, asked: RolloutBatchProtocol) -> None:
    assert_type(next(iter(batch)), RolloutBatch)  # E: next-row [only: ty]
    assert_type(next(iter(asked)), RolloutBatchProtocol)  # E: next-row [only: ty]
    assert_type(list(asked), list[RolloutBatchProtocol])  # E: next-row [only: ty]
    for _, row in enumerate(asked):
        assert_type(row, RolloutBatchProtocol)  # E: next-row [only: ty]


def rewards(batch: RolloutBatchProtocol) -> Array:
    return batch.rew


def carry(state: RecurrentStateBatch) -> Array:
    return state.hidden


def look(batch: ObsBatchProtocol[Tensor]) -> Tensor:
    return batch.obs


def look_at_record(batch: ObsBatch[Tensor]) -> Tensor:
    return batch.obs


# a contract for arrays after the same one for tensors
def there_and_back(batch: ActBatch) -> Array:
    tensors = convert(batch, ActBatch[Tensor])
    return convert(tensors, ActBatch).act  # E: default-after-tensor [only: mypy-1.20]


def main(n: int) -> None:
    f: Array = np.ones(n)
    t = torch.ones(n)
    b: RolloutBatch = RolloutBatch(obs=f, info=Batch(), obs_next=f, act=f, rew=f, terminated=f > 2, truncated=f > 2)

    # the result of validate for a bare record, without an annotation
    bare = validate(b, RolloutBatch)
    rewards(bare)

    # No field of ObsBatch and of ActBatch tells the stage when info is a Batch, so it is the default, numpy. Protocols
    # take it; for a record one says ObsBatch[Tensor](...), or annotates the variable.
    untold = ObsBatch(obs=t, info=Batch())
    look(untold)
    look_at_record(untold)  # E: untold-stage
    told: ObsBatch[Tensor] = ObsBatch(obs=t, info=Batch())  # E: told-stage [only: zuban]
    look_at_record(told)

    # numpy scalars of two widths side by side have no common type but object in mypy
    mixed = RecurrentState(hidden=np.zeros((n, 2), np.float32), cell=np.zeros((n, 2), np.float64))
    carry(mixed)  # E: mixed-widths [only: mypy]
    # a write to a record that was made without an annotation: its fields are of the very types that it was given
    inferred = RecurrentState(hidden=np.zeros(n), cell=np.zeros(n, np.bool_))
    inferred.hidden = inferred.hidden * 2  # E: inferred-write [not: mypy]
    noted: RecurrentState = RecurrentState(hidden=np.zeros((n, 2), np.float32), cell=np.zeros((n, 2), np.float64))
    noted.hidden = noted.hidden * 2
    carry(noted)

    first(first_of_record(b[:1]))
    assert len(rows(b)) == len(rows_of_record(b)) == len(comprehension(b)) == len(list(loop(b))) == n
    assert len(minibatches_of_record(b)) == 2
    by_hand(b, b)
    assert len(there_and_back(ActBatch(act=f))) == n


main(3)
