"""Mistakes with row operations on plain batches."""

from typing import Protocol

from torch import Tensor

from typedbatch import Batch, BatchProtocol
from typedbatch.rows import chunk, repeat, union


class HasReward(BatchProtocol, Protocol):
    @property
    def reward(self) -> Tensor: ...


def learn(batch: HasReward) -> None: ...


def wrong(ids: Tensor) -> None:
    batch = Batch(ids=ids)
    more = repeat(batch, 4)
    more.missing  # E: read-of-repeated: missing
    learn(repeat(batch, 4))  # E: repeated-without-reward: reward
    for part in chunk(batch, 2):
        part.missing  # E: read-of-part: missing
    both = union(batch, Batch(value=ids))
    both.missing  # E: read-of-both: missing
    learn(both)  # E: both-without-reward: reward
    batch.to("cpu").missing  # E: read-of-moved: missing
