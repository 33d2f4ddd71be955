"""numpy's functions take records and protocols: they have a batch for a result, and run on every field."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from typedbatch import BatchProtocol, BatchRecord, RolloutBatch, RolloutBatchProtocol

Array = NDArray[np.float64]


class Pair(BatchProtocol, Protocol):
    @property
    def x(self) -> Array: ...
    @property
    def y(self) -> Array: ...


class PairBatch(BatchRecord):
    x: Array
    y: Array


def of_record(b: PairBatch) -> list[Any]:
    reduced = [np.mean(b), np.sum(b), np.prod(b), np.std(b), np.var(b), np.min(b), np.max(b), np.any(b), np.all(b)]
    along = [np.mean(b, axis=0), np.sum(b, axis=0), np.max(b, axis=0), np.argmax(b), np.median(b), np.cumsum(b)]
    each = [np.clip(b, 0.0, 1.0), np.round(b, 2), np.abs(b), np.sqrt(b), np.exp(b), np.log(b), np.isnan(b)]
    pairs = [np.maximum(b, 0.0), np.add(b, b), np.multiply(2.0, b), np.concatenate([b, b]), np.zeros_like(b)]
    return [*reduced, *along, *each, *pairs, np.shape(b), np.array_equal(b, b), np.allclose(b, b)]


def of_protocol(b: Pair) -> list[Any]:
    reduced = [np.mean(b), np.sum(b), np.prod(b), np.std(b), np.var(b), np.min(b), np.max(b), np.any(b), np.all(b)]
    along = [np.mean(b, axis=0), np.sum(b, axis=0), np.max(b, axis=0), np.argmax(b), np.median(b), np.cumsum(b)]
    each = [np.clip(b, 0.0, 1.0), np.round(b, 2), np.abs(b), np.sqrt(b), np.exp(b), np.log(b), np.isnan(b)]
    pairs = [np.maximum(b, 0.0), np.add(b, b), np.multiply(2.0, b), np.concatenate([b, b]), np.zeros_like(b)]
    return [*reduced, *along, *each, *pairs, np.shape(b), np.array_equal(b, b), np.allclose(b, b)]


def of_shipped(record: RolloutBatch, protocol: RolloutBatchProtocol) -> list[Any]:
    return [np.mean(record), np.clip(record, 0.0, 1.0), np.max(protocol, axis=0), np.exp(protocol), np.std(protocol)]


if __name__ == "__main__":
    pair = PairBatch(x=np.ones(3), y=np.ones(3))
    of_record(pair)
    of_protocol(pair)
    flags = np.zeros(3, bool)
    x = np.ones(3)
    rollout = RolloutBatch(obs=x, act=x, rew=x, terminated=flags, truncated=flags, obs_next=x, info=np.zeros(3))
    of_shipped(rollout[:2], rollout)
