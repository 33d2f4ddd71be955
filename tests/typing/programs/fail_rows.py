"""Rows that are selected, joined or visited wrongly; open batches whose methods are misused."""

from collections.abc import Hashable
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from typedbatch import Batch, DynamicBatch, ObsBatchProtocol, RolloutBatch, RolloutBatchProtocol, cat, stack

Array = NDArray[Any]


def index(b: RolloutBatch, p: RolloutBatchProtocol) -> None:
    print(b[1.5])  # E: wrong-index
    print(b[{"a": 1}])  # E: wrong-index
    print(b[b])  # E: wrong-index
    print(p[object()])  # E: wrong-index
    print(b[1:2, "x"])  # E: wrong-index
    print(p[["obs", "act"]])  # E: wrong-index
    array: Array = b[0]  # E: wrong-result
    print(array)


def join(b: RolloutBatch, t: RolloutBatch[Tensor], p: RolloutBatchProtocol, a: Array) -> None:
    cat([a, a])  # E: wrong-kind
    cat([1, 2])  # E: wrong-kind
    stack([b, b], axis="rows")  # E: wrong-kind
    cat([b, b], missing="ignore")  # E: wrong-kind
    stack(["obs"])  # E: wrong-kind
    tensors: RolloutBatch[Tensor] = cat([b, b])  # E: wrong-result
    array: Array = stack([b, b])  # E: wrong-result
    print(tensors, array)


def visit(b: RolloutBatch, p: ObsBatchProtocol) -> None:
    for _ in b.split("32"):  # E: wrong-kind
        pass
    for _ in p.split():  # E: wrong-call
        pass
    for _ in p.split(2, shufle=False):  # E: unknown-keyword: shufle
        pass
    tensors: list[RolloutBatch[Tensor]] = list(b)  # E: wrong-result
    names: list[str] = [row for row in b]  # E: wrong-result
    print(tensors, names)


def methods(b: Batch, r: RolloutBatch) -> None:
    b.to_torch(dtype="float32")  # E: wrong-kind
    b.to_torch(devise="cpu")  # E: unknown-keyword: devise
    b.set_rows(0)  # E: wrong-call
    b.cat_(3)  # E: wrong-kind
    key: Hashable = b  # E: unhashable
    print(key, r)


# an open batch knows its methods, and is neither a record nor a protocol
def dynamic(d: DynamicBatch, a: Array) -> None:
    d.split("3")  # E: wrong-kind
    rollout: RolloutBatch = d  # E: unvalidated
    print(d.obs.anything.goes, rollout)
    asked: RolloutBatchProtocol = d  # E: unvalidated
    print(asked)
