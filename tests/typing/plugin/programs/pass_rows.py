"""Row operations on plain batches: the fields stay, those of two batches are put together, and nothing false is said."""

from typing import Protocol

from torch import Tensor
from typing_extensions import assert_type

from typedbatch import Batch, BatchProtocol
from typedbatch.rows import chunk, groups, pad_rows, repeat, union


class HasReward(BatchProtocol, Protocol):
    @property
    def reward(self) -> Tensor: ...


def learn(batch: HasReward) -> None: ...


def repeated(ids: Tensor) -> None:
    batch = Batch(ids=ids)
    more = repeat(batch, 4)
    more.reward = ids * 2.0
    learn(more)
    assert_type(more.ids, Tensor)
    for part in chunk(more, 2):
        part.advantage = part.reward - groups(part, "ids").mean(part.reward)
        assert_type(part.advantage, Tensor)
    padded, added = pad_rows(more, 8)
    assert_type(padded[: len(padded) - added].reward, Tensor)
    more = more.to("cuda").pin_memory()
    more.value = ids
    assert_type(more.value, Tensor)


def joined(ids: Tensor, record: HasReward, other: Batch) -> None:
    batch = Batch(ids=ids)
    learn(union(batch, Batch(reward=ids)))
    both = union(batch, Batch(adv_x=ids))
    both = union(both, Batch(adv_y=ids), on="ids")
    assert_type(both.adv_x, Tensor)
    assert_type(both.adv_y, Tensor)
    learn(union(batch, record))
    union(batch, record).reward
    union(batch, other).whatever
