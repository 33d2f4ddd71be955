"""Helpers of the tests of files: a comparison, batches of everything that files can store, and handmade files."""

from __future__ import annotations

import json
import os
import tempfile
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from tests.strategies import arrays, tensors
from typedbatch import Batch, BatchRecord
from typedbatch.errors import StorageError
from typedbatch.files import load, save

ENDINGS = [".safetensors", ".h5"]


def through_file(batch: Any, ending: str, **more: Any) -> Any:
    """Return a batch after it was saved and loaded."""
    loading = {name: more.pop(name) for name in ("mmap", "device") if name in more}
    if more.get("allow_pickle"):
        loading["allow_pickle"] = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"batch{ending}")
        save(batch, path, **more)
        return load(path, **loading)


def assert_same(one: Any, two: Any) -> None:
    """Names and their order, classes, dtypes, shapes and bits; asks nothing of Batch's own ``==``."""
    assert type(one) is type(two)
    if isinstance(one, Batch):
        assert list(one.__dict__) == list(two.__dict__)
        for name in one.__dict__:
            assert_same(one.__dict__[name], two.__dict__[name])
    elif isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape, one.requires_grad) == (two.dtype, two.shape, two.requires_grad)
        first, second = (tensor.detach().resolve_conj().contiguous().reshape(-1) for tensor in (one, two))
        assert not len(first) or torch.equal(first.view(torch.uint8), second.view(torch.uint8))
    elif isinstance(one, (np.ndarray, np.generic)):
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        if one.dtype.hasobject:
            assert repr(one.tolist()) == repr(two.tolist())  # of NaN, True, 1, 1.0 and -0.0 each is another
        else:
            assert one.tobytes() == two.tobytes()
    else:
        assert one == two


def cells(*values: Any) -> Any:
    """An object array with exactly these elements."""
    array = np.empty(len(values), object)
    for place, value in enumerate(values):
        array[place] = value
    return array


names = st.sampled_from(["a", "b", "a.b", "a.b.c", "", ".", "__metadata__", "field", "a/b", "é", "\0", "batch"])
names |= st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
_nested = st.recursive(
    _plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)
_objects = st.lists(_nested.filter(lambda cell: type(cell) is not dict), max_size=3).map(lambda found: cells(*found))
_numeric = st.integers(0, 3).flatmap(lambda rows: arrays(rows) | tensors(rows))
_others = st.sampled_from(
    [
        np.float16(0.5), np.datetime64("NaT", "ns"), np.zeros((0, 2), ">m8[ms]"), np.ones((2, 3), complex, order="F"),
        np.array([np.nan, -0.0], ">f8"), np.arange(6, dtype="u2")[::-2], torch.ones(2).to(torch.float8_e4m3fn),
        torch.tensor([1.5], requires_grad=True),
    ]
)  # fmt: skip
kept = st.recursive(
    _numeric | _objects | _others | st.none() | st.text(max_size=4) | st.builds(Batch),
    lambda inner: st.dictionaries(names, inner, max_size=4).map(Batch),
    max_leaves=8,
)
batches_to_keep = st.dictionaries(names, kept, max_size=4).map(Batch)
"""Batches of everything that a file keeps."""


class Steps(BatchRecord):
    obs: np.ndarray


class Evil:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.marker,)


def refused(path: Path, **arguments: Any) -> str:
    with pytest.raises(StorageError) as caught:
        load(path, **arguments)
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


def memory_for(path: Path, **arguments: Any) -> int:
    """The bytes that loading takes, whether the file is refused or not."""
    tracemalloc.start()
    try:
        load(path, **arguments)
    except StorageError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def by_hand(path: Path, header: Any, data: bytes = b"") -> Path:
    """A safetensors file with any header: a text of bytes, or anything that JSON takes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: Any, shape: Any, begin: Any, end: Any) -> dict[str, Any]:
    """Return the entry of an array in a header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def with_document(path: Path, document: Any, entries: dict[str, Any] | None = None, data: bytes = b"") -> Path:
    """A safetensors file with any document of ours, and a header whose checksum is right."""
    header: dict[str, Any] = {"__metadata__": {"typedbatch": json.dumps(document)}, **(entries or {})}
    found = zlib.crc32(json.dumps(header, sort_keys=True).encode())
    header["__metadata__"]["typedbatch_crc32"] = f"{found:08x}"
    return by_hand(path, header, data)


def with_node(path: Path, node: Any) -> Path:
    """A file of ours whose field ``it`` is described so, with arrays ``i`` (int64), ``b`` (uint8) and ``z`` (empty)."""
    document = {"version": 1, "tree": {"batch": {"it": node}, "class": "Batch"}, "crc32": {}}
    entries = {"i": entry("I64", [2], 0, 16), "b": entry("U8", [4], 16, 20), "z": entry("F32", [0, 3], 20, 20)}
    return with_document(path, document, entries, bytes(range(20)))


def hdf5_by_hand(path: Path, fill: Any, document: Any = None) -> Path:
    """An HDF5 file of ours whose batch ``fill`` writes."""
    with h5py.File(path, "w") as file:
        text = json.dumps({"version": 1, "class": "Batch"} if document is None else document)
        file.attrs["typedbatch"] = np.bytes_(text)
        group = file.create_group("batch")
        group.attrs["__data_type__"] = np.bytes_("Batch")
        fill(group)
    return path
