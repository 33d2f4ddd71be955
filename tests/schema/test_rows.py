"""Records whose fields differ in their first dimension: rows of them are refused, of all others they are taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float, Int

from typedbatch import Batch, BatchRecord, Ragged, cat
from typedbatch.errors import RowIndexError
from typedbatch.rows import chunk, repeat


class Packed(BatchRecord):
    input_ids: Int[np.ndarray, "tokens"]
    cu_seqlens: Int[np.ndarray, "seqs+1"]
    reward: Float[np.ndarray, "seqs"]


class LayersFirst(BatchRecord):
    obs: Float[np.ndarray, "N 4"]
    hidden: Float[np.ndarray, "layers N units"]


class Outer(BatchRecord):
    uid: Int[np.ndarray, "N"]
    tokens: Tokens  # declared further down, so read at the first use


class Tokens(BatchRecord):
    ids: Int[np.ndarray, "T"]


class AllOfT(BatchRecord):
    ids: Int[np.ndarray, "T"]
    emb: Float[np.ndarray, "T D"]
    rest: Float[np.ndarray, "..."] | None = None


class Broad(BatchRecord):
    obs: np.ndarray
    one: Float[np.ndarray, "#N"]
    sequences: Ragged[Tokens]


def packed() -> Packed:
    return Packed(input_ids=np.arange(6), cu_seqlens=np.array([0, 2, 6]), reward=np.zeros(2))


OPERATIONS: list[Any] = [
    lambda batch: batch[0], lambda batch: batch[:2], lambda batch: batch[[1, 0]],
    lambda batch: batch[np.array([True, False])], lambda batch: batch[...], lambda batch: next(iter(batch)),
    lambda batch: next(batch.split(1)), lambda batch: next(batch.split(1, shuffle=False)),
    lambda batch: Batch(inner=batch)[:1], lambda batch: cat([batch, batch]), lambda batch: repeat(batch, 2),
    lambda batch: chunk(batch, 2),
]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
def test_rows_that_do_not_belong_together_are_refused(operation: Any) -> None:
    with pytest.raises(RowIndexError, match=r"cu_seqlens': .*'seqs\+1', and that of input_ids as 'tokens'.*Ragged"):
        operation(packed())
    with pytest.raises(RowIndexError, match="hidden': LayersFirst declares its first dimension as 'layers'"):
        operation(LayersFirst(obs=np.zeros((2, 4)), hidden=np.zeros((1, 2, 3))))
    for _ in range(2):
        with pytest.raises(RowIndexError, match=r"tokens\.ids': Outer declares its first dimension as 'T'"):
            operation(Outer(uid=np.arange(2), tokens=Tokens(ids=np.arange(5))))


def test_fields_can_still_be_worked_on():
    batch = packed()
    assert batch == batch.copy()
    assert (batch + 0) == batch
    assert Batch(batch)[:1].input_ids.tolist() == [0]  # a plain Batch declares nothing


@pytest.mark.parametrize("operation", OPERATIONS)
def test_rows_by_any_one_name_are_taken(operation: Any) -> None:
    batch = AllOfT(ids=np.arange(2), emb=np.zeros((2, 3)), rest=np.zeros((2, 1)))
    assert operation(batch) is not None
    broad = Broad(obs=np.zeros((2, 3)), one=np.zeros(2), sequences=Ragged(Tokens(ids=np.arange(3)), [1, 2]))
    assert operation(broad) is not None
