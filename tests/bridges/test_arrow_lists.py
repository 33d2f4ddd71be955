"""Lists in tables of Arrow: arrays for programs that know no tensors, sequences of different lengths, and datasets."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedbatch import Batch, objects
from typedbatch.bridges.arrow import from_arrow, to_arrow
from typedbatch.errors import LeafError, MissingFieldError, StructureError
from typedbatch.ragged import Ragged

LENGTHS = st.lists(st.integers(0, 3), min_size=1, max_size=5)


def conversations(lengths: list[int] = [2, 0, 3]) -> Batch:
    rows, tokens = len(lengths), np.arange(sum(lengths))
    batch = Batch(
        image=np.arange(rows * 6, dtype=np.int16).reshape(rows, 2, 3),
        flags=np.ones((rows, 2), bool),
        inner={"x": np.zeros((rows, 4), np.float32)},
        messages=objects([[{"role": "user", "content": str(i)}] for i in range(rows)]),
        tokens=Ragged({"ids": tokens, "weight": tokens / 2}, lengths),
        input_ids=Ragged({"input_ids": tokens}, lengths),
    )
    batch.meta = {"tokenizer": "small"}
    return batch


RAGGED = ("tokens", "input_ids")


@given(LENGTHS, st.booleans())
def test_there_and_back(lengths, lists):
    batch = conversations(lengths)
    table = to_arrow(batch, lists=lists)
    table.validate(full=True)
    back = from_arrow(table, ragged=RAGGED)
    assert back == batch
    assert back.meta == batch.meta
    assert back.image.dtype == np.int16
    assert back.tokens.values.weight.dtype == np.float64


def test_types_of_columns():
    kinds = {field.name: str(field.type) for field in to_arrow(conversations(), lists=True).schema}
    assert kinds["image"].startswith("fixed_size_list<item: fixed_size_list<item: int16>[3]>[2]")
    assert kinds["tokens"] == "list<item: struct<ids: int64, weight: double>>"
    assert kinds["input_ids"] == "list<item: int64>"


@given(LENGTHS)
def test_lists_that_nobody_asks_for_are_objects_whatever_their_lengths(lengths):
    back: Any = from_arrow(to_arrow(conversations(lengths)))
    assert back.input_ids.dtype == object
    assert back.input_ids.shape == (len(lengths),)
    assert [len(row) for row in back.input_ids] == lengths


def test_memory_is_shared_there_and_back():
    batch: Any = conversations()
    back: Any = from_arrow(to_arrow(batch, lists=True), ragged=RAGGED)
    assert np.shares_memory(back.image, batch.image)
    assert np.shares_memory(back.tokens.values.ids, batch.tokens.values.ids)


def test_lists_of_a_table_that_is_a_part_of_another():
    back: Any = from_arrow(to_arrow(conversations())[1:], ragged=RAGGED)
    assert back.tokens.lengths.tolist() == [0, 3]
    assert back.tokens.values.ids.tolist() == [2, 3, 4]


def test_hugging_face_takes_and_gives_it():
    batch = conversations()
    dataset = datasets.Dataset(to_arrow(batch, lists=True))
    assert dataset[2]["input_ids"] == [2, 3, 4]
    assert dataset[0]["image"] == [[0, 1, 2], [3, 4, 5]]
    chosen = from_arrow(dataset.select([2, 0]).with_format("arrow")[:], ragged=RAGGED)
    want = batch[[2, 0]]
    want.meta = {}
    assert chosen == want


def test_what_becomes_no_ragged():
    table = pa.table({"a": [1, 2], "b": pa.array([[1], None]), "c": pa.array([[1], [2]], pa.list_(pa.int64(), 1))})
    with pytest.raises(MissingFieldError, match="tokens"):
        from_arrow(table, ragged=("tokens",))
    with pytest.raises(LeafError, match=r"'a'.*got int64"):
        from_arrow(table, ragged=("a",))
    with pytest.raises(LeafError, match=r"'c'.*got fixed_size_list"):
        from_arrow(table, ragged=("c",))
    with pytest.raises(StructureError, match=r"'b'.*null in some rows"):
        from_arrow(table, ragged=("b",))
