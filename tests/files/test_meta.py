"""Meta in files and in the forms of other libraries."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from typedbatch import Batch
from typedbatch.bridges.arrow import from_arrow, to_arrow
from typedbatch.bridges.tensordict import from_tensordict, to_tensordict
from typedbatch.errors import StorageError
from typedbatch.files import load, save


def sampled(**more: Any) -> Batch:
    return Batch(a=np.arange(3), n={"x": np.ones(3)}, meta={"step": 3, "stop": ["a", None], "deep": {"k": 1.5}, **more})


@pytest.mark.parametrize("ending", ["safetensors", "h5"])
def test_a_file_keeps_it_arrays_included(tmp_path, ending):
    batch = sampled(scale=np.ones((2, 2), np.float32))
    save(batch, tmp_path / f"b.{ending}")
    assert load(tmp_path / f"b.{ending}") == batch


@pytest.mark.parametrize("ending", ["safetensors", "h5"])
def test_what_a_file_cannot_keep_is_named_and_no_file_is_there(tmp_path, ending):
    with pytest.raises(StorageError, match=r"meta\.lock'.*lock cannot be written as JSON"):
        save(sampled(lock=threading.Lock()), tmp_path / f"b.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_a_nested_batch_keeps_its_own_in_safetensors_and_hdf5_refuses_it(tmp_path):
    batch = Batch(n=Batch(x=np.ones(2), meta={"step": 1}))
    save(batch, tmp_path / "b.safetensors")
    assert load(tmp_path / "b.safetensors").n.meta == {"step": 1}
    with pytest.raises(StorageError, match="the meta of a nested batch cannot be stored in an HDF5 file"):
        save(batch, tmp_path / "b.h5")


def test_tensordicts_and_tables_keep_it():
    batch = sampled()
    kept = to_tensordict(batch)
    assert from_tensordict(kept).meta == batch.meta
    assert from_tensordict(kept[:2]).meta == batch.meta
    assert from_arrow(to_arrow(batch)) == batch
    with pytest.raises(StorageError, match=r"meta\.scale"):
        to_arrow(sampled(scale=np.ones(2)))
