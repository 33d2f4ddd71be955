"""Parquet files: there and back, files of others, damaged files, and writes that are whole or nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given

from tests.strategies import numpy_batches
from typedbatch import Batch, BatchRecord
from typedbatch._core.lengths import leaves
from typedbatch.bridges import arrow
from typedbatch.bridges.arrow import from_arrow, read_parquet, to_arrow, write_parquet
from typedbatch.errors import LeafError, SchemaError, StorageError, StructureError


def rollout(rows: int = 4) -> Batch:
    return Batch(
        obs={"cam": np.arange(rows * 12, dtype=np.uint8).reshape(rows, 3, 4), "pos": np.linspace(0, 1, rows)},
        act=np.arange(rows),
        done=np.arange(rows) % 2 == 0,
        text=np.array([f"é{i}" for i in range(rows)], object),
        time=np.arange(rows).astype("datetime64[ms]"),
    )


@given(numpy_batches(dtypes=("bool", "int8", "int64", "uint16", "float32", "float64")))
def test_there_and_back(batch):
    if all(0 not in leaf.shape[1:] for _, leaf in leaves(batch.__dict__) if isinstance(leaf, np.ndarray)):
        with tempfile.TemporaryDirectory() as folder:
            write_parquet(batch, Path(folder) / "batch.parquet")
            assert read_parquet(Path(folder) / "batch.parquet") == from_arrow(to_arrow(batch))


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"row_group_size": 3}, {"use_dictionary": False}])
def test_leaves_of_every_kind(tmp_path, rows, options):
    batch = rollout(rows)
    if not rows:
        del batch.text  # no texts, no type
    write_parquet(batch, tmp_path / "batch.parquet", **options)
    assert read_parquet(tmp_path / "batch.parquet") == batch


def test_half_precision_and_nulls(tmp_path):
    batch = Batch(half=torch.ones(2, dtype=torch.float16), text=np.array(["a", None], object))
    write_parquet(batch, str(tmp_path / "batch.parquet"))
    assert read_parquet(str(tmp_path / "batch.parquet")) == batch.to_numpy()


class Warm(TypedDict):
    temperature: float


class Sampled(BatchRecord):
    act: np.ndarray[Any, np.dtype[Any]]
    meta: Warm


def test_a_meta_that_files_of_others_lack(tmp_path):
    pq.write_table(pa.table({"act": [1, 2]}), tmp_path / "theirs.parquet")
    with pytest.raises(SchemaError, match="meta"):
        read_parquet(tmp_path / "theirs.parquet", into=Sampled)
    read = read_parquet(tmp_path / "theirs.parquet", into=Sampled, meta={"temperature": 0.5})
    assert read.meta == {"temperature": 0.5}
    own = Batch(act=np.arange(2), meta={"temperature": 0.7, "step": 3})
    assert from_arrow(to_arrow(own), meta={"temperature": 1.0}).meta == {"temperature": 1.0, "step": 3}
    assert from_arrow(to_arrow(own)).meta == own.meta
    with pytest.raises(LeafError, match="meta must be a dict, got list"):
        from_arrow(to_arrow(own), meta=["warm"])  # type: ignore[call-overload]


def test_some_columns(tmp_path):
    write_parquet(rollout(), tmp_path / "batch.parquet")
    assert read_parquet(tmp_path / "batch.parquet", ["act", "obs"]) == Batch(obs=rollout().obs, act=rollout().act)


def test_a_column_that_is_not_there_is_named(tmp_path):
    write_parquet(rollout(), tmp_path / "batch.parquet")
    with pytest.raises((StorageError, StructureError, LookupError), match="nope"):
        read_parquet(tmp_path / "batch.parquet", ["act", "nope"])


def test_a_file_of_theirs(tmp_path):
    table = pa.table(
        {
            "obs": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2)),
            "info": pa.array([{"lives": 3, "name": "a"}, {"lives": 2, "name": None}]),
            "tag": pa.array(["x", "y"]).dictionary_encode(),
            "logp": pa.array([0.5, None]),
        }
    )
    pq.write_table(table, tmp_path / "theirs.parquet")
    batch = read_parquet(tmp_path / "theirs.parquet")
    assert batch.obs.tolist() == [[1, 2], [3, 4]]
    assert batch.info == Batch(lives=np.array([3, 2]), name=np.array(["a", None], object))
    assert batch.tag.tolist() == ["x", "y"]
    np.testing.assert_array_equal(batch.logp, [0.5, np.nan])


def test_a_folder_that_looks_like_a_partition(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    write_parquet(Batch(a=np.arange(2)), folder / "batch.parquet")
    assert read_parquet(folder / "batch.parquet") == Batch(a=np.arange(2))


def test_ours_is_read_by_them(tmp_path):
    write_parquet(rollout(), tmp_path / "batch.parquet")
    table = pq.read_table(tmp_path / "batch.parquet")
    assert table["act"].to_pylist() == [0, 1, 2, 3]
    assert table["obs"].chunk(0).field("cam").to_numpy_ndarray().shape == (4, 3, 4)


@pytest.mark.parametrize("keep", [0, 3, 10, 0.5, -1, -8])
def test_a_file_that_was_cut(tmp_path, keep):
    path = tmp_path / "batch.parquet"
    write_parquet(rollout(), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(StorageError, match=r"batch\.parquet cannot be read: "):
        read_parquet(path)


def test_a_file_with_bytes_that_changed(tmp_path):
    """Check that the reader returns a batch or raises its own error, whichever byte has changed."""
    path = tmp_path / "batch.parquet"
    write_parquet(rollout(), path, write_page_checksum=True)
    data, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for place in rng.choice(len(data), 120, replace=False):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            read_parquet(path)
        except (StorageError, StructureError):
            refused += 1
    assert refused > 20


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(StorageError, match=r"nothing\.parquet cannot be read: "):
        read_parquet(tmp_path / "nothing.parquet")
    (tmp_path / "text.parquet").write_text("not a parquet file")
    with pytest.raises(StorageError, match=r"text\.parquet cannot be read: "):
        read_parquet(tmp_path / "text.parquet")


def test_the_old_file_stays_when_a_write_fails(tmp_path, monkeypatch):
    path = tmp_path / "batch.parquet"
    write_parquet(Batch(a=np.arange(2)), path)

    def half_a_file(table, where, **options):
        Path(where).write_bytes(b"PAR1")
        raise OSError("no space left")

    monkeypatch.setattr(arrow.pq, "write_table", half_a_file)
    with pytest.raises(StorageError, match=r"batch\.parquet cannot be written: no space left"):
        write_parquet(rollout(), path)
    monkeypatch.undo()
    assert read_parquet(path) == Batch(a=np.arange(2))
    assert os.listdir(tmp_path) == ["batch.parquet"]


def test_a_batch_that_is_refused_leaves_no_file(tmp_path):
    with pytest.raises(LeafError, match="field 'a': "):
        write_parquet(Batch(a=np.zeros(2, complex)), tmp_path / "batch.parquet")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match="cannot be written: "):
        write_parquet(Batch(a=np.zeros(2)), tmp_path / "nowhere" / "batch.parquet")


@pytest.mark.parametrize("options", [{"compression": "nope"}, {"version": "9"}])
def test_options_that_parquet_refuses(tmp_path, options):
    with pytest.raises(ValueError, match=r"nope|9|NOPE"):
        write_parquet(Batch(a=np.zeros(2)), tmp_path / "batch.parquet", **options)
    assert os.listdir(tmp_path) == []


def test_a_nested_batch_alone(tmp_path):
    """A struct without fields is nothing for Parquet, so it is left out and not an error."""
    write_parquet(Batch(a=np.zeros(2), reserved={}, deep={"er": {}}), tmp_path / "batch.parquet")
    assert read_parquet(tmp_path / "batch.parquet") == Batch(a=np.zeros(2))
