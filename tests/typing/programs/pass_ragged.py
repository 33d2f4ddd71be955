"""Ragged: the values have their type through every operation on rows, and what is made of them has it too."""

from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import assert_type

from typedbatch import Batch, BatchProtocol, BatchRecord, Ragged, cat, validate


class Tokens(BatchRecord):
    ids: Int[Tensor, "N"]
    logp: Float[Tensor, "N"]


class Rollout(BatchRecord):
    uid: NDArray[np.int64]
    tokens: Ragged[Tokens]
    images: Ragged[Batch] | None = None


class HasIds(BatchProtocol, Protocol):
    @property
    def ids(self) -> Tensor: ...


class HasTokens(BatchProtocol, Protocol):
    @property
    def tokens(self) -> Ragged[HasIds]: ...


def wants_tokens(batch: HasTokens) -> Tensor:
    return batch.tokens.values.ids


def reads(batch: Rollout, mask: NDArray[np.bool_], order: Tensor) -> None:
    assert_type(batch.tokens, Ragged[Tokens])
    assert_type(batch.tokens.values, Tokens)
    ids: Tensor = batch.tokens.values.ids  # zuban may take jaxtyping's types for Any
    assert_type(batch[2:5].tokens, Ragged[Tokens])
    assert_type(batch[mask].tokens.values.logp, Tensor)
    assert_type(batch[order].tokens, Ragged[Tokens])
    assert_type(batch[0].tokens.values, Tokens)
    assert_type(cat([batch, batch]).tokens, Ragged[Tokens])
    for part in batch.split(4):
        padded: Tensor = part.tokens.padded().ids
        print(ids, padded)
    wants_tokens(batch)
    wants_tokens(batch[1:])


def sequences(tokens: Ragged[Tokens], mask: NDArray[np.bool_]) -> None:
    assert_type(tokens[0], Tokens)
    assert_type(tokens[np.int64(0)], Tokens)
    assert_type(tokens[1:3], Ragged[Tokens])
    assert_type(tokens[mask], Ragged[Tokens])
    assert_type(tokens[[2, 0]], Ragged[Tokens])
    assert_type(tokens.padded("left", value={"ids": 7}, multiple_of=8, length=16), Tokens)
    assert_type(tokens.padded(value=-1).logp, Tensor)
    assert_type(tokens.to_nested(), Batch)
    assert_type(tokens.max_length, int)
    for one in tokens:
        assert_type(one, Tokens)
    wider: Ragged[HasIds] = tokens
    anything: Ragged[BatchProtocol] = tokens
    print(len(wider), anything.cu_seqlens, tokens.position_ids, tokens.lengths, tokens.mask("left", multiple_of=8))


def makes(rows: list[dict[str, Any]], ids: list[list[int]]) -> Rollout:
    flat = Tokens(ids=torch.zeros(5, dtype=torch.int64), logp=torch.zeros(5))
    tokens = Ragged(flat, [2, 3])
    assert_type(tokens, Ragged[Tokens])
    assert_type(Ragged({"ids": [1, 2]}, [2]), Ragged[Batch])
    assert_type(Ragged.from_lists(rows), Ragged[Batch])
    assert_type(Ragged.from_lists(rows, into=Tokens), Ragged[Tokens])
    assert_type(Ragged.from_lists({"ids": ids}), Ragged[Batch])
    assert_type(Ragged.from_padded(tokens.padded(), tokens.mask()), Ragged[Tokens])
    batch = Rollout(uid=np.arange(2), tokens=tokens)
    assert_type(validate(batch, Rollout).tokens, Ragged[Tokens])
    return batch
