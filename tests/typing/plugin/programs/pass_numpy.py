"""numpy's functions and operators on batches, which numpy's types take for arrays: what comes back is a batch."""

from typing import Any, Protocol

import numpy as np

from typedbatch import Batch, BatchProtocol, BatchRecord

pair = Batch(a=np.zeros((3, 2)), b=Batch(c=np.ones(3)))
weights = np.array([0.5, 1.0, 2.0])

print(np.exp(pair).b.c, np.isnan(pair).a.any(), np.maximum(pair, 0).a.shape)
print(np.add(pair, pair).b.c, np.modf(pair)[0].a)
print(np.mean(pair).a, np.max(pair, axis=0).b.c, np.sum(pair).b)
print(np.clip(pair, 0, 1).a, np.diff(pair, axis=0).b.c, np.flip(pair, axis=0).a)
print(np.concatenate([pair, pair]).a.shape, np.stack((pair, pair)).b.c.shape)
print((weights * Batch(logp=np.zeros(3), adv=np.ones(3))).adv)

ready: bool = np.array_equal(pair, pair)
shape: tuple[int, ...] = np.shape(pair)


def scaled(batch: Batch, by: float) -> Any:
    return np.tanh(batch).a * by


print(scaled(pair, 2.0), ready, shape)


class Pair(BatchRecord):
    a: np.ndarray
    c: np.ndarray


class HasA(BatchProtocol, Protocol):
    a: np.ndarray


def declared(record: Pair, protocol: HasA, plain: Batch) -> None:
    print(np.mean(record).a, np.sum(record).c, np.clip(record, 0, 1).a, np.exp(record).a, np.maximum(record, 0).a)
    print(np.mean(protocol).a, np.max(protocol).a, np.round(protocol, 2).a, np.exp(protocol).a, np.add(1, protocol).a)
    print(np.mean(plain).a, np.max(plain).a, np.round(plain, 2).a, np.exp(plain).a, np.add(1, plain).a)


both = Pair(a=np.zeros(3), c=np.ones(3))
declared(both, both, Batch(both))
