"""Rows more often, in parts, and up to a multiple: nothing is lost, and what goes together stays together."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.helpers import assert_identical
from typedbatch import Batch, ObsBatch, Ragged, cat
from typedbatch.errors import LeafError, MissingFieldError, NoLengthError, SizeError, StructureError
from typedbatch.rows import chunk, pad_rows, repeat


def some(rows: int) -> Batch:
    return Batch(
        a=np.arange(rows),
        t=torch.arange(rows).double(),
        uid=np.array([f"row {i}" for i in range(rows)], object),
        n=Batch(x=np.arange(rows) * 2, none=None),
    )


def numbers(batch: Batch) -> list[int]:
    found = batch.a.tolist()
    assert batch.t.tolist() == found
    assert [int(text[4:]) for text in batch.uid] == found
    assert (batch.n.x // 2).tolist() == found
    return found


def test_repeat_keeps_copies_together_or_repeats_the_whole():
    assert numbers(repeat(some(2), 3)) == [0, 0, 0, 1, 1, 1]
    assert numbers(repeat(some(2), 3, interleave=False)) == [0, 1, 0, 1, 0, 1]
    assert numbers(repeat(some(2), 0)) == []


@pytest.mark.parametrize("as_what", [list, np.array, torch.tensor])
def test_repeat_takes_a_number_for_each_row(as_what):
    assert numbers(repeat(some(3), as_what([2, 0, 1]))) == [0, 0, 2]


def test_repeat_keeps_the_class_and_copies():
    record = ObsBatch(obs=np.zeros((2, 3)), info=Batch())
    repeated = repeat(record, 1)
    assert type(repeated) is ObsBatch
    assert not np.shares_memory(repeated.obs, record.obs)
    assert repeat(Batch(), 3) == Batch()


@given(rows=st.integers(1, 20), data=st.data())
def test_chunks_are_exactly_so_many_views_that_make_the_batch_again(rows, data):
    n = data.draw(st.integers(1, rows))
    batch = some(rows)
    parts = chunk(batch, n)
    assert [len(part) for part in parts] == [len(part) for part in np.array_split(np.arange(rows), n)]
    assert all(np.shares_memory(part.a, batch.a) for part in parts)
    assert_identical(cat(parts), batch)


@given(rows=st.integers(1, 20), multiple=st.integers(1, 30))
def test_padded_rows_come_from_the_start_and_go_again(rows, multiple):
    batch = some(rows)
    padded, added = pad_rows(batch, multiple)
    assert len(padded) % multiple == 0
    assert 0 <= added < multiple
    assert numbers(padded) == [i % rows for i in range(rows + added)]
    assert_identical(padded[: len(padded) - added], batch)


def test_padded_rows_do_not_count_in_the_loss():
    batch = Batch(loss_mask=torch.ones(3, 2), weight=np.ones(3), uid=["a", "b", "c"], n={"w": np.ones(3)})
    padded, added = pad_rows(batch, 2)
    assert added == 1
    assert padded.loss_mask.tolist() == [[1, 1], [1, 1], [1, 1], [0, 0]]
    assert padded.weight.tolist() == [1, 1, 1, 1]
    padded, _ = pad_rows(batch, 5, zero=["weight", "uid", "n"])
    assert padded.weight.tolist() == padded.n.w.tolist() == [1, 1, 1, 0, 0]
    assert padded.uid.tolist() == ["a", "b", "c", None, None]
    assert padded.loss_mask.sum() == 10
    assert pad_rows(batch, 2, zero="weight")[0].weight.tolist() == [1, 1, 1, 0]
    assert batch.loss_mask.sum() == 6
    assert batch.weight.sum() == 3


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_no_loss_mask_counts_in_padded_rows_wherever_it_is(kind):
    tokens = Ragged({"ids": [5, 6, 7], "loss_mask": [True] * 3, "more": {"loss_mask": [1, 1, 1]}}, [1, 2])
    batch = Batch(tokens=tokens, actor={"loss_mask": np.ones((2, 3)), "x": [1, 2]})
    batch = batch if kind == "numpy" else batch.to_torch()
    padded, added = pad_rows(batch, 5)
    assert added == 3
    assert padded.tokens.lengths.tolist() == [1, 2, 1, 2, 1]
    assert padded.tokens.values.ids.tolist() == [5, 6, 7, 5, 6, 7, 5]
    assert padded.tokens.values.loss_mask.tolist() == [True] * 3 + [False] * 4
    assert padded.tokens.values.more.loss_mask.tolist() == [1] * 3 + [0] * 4
    assert padded.actor.loss_mask[:, 0].tolist() == [1, 1, 0, 0, 0]
    assert padded.actor.x.tolist() == [1, 2, 1, 2, 1]
    assert padded[:2] == batch
    whole = Batch(loss_mask=Ragged({"flags": [1, 1, 1]}, [1, 2]))
    assert pad_rows(whole, 3)[0].loss_mask.values.flags.tolist() == [1, 1, 1, 0]
    assert pad_rows(batch, 5, zero=[])[0].tokens.values.loss_mask.all()


def test_padding_keeps_the_class_and_does_nothing_to_what_is_a_multiple():
    record = ObsBatch(obs=np.zeros((4, 3)), info=Batch())
    padded, added = pad_rows(record, 2)
    assert (type(padded), added) == (ObsBatch, 0)
    assert padded.obs is record.obs
    assert padded is not record
    assert pad_rows(Batch(a=[]), 4)[1] == 0


UNEQUAL = Batch(a=np.zeros(3), n={"b": np.zeros(2)})


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda b: repeat(b, -1), SizeError, "the number of times is 0 or more, got -1"),
        (lambda b: repeat(b, 1.5), SizeError, "the number of times is a whole number, got 1.5"),
        (lambda b: repeat(b, [1, 2]), SizeError, "takes one number, or one for each of 3 rows, got 2"),
        (lambda b: repeat(b, [1, 2, -1]), SizeError, "whole numbers from 0 up"),
        (lambda b: repeat(b, [1, 2, 1], interleave=False), SizeError, "interleave=False repeats the whole batch"),
        *[
            (
                lambda b, n=n, more=more: repeat(Batch(a=np.arange(4), **more), n),
                SizeError,
                f"times must be {2**58 - 1} or less",
            )
            for n in (2**62, 2**70)
            for more in ({}, {"o": np.array([None] * 4)}, {"t": torch.ones(4)}, {"r": Ragged({"x": [1] * 4}, [1] * 4)})
        ],
        (
            lambda b: repeat(b, 2**61, interleave=False),
            SizeError,
            f"number of times must be .* or less, .* got {2**61}",
        ),
        (lambda b: repeat(b, [2**62] * 3), SizeError, f"sum of the numbers of times must be .* or less, .*{3 * 2**62}"),
        (lambda b: repeat(Batch(a=np.zeros((2, 0, 8))), 2**57), SizeError, f"times must be {2**56 - 1} or less"),
        (lambda b: repeat(Batch(a=torch.zeros(2, 64)), 2**57), SizeError, f"times must be {2**54 - 1} or less"),
        (lambda b: repeat(Batch(a=[]), 2**70), SizeError, f"times must be {2**60 - 1} or less"),
        (lambda b: chunk(b, 2**70), SizeError, f"3 rows cannot be cut into {2**70} parts"),
        (lambda b: pad_rows(b, 2**62), SizeError, f"multiple must be {2**60 - 1} or less, .* got {2**62}"),
        (lambda b: pad_rows(b, 2**70), SizeError, f"multiple must be {2**60 - 1} or less, .* got {2**70}"),
        (lambda b: chunk(b, 0), SizeError, "the number of parts is 1 or more, got 0"),
        (lambda b: chunk(b, 4), SizeError, r"3 rows cannot be cut into 4 parts; pad_rows\(batch, 4\) adds rows"),
        (lambda b: chunk(b, 2, equal=True), SizeError, "3 rows cannot be cut into 2 equal parts"),
        (lambda b: chunk(Batch(), 1), SizeError, "0 rows cannot be cut into 1 parts"),
        (lambda b: pad_rows(b, 0), SizeError, "multiple is 1 or more, got 0"),
        (lambda b: pad_rows(b, 2, zero=["loss_masks"]), MissingFieldError, "no field 'loss_masks'"),
        (lambda b: pad_rows(b, 3, zero=["loss_masks"]), MissingFieldError, "no field 'loss_masks'"),
        (lambda b: repeat({"a": [1]}, 2), LeafError, r"repeat\(\) takes a Batch, got dict"),
        (lambda b: chunk([b], 2), LeafError, r"chunk\(\) takes a Batch, got list"),
        (lambda b: pad_rows(None, 2), LeafError, r"pad_rows\(\) takes a Batch, got None"),
        (lambda b: repeat(b[0], 2), NoLengthError, "has no rows"),
        *[
            (call, StructureError, "different lengths: a has 3, others 2; rows would be lost")
            for call in (lambda b: repeat(UNEQUAL, 2), lambda b: chunk(UNEQUAL, 2), lambda b: pad_rows(UNEQUAL, 2))
        ],
    ],
)
def test_what_is_refused(call, error, text):
    batch = some(3)
    with pytest.raises(error, match=text):
        call(batch)
    assert_identical(batch, some(3))
