"""Mistakes with row operations and devices."""

from typing import Any, Protocol

from numpy.typing import NDArray
from torch import Tensor

from typedbatch import BatchProtocol, BatchRecord
from typedbatch.rows import balance, chunk, groups, pad_rows, project, repeat, union


class Scored(BatchRecord):
    ids: Tensor
    reward: Tensor
    uid: NDArray[Any]


class HasReward(BatchProtocol, Protocol):
    @property
    def reward(self) -> Tensor: ...


def wrong(scored: Scored) -> None:
    repeat(scored, None)  # E: no-number
    repeat(scored)  # E: how-often
    repeat(scored, 4).rewards  # E: misspelt-read-of-repeated: rewards
    chunk(scored, 2.5)  # E: half-a-part
    chunk(scored, 2)[0].rewards  # E: misspelt-read-of-part: rewards
    pad_rows(scored, 8).reward  # E: a-batch-and-a-number: reward
    union(scored, {"value": scored.ids})  # E: a-dict-is-no-batch
    union(scored, scored, by="uid")  # E: misspelt-option: by
    balance(scored.ids)  # E: no-parts
    groups(scored)  # E: no-key
    groups(scored, "uid").mean("reward")  # E: statistics-of-a-name
    project(scored, HasReward).uid  # E: read-of-what-was-left-out: uid
    scored.to("cpu").rewards  # E: misspelt-read-of-moved: rewards
    scored.to(dtype="bfloat16")  # E: dtype-as-text
    scored.split(4, rng="seed")  # E: seed-as-text
