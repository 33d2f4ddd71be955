"""Fields that are there on some ways through a program only: as random programs have it, and as these do not."""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol

Array = NDArray[Any]


class WithReturns(BatchProtocol, Protocol):
    @property
    def returns(self) -> Array: ...


def learn(batch: WithReturns) -> None: ...
def look(batch: BatchProtocol) -> None: ...
def enrich(batch: Batch) -> None: ...


@contextlib.contextmanager
def timer(name: str) -> Iterator[str]:
    yield name


def one_branch(flag: bool) -> None:
    b = Batch(rew=np.ones(3))
    if flag:
        b.returns = b.rew.cumsum()
    print(b.returns)  # E: maybe-after-if: returns
    learn(b)
    b.returns = b.rew
    learn(b)


def deleted_in_branch(flag: bool) -> None:
    b = Batch(rew=np.ones(3), mask=np.ones(3), weight=np.ones(3))
    if flag:
        del b.mask
    else:
        b.pop("weight")
    print(b.mask)  # E: maybe-deleted: mask
    print(b.weight)  # E: maybe-popped: weight
    print(b.rew)


def handled(raw: str) -> None:
    b = Batch(rew=[1.0])
    try:
        b.scale = float(raw)
    except ValueError:
        print("no scale")
    print(b.scale)


def measured() -> None:
    b = Batch(rew=np.ones(3))
    with timer("returns") as name:
        b.returns = b.rew.cumsum()
        b.name = name
    print(b.name.upper(), b.returns)
    print(b.names)  # E: misspelt-after-with: names


def matched(kind: int) -> None:
    b = Batch(rew=np.ones(3))
    match kind:
        case 0:
            b.out = b.rew
        case 1 | 2:
            b.result = b.rew * kind
        case _:
            b.out = b.rew
    print(b.out)  # E: maybe-after-match: out


def comprehensions() -> None:
    batches = [Batch(rew=np.full(2, i), step=[i] * 2) for i in range(3)]
    print([b.rew for b in batches])
    print([b.reward for b in batches])  # E: misspelt-in-comprehension: reward
    print({int(b.setp[0]) for b in batches})  # E: misspelt-in-comprehension: setp
    whole = Batch.cat(batches)
    print(whole.rew, whole.step)
    print(whole.reward)
    print(sum(row.rew for row in whole))
    print(any(row.dones for row in whole))  # E: no-such-field-of-row: dones


def walrus(n: int) -> None:
    if (b := Batch(rew=np.ones(n))).rew.sum() > 2:
        b.big = b.rew > 0
        print(b.big)
    print(b.big)  # E: maybe-after-if: big
    if n and (row := b[0]) is not None:
        print(row.rew)
        print(row.rwe)  # E: misspelt-in-row: rwe


def nested_function() -> None:
    b = Batch(rew=np.ones(3))

    def show() -> None:
        print(b.rew)
        print(b.rwe)  # E: misspelt-in-closure: rwe
        own = Batch(obs=b.rew)
        print(own.obs)
        print(own.rew)  # E: other-batch: rew

    show()


def generated(n: int) -> Iterator[Array]:
    b = Batch(rew=np.ones(3))
    for step in range(n):
        b.step = step
        yield b.rew * b.step
    yield b.total  # E: misspelt-in-generator: total


def after_protocol() -> None:
    b = Batch(rew=np.ones(3))
    look(b)
    print(b.bonus)  # E: read-after-look: bonus
    print(len(b), b.keys(), b.obs)  # E: no-such-field: obs
    enrich(b)
    print(b.bonus, b.whatever)


def chained() -> None:
    a, b = Batch(x=1.0), Batch(y=2.0)
    a.z = b.z = 3.0
    print(a.z, b.z, a.x, b.y)
    print(a.y)  # E: other-batch: y
    print(b.x)  # E: other-batch: x
    a.x, b.y = b.y, a.xx  # E: misspelt-in-tuple: xx
