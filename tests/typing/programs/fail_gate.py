"""What comes out of validate, conforms, checked, extend and convert is used as something else."""

from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    ActBatch,
    Batch,
    BatchWithReturns,
    ObsBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    checked,
    conforms,
    convert,
    extend,
    validate,
)

Array = NDArray[Any]


def learn(batch: BatchWithReturns) -> None: ...
def learn_torch(batch: RolloutBatch[Tensor]) -> None: ...


def validated(b: Batch) -> None:
    rollout = validate(b, RolloutBatchProtocol)
    print(rollout.rwe)  # E: misspelt-read: rwe
    print(validate(b, RolloutBatch).returns)  # E: misspelt-read: returns
    print(validate(b, RolloutBatchProtocol[Tensor]).rew.numpyy())  # E: misspelt-read: numpyy
    learn(validate(b, RolloutBatch))  # E: wrong-result
    learn_torch(validate(b, RolloutBatch))  # E: bare-into-stage [not: mypy]
    wrong: RolloutBatch[Tensor] = validate(b, ActBatch)  # E: wrong-result
    print(validate(b, RolloutBatch | ActBatch).rew)  # E: misspelt-read: rew
    print(validate(None, ActBatch | None).act)  # E: misspelt-read: act
    validate(b)  # E: wrong-call
    validate(b, schema=RolloutBatch)  # E: wrong-call
    rollout.rew = rollout.rew * 2  # E: read-only-write: rew
    print(wrong)


def narrowed(b: Batch) -> None:
    if conforms(b, ObsBatchProtocol):
        print(b.obs, b.info)
        print(b.act)  # E: narrowed-open [only: pyrefly]
    print(b.obs)
    if not conforms(b, RolloutBatch):
        learn(b)  # E: unvalidated
    elif conforms(b, RolloutBatch):
        learn(b)  # E: wrong-result
    conforms(b)  # E: wrong-call


@checked
def train(batch: RolloutBatchProtocol, gamma: float = 0.9) -> BatchWithReturns:
    return extend(batch, BatchWithReturns, returns=batch.rew * gamma)


def decorated(b: Batch, r: RolloutBatch, t: RolloutBatch[Tensor]) -> None:
    print(train(r, 0.5).returns, train(batch=r).returns)
    train(b)  # E: unvalidated
    train(t)  # E: wrong-stage
    train()  # E: wrong-call
    train(r, gama=0.5)  # E: unknown-keyword: gama
    train(r, gamma="high")  # E: wrong-kind
    print(train(r).adv)  # E: misspelt-read: adv
    early: RolloutBatch[Tensor] = train(r)  # E: wrong-result
    print(early)


@checked
def forgets(batch: RolloutBatchProtocol) -> BatchWithReturns:
    return batch  # E: too-early


def extended(r: RolloutBatch, t: RolloutBatch[Tensor]) -> None:
    learn(extend(r, BatchWithReturns, returns=r.rew))
    print(extend(r, BatchWithReturns, returns=r.rew).adv)  # E: misspelt-read: adv
    learn(extend(t, BatchWithReturns[Tensor], returns=t.rew))  # E: wrong-result
    learn(extend(r, RolloutBatch))  # E: wrong-result
    torch_stage: RolloutBatch[Tensor] = extend(r, BatchWithReturns, returns=r.rew)  # E: bare-into-stage [not: mypy]
    extend(r)  # E: wrong-call
    extend([1, 2], BatchWithReturns, returns=r.rew)  # E: wrong-kind
    print(torch_stage)


def converted(r: RolloutBatch) -> None:
    learn_torch(convert(r, RolloutBatch[Tensor]))
    learn_torch(convert(r, RolloutBatch))  # E: bare-into-stage [not: mypy]
    learn_torch(r.to_torch())  # E: unvalidated
    print(convert(r, RolloutBatch[Tensor]).rew.astype(int))  # E: misspelt-read: astype
    print(convert(r, RolloutBatchProtocol[Tensor]).returns)  # E: misspelt-read: returns
    convert(r, RolloutBatch[Tensor], device=3.5)  # E: wrong-kind
    convert(r, RolloutBatch[Tensor], dtype="float")  # E: wrong-kind
    convert(r, RolloutBatch[Tensor], devise="cpu")  # E: unknown-keyword
    convert(r.rew, RolloutBatch[Tensor])  # E: wrong-kind


def results(r: RolloutBatch) -> Batch:
    array: Array = extend(r, BatchWithReturns, returns=r.rew)  # E: wrong-result
    name: str = convert(r, RolloutBatch[Tensor])  # E: wrong-result
    print(array, name)
    return validate(r, RolloutBatchProtocol)  # E: wrong-result
