"""Row operations and devices: what goes in comes out as the same type."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import assert_type

from typedbatch import Batch, BatchProtocol, BatchRecord
from typedbatch.bridges.torch_distributed import all_gather, broadcast
from typedbatch.rows import (
    Groups,
    balance,
    bins,
    chunk,
    field_names,
    groups,
    pad_rows,
    project,
    repeat,
    restore,
    union,
)

Array = NDArray[Any]


class Scored(BatchRecord):
    ids: Tensor
    reward: Tensor
    uid: Array


class HasReward(BatchProtocol, Protocol):
    @property
    def reward(self) -> Tensor: ...


def rows(scored: Scored, typed: HasReward, lengths: Tensor) -> None:
    assert_type(repeat(scored, 4), Scored)
    assert_type(repeat(typed, [1, 2], interleave=True), HasReward)
    assert_type(repeat(scored, lengths).reward, Tensor)
    assert_type(chunk(scored, 2, equal=True), list[Scored])
    padded, added = pad_rows(scored, 8, zero=["reward"])
    assert_type(padded, Scored)
    assert_type(added, int)
    assert_type(union(scored, Batch(value=lengths), on="uid"), Scored)
    parts = balance(lengths, 4, equal=False, groups=scored.uid)
    assert_type(parts, list[NDArray[np.intp]])
    assert_type(bins([3, 4], 8, multiple=2), list[NDArray[np.intp]])
    assert_type(restore([scored[part] for part in parts], parts), Scored)
    assert_type(project(scored, HasReward), HasReward)
    assert_type(field_names(HasReward), tuple[str, ...])
    assert_type(list(scored.split(4, rng=torch.Generator())), list[Scored])


def statistics(scored: Scored, x: Array) -> None:
    found = groups(scored, "uid")
    assert_type(found, Groups)
    assert_type(found.mean(scored.reward), Tensor)
    assert_type(found.std(x), Array)
    assert_type(found.leave_one_out(scored.reward), Tensor)
    assert_type(len(found), int)


def devices(scored: Scored, typed: HasReward) -> None:
    assert_type(scored.to("cuda", dtype=torch.bfloat16, non_blocking=True), Scored)
    assert_type(typed.to(torch.device("cpu")), HasReward)
    assert_type(scored.pin_memory().to().ids, Tensor)
    assert_type(all_gather(scored), Scored)
    assert_type(broadcast(scored, src=1), Scored)
