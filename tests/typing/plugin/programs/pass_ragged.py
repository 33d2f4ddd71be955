"""Ragged fields keep their type through row operations, and nothing false is known of what is padded."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import assert_type

from typedbatch import Batch, BatchRecord, Ragged, cat
from typedbatch.sequences import pad


class Tokens(BatchRecord):
    ids: Int[Tensor, "N"]


class Rollout(BatchRecord):
    uid: Int[Tensor, "N"]
    tokens: Ragged[Tokens]


def plain(mask: NDArray[np.bool_]) -> None:
    tokens = Ragged(Tokens(ids=torch.zeros(3, dtype=torch.int64)), [1, 2])
    batch = Batch(uid=np.arange(2), tokens=tokens, images=Ragged(Batch(pixels=np.zeros(3)), [3, 0]))
    assert_type(batch.tokens, Ragged[Tokens])
    assert_type(batch[0:1].tokens, Ragged[Tokens])
    assert_type(batch[0].tokens, Ragged[Tokens])
    assert_type(batch[mask].tokens.values.ids, Tensor)
    assert_type(cat([batch, batch]).tokens, Ragged[Tokens])
    assert_type(batch.images.values.pixels, np.ndarray[tuple[int], np.dtype[np.float64]])
    assert_type(batch[0].images.values.pixels, np.ndarray[tuple[int], np.dtype[np.float64]])
    assert_type(batch.to_torch().images.values.pixels, Tensor)
    samples, patches = batch.images.padded().pixels.shape
    print(samples, patches)
    for row in batch:
        assert_type(row.tokens, Ragged[Tokens])


def shapes(batch: Rollout, lengths: list[int]) -> tuple[Any, ...]:
    padded = batch.tokens.padded()
    each = pad(batch.tokens.values, lengths)
    return padded.ids[:, 0], padded[0:2].ids.sum(1), each.ids[:, 0], batch.tokens[0].ids[0], batch.tokens.values.ids[0]
