"""Rows: whatever selects, cuts or joins them keeps the type, of records, protocols and plain batches alike."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar, assert_type

from typedbatch import ActBatch, Batch, PrioBatchProtocol, RolloutBatch, RolloutBatchProtocol, cat, stack

Array = NDArray[Any]


def index(b: RolloutBatch, mask: Array, order: Array, picked: Tensor) -> None:
    assert_type(b[0], RolloutBatch)
    assert_type(b[-1], RolloutBatch)
    assert_type(b[np.int64(2)], RolloutBatch)
    assert_type(b[:10], RolloutBatch)
    assert_type(b[::2], RolloutBatch)
    assert_type(b[...], RolloutBatch)
    assert_type(b[None], RolloutBatch)
    assert_type(b[[0, 2, 1]], RolloutBatch)
    assert_type(b[[True, False, True, False]], RolloutBatch)
    assert_type(b[mask], RolloutBatch)
    assert_type(b[order], RolloutBatch)
    assert_type(b[b.rew > 0], RolloutBatch)
    assert_type(b[np.argsort(b.rew)], RolloutBatch)
    assert_type(b[picked], RolloutBatch)
    assert_type(b[torch.randperm(4)], RolloutBatch)
    assert_type(b[range(2)], RolloutBatch)
    assert_type(b[..., None], RolloutBatch)
    assert_type(b[0:2, None], RolloutBatch)
    assert_type(b[:2][0], RolloutBatch)
    b["anything"] = order
    assert_type(b["rew"], Any)
    assert_type(b["anything"], Any)


def torch_rows(b: RolloutBatch[Tensor], p: PrioBatchProtocol[Tensor]) -> None:
    assert_type(b[:2], RolloutBatch[Tensor])
    assert_type(b[b.rew > 0], RolloutBatch[Tensor])
    assert_type(b[:2].rew, Tensor)
    assert_type(p[0], PrioBatchProtocol[Tensor])
    assert_type(p[p.weight > 0.5].obs, Tensor)


def visit(b: RolloutBatch, p: RolloutBatchProtocol, d: Batch) -> None:
    for row in b:
        assert_type(row, RolloutBatch)
        assert_type(row.rew, Array)
    for asked in p:
        assert_type(asked, RolloutBatchProtocol)
    for plain in d:
        assert_type(plain, Batch)
    for mini in b.split(2):
        assert_type(mini, RolloutBatch)
    for part in p.split(2, shuffle=False, merge_last=True):
        assert_type(part, RolloutBatchProtocol)
    for piece in d.split(-1, rng=0):
        assert_type(piece, Batch)
    for number, (one, other) in enumerate(zip(b, b.copy(), strict=True)):
        assert_type(number, int)
        assert_type(one, RolloutBatch)
        assert_type(other.obs, Array)
    assert_type(b.split(3), Iterator[RolloutBatch])
    assert_type(list(b), list[RolloutBatch])
    asked_rows: list[RolloutBatchProtocol] = list(p)
    assert_type(asked_rows[0].act, Array)
    assert_type([row.act for row in b], list[Array])
    for this, that in zip(p, p, strict=True):
        assert_type(this.rew, Array)
        assert_type(that.rew, Array)
    assert_type(max(b, key=len_of), RolloutBatch)


def len_of(b: RolloutBatch) -> float:
    return float(b.rew.sum())


def join(b: RolloutBatch, t: RolloutBatch[Tensor], p: RolloutBatchProtocol, a: ActBatch, d: Batch) -> None:
    assert_type(Batch.cat([b, b]), RolloutBatch)
    assert_type(Batch.cat([t, t]), RolloutBatch[Tensor])
    assert_type(Batch.cat([p, p]), RolloutBatchProtocol)
    assert_type(Batch.cat([d, d]), Batch)
    assert_type(Batch.stack([b, b]), RolloutBatch)
    assert_type(Batch.stack([p, p], axis=1), RolloutBatchProtocol)
    assert_type(cat([a, a]), ActBatch)
    assert_type(cat([b[0:1], b[2:3]]), RolloutBatch)
    assert_type(cat(list(b.split(2))), RolloutBatch)
    assert_type(stack([a, a]), ActBatch)
    assert_type(stack(list(b)), RolloutBatch)
    assert_type(cat([{"act": [1]}, {"act": [2]}]), Batch)
    assert_type(cat([d, {"act": [2]}], missing="pad"), Batch)
    b.cat_(b)
    b.cat_([b, b])
    d.stack_([d])


def copies(b: RolloutBatch, p: RolloutBatchProtocol) -> None:
    assert_type(b.copy(), RolloutBatch)
    assert_type(p.copy(), RolloutBatchProtocol)
    assert_type(copy.copy(b), RolloutBatch)
    assert_type(copy.deepcopy(b), RolloutBatch)
    assert_type(b.to_at_least_2d(), RolloutBatch)
    assert_type(b.dropnull(), RolloutBatch)
    assert_type(b.empty_(), RolloutBatch)
    assert_type(Batch.empty(b), RolloutBatch)


# a function over any kind of rollout gives back the kind it got
R = TypeVar("R", bound=RolloutBatchProtocol)
B = TypeVar("B", bound=Batch)


def same(batch: R) -> R:
    return batch.copy()


def minibatches(batch: R, size: int) -> Iterator[R]:
    yield from batch.split(size)


def twice(batch: R) -> R:
    return cat([batch, batch])


def halves(batch: R) -> list[R]:
    return list(batch.split(len(batch) // 2))


def shuffled(batch: B, seed: int) -> B:
    return next(batch.split(-1, rng=seed))


def main(n: int) -> None:
    done: Array = np.zeros(n, bool)
    f: Array = np.ones(n)
    act: Array = np.arange(n)
    b: RolloutBatch = RolloutBatch(obs=f, info=Batch(), obs_next=f, act=act, rew=f, terminated=done, truncated=done)
    t = torch.ones(n)
    tensors = RolloutBatch(obs=t, info=Batch(), obs_next=t, act=t, rew=t, terminated=t, truncated=t)
    assert_type(same(b), RolloutBatch)
    assert_type(twice(b[:2]), RolloutBatch)
    for mini in minibatches(b, 2):
        assert_type(mini, RolloutBatch)
    assert_type(halves(b), list[RolloutBatch])
    assert_type(shuffled(b, 0), RolloutBatch)
    index(b.copy(), np.array([True, False, True, False]), np.array([3, 1]), torch.tensor([0, 1]))
    visit(b, b, Batch(obs=f))
    join(b.copy(), tensors, b, ActBatch(act=act), Batch(obs=f))
    copies(b.copy(), b)


main(4)
