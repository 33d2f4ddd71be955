"""Lists in tables of Arrow: arrays for programs that know no tensors, sequences of different lengths, and datasets."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor

from typedbatch import Batch, BatchRecord, objects
from typedbatch.bridges.arrow import from_arrow, read_parquet, to_arrow
from typedbatch.errors import LeafError, MissingFieldError, SchemaError, StructureError
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


class Inner(BatchRecord):
    x: Float64[np.ndarray, "N"]


class Outer(BatchRecord):
    x: Float64[np.ndarray, "N"]
    tensor: Float[Tensor, "N"]
    grid: Float32[np.ndarray, "N 2 2"]
    pairs: Int64[np.ndarray, "N 2"]
    inner: Inner
    sequences: Ragged[Inner]
    maybe: Float64[np.ndarray, "N"] | None = None


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("way", ["table", "datasets", "parquet"])
def test_integers_with_nulls_and_lists_of_equal_lengths_are_what_is_declared(
    rows: int, chunks: int, way: str, tmp_path: Any
):
    numbers = pa.array([None, 2, 3][:rows], pa.int64())
    lists = pa.array([[1, None], [], [3]][:rows], pa.list_(pa.int32()))
    data = {
        "x": numbers,
        "tensor": pa.array([1, None, 3][:rows], pa.int8()),
        "grid": pa.array([[[1, 2], [3, 4]]] * rows, pa.list_(pa.list_(pa.float32()))),
        "pairs": pa.array([[1, 2]] * rows, pa.large_list(pa.int64())),
        "inner": pa.StructArray.from_arrays([numbers], ["x"]),
        "sequences": pa.ListArray.from_arrays(lists.offsets, pa.StructArray.from_arrays([lists.values], ["x"])),
        "maybe": pa.nulls(rows),
    }
    given: Any = pa.table(data)
    if chunks == 2:
        given = pa.concat_tables([given.slice(0, rows // 2), given.slice(rows // 2)])
    if way == "datasets":
        grid = datasets.Array2D((2, 2), "float32")
        given = datasets.Dataset(given).cast_column("grid", grid).with_format("arrow")[:] if rows else given
    if way == "parquet":
        pq.write_table(given, tmp_path / "a.parquet")
        batch = read_parquet(tmp_path / "a.parquet", into=Outer)
    else:
        batch = from_arrow(given, Outer)
    nan = float("nan")
    np.testing.assert_array_equal(batch.x, [nan, 2.0, 3.0][:rows])
    np.testing.assert_array_equal(batch.inner.x, [nan, 2.0, 3.0][:rows])
    np.testing.assert_array_equal(batch.tensor.numpy(), [1.0, nan, 3.0][:rows])
    np.testing.assert_array_equal(batch.sequences.values.x, [[], [1.0, nan], [], [1.0, nan, 3.0]][rows])
    assert batch.grid.tolist() == [[[1, 2], [3, 4]]] * rows
    assert batch.pairs.tolist() == [[1, 2]] * rows
    assert batch.maybe is None


def test_an_array_of_datasets_is_an_array_without_a_declaration_too():
    features = datasets.Features({"a": datasets.Array3D((2, 1, 2), "int64"), "b": datasets.Array2D((None, 1), "int64")})
    rows = [{"a": [[[i, 1]], [[2, 3]]], "b": [[i]]} for i in range(3)]
    table = datasets.Dataset.from_list(rows, features).with_format("arrow")[:]
    batch: Any = from_arrow(table)
    assert batch.a.tolist() == [row["a"] for row in rows]
    assert from_arrow(table.slice(0, 0)).a.shape == (0, 2, 1, 2)
    assert batch.b.tolist() == [[[i]] for i in range(3)]
    assert batch.b.dtype == object, "its lists may have any length"


def test_what_is_not_what_is_declared_stays_refused():
    class Grid(BatchRecord):
        x: Float64[np.ndarray, "N 2"]

    class Whole(BatchRecord):
        x: Int64[np.ndarray, "N"]

    for column in ([[1.0, 2.0], [3.0]], [[1.0, 2.0], None], ["a", "b"]):
        with pytest.raises(SchemaError, match="x "):
            from_arrow(pa.table({"x": column}), Grid)
    with pytest.raises(SchemaError, match="x "):
        from_arrow(pa.table({"x": [1, None]}), Whole)
    with pytest.raises(StructureError, match=r"field 'x': int64 cannot be a field .*9007199254740993"):
        from_arrow(pa.table({"x": [2**53 + 1, None]}), Inner)
