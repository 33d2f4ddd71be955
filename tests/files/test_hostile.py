"""Files that somebody has made up: an error of the library's own, little memory, and nothing executed."""

from __future__ import annotations

import contextlib
import json
import pickle
from typing import Any

import pytest
import torch

from tests.files.helpers import Evil, Steps, by_hand, entry, hdf5_by_hand, memory_for, refused, with_document
from typedbatch.errors import SchemaError, StorageError
from typedbatch.files import load


@pytest.fixture
def path(tmp_path: Any) -> Any:
    return tmp_path / "batch.safetensors"


ONE = entry("U8", [1], 0, 1)
HEADERS: dict[str, tuple[Any, bytes]] = {
    "no JSON": (b"{", b""),
    "nothing": (b"", b""),
    "no text": (b"\x80\x81", b""),
    "a list": ([ONE], b"1"),
    "a number": (5, b""),
    "null": (None, b""),
    "text": ("typedbatch", b""),
    "deep lists": (b"[" * 100_000, b""),
    "deep dicts": (b'{"a":' * 100_000, b""),
    "deep and closed": (b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}", b""),
    "a number too long": (b'{"a":' + b"9" * 10_000 + b"}", b""),
    "an entry that is a number": ({"a": 5}, b""),
    "an entry that is a list": ({"a": ["U8", [1], [0, 1]]}, b"1"),
    "an entry that is text": ({"a": "dtype"}, b""),
    "an empty entry": ({"a": {}}, b""),
    "no dtype": ({"a": {"shape": [1], "data_offsets": [0, 1]}}, b"1"),
    "no shape": ({"a": {"dtype": "U8", "data_offsets": [0, 1]}}, b"1"),
    "no offsets": ({"a": {"dtype": "U8", "shape": [1]}}, b"1"),
    "three offsets": ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 1]}}, b"1"),
    **{
        f"dtype {one!r}": ({"a": entry(one, [1], 0, 1)}, b"1")
        for one in ("u1", "O", "V1", "", None, 1, ["U8"], {}, "F4")
    },
    **{
        f"shape {one!r:.20}": ({"a": entry("U8", one, 0, 1)}, b"1")
        for one in (
            None, 1, "1", {"1": 1}, [-1], [-1, -1], [1.0], [True], ["1"], [None], [[1]], [float("nan")], [2], [],
        )
        if one != []
    },
    **{
        f"huge shape {i}": ({"a": entry(dtype, one, 0, 0)}, b"")
        for i, (dtype, one) in enumerate(
            [
                ("U8", [2**62]), ("F64", [2**61]), ("U8", [2**32] * 2), ("U8", [2**64, 0]), ("U8", [0] * 70),
                ("F64", [0, 2**62]),
            ]
        )
    },
    **{
        f"offsets {one!r:.30}": ({"a": entry("U8", [1], *one)}, b"1")
        for one in (
            (1, 0), (-1, 0), (0.0, 1.0), (False, True), ("0", "1"), (None, 1), (1, 2), (2**63, 2**63 + 1), (0, 0),
        )
    },
    "overlapping": ({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, b"123"),
    "the same bytes": ({"a": ONE, "b": ONE}, b"1"),
    "a hole": ({"a": ONE, "b": entry("U8", [1], 2, 3)}, b"123"),
    "a hole in front": ({"a": entry("U8", [1], 1, 2)}, b"12"),
    "bytes behind": ({"a": ONE}, b"12"),
    "bytes of nobody": ({}, b"1"),
    "beyond the file": ({"a": entry("U8", [9], 0, 9)}, b"1"),
    **{
        f"metadata {one!r}": ({"__metadata__": one}, b"")
        for one in (5, ["typedbatch"], "typedbatch", {"typedbatch": "{}"}, {"typedbatch": None}, {"typedbatch": []})
    },
}  # fmt: skip


@pytest.mark.parametrize("what", HEADERS)
def test_a_header_that_cannot_be_is_refused(what, path):
    by_hand(path, *HEADERS[what])
    for mmap in (False, True):
        refused(path, mmap=mmap)


@pytest.mark.parametrize("length", [0, 1, 9, 2**20, 100_000_001, 2**31, 2**32, 2**62, 2**63, 2**64 - 1])
def test_a_length_of_the_header_that_cannot_be_is_refused(length, path):
    path.write_bytes(length.to_bytes(8, "little") + b'{"a": 1}')
    refused(path)
    assert memory_for(path) < 100_000


def test_of_two_fields_with_one_name_one_or_none_is_read(path):
    by_hand(
        path, b'{"a":' + json.dumps(ONE).encode() + b',"a":' + json.dumps(entry("I8", [1], 0, 1)).encode() + b"}", b"1"
    )
    with contextlib.suppress(StorageError):
        assert list(load(path).__dict__) == ["a"]


EMPTY = {"batch": {}, "class": "Batch"}
FINE = {"version": 1, "tree": EMPTY, "crc32": {}}
DOCUMENTS: dict[str, Any] = {
    "a list": [],
    "null": None,
    "text": "text",
    "empty": {},
    **{f"no {name}": {key: value for key, value in FINE.items() if key != name} for name in FINE},
    **{f"version {one!r}": FINE | {"version": one} for one in (0, 2, 10**30, -1, "1", None, [1], float("nan"))},
    **{f"tree {one!r}": FINE | {"tree": one} for one in (None, 5, "batch", [], {}, {"json": 5}, {"json": {"a": 1}})},
    "a tree without a class": FINE | {"tree": {"batch": {}}},
    "a tree of a list": FINE | {"tree": EMPTY | {"batch": []}},
    **{
        f"class {one!r}": FINE | {"tree": EMPTY | {"class": one}}
        for one in ("os.system", "Batch2", "", "BatchRecord", "ReplayBuffer", None, 5, ["Batch"], {"Batch": 1})
    },
    **{f"sums {one!r}": FINE | {"crc32": one} for one in ({"a": 5}, [1], "text", 5)},
}


@pytest.mark.parametrize("what", DOCUMENTS)
def test_a_document_that_cannot_be_is_refused(what, path):
    with_document(path, DOCUMENTS[what])
    for mmap in (False, True):
        refused(path, mmap=mmap)


def test_a_version_of_the_future_is_told(path, tmp_path):
    assert "it has version 2 of the file format, but only version 1 can be read" in refused(
        with_document(path, FINE | {"version": 2})
    )
    hdf5_by_hand(tmp_path / "a.h5", lambda group: None, {"version": 2, "class": "Batch"})
    assert "it has version 2 of the file format, but only version 1 can be read" in refused(tmp_path / "a.h5")


def test_deep_documents_are_refused(path):
    tree: Any = {"json": 1}
    for _ in range(400):
        tree = {"batch": {"a": tree}, "class": "Batch"}
    load(with_document(path, FINE | {"tree": tree}))
    text = json.dumps(FINE)[:-1] + ', "more": ' + "[" * 50_000 + "]" * 50_000 + "}"
    by_hand(path, {"__metadata__": {"typedbatch": text}})
    refused(path)
    by_hand(path, {"__metadata__": {"typedbatch": '{"a":' * 50_000}})
    refused(path)


def test_a_pickle_is_not_executed_whatever_it_is_called(path, tmp_path):
    marker = tmp_path / "executed"
    data = pickle.dumps(Evil(marker))
    entries = {"it": entry("U8", [len(data)], 0, len(data))}
    kinds = [
        {"array": "it"},
        {"tensor": "it", "torch": "uint8", "requires_grad": False},
        {"scalar": "it"},
        {"pickle": "it"},
    ]
    kinds += [{"array": "it", "dtype": "O", "shape": [1]}, {"objects": [data.decode("latin-1")], "shape": [1]}, {}]
    kinds += [{"tensor": "it", "torch": "load", "requires_grad": False}, {"json": data.decode("latin-1")}]
    for node in kinds:
        document = FINE | {"tree": {"batch": {"it": node}, "class": "Batch"}}
        with_document(path, document, entries, data)
        for arguments in ({}, {"mmap": True}, {"device": "cpu"}, {"schema": Steps}):
            with contextlib.suppress(StorageError, SchemaError):
                load(path, **arguments)
    by_hand(path, entries, data)
    assert load(path).it.tobytes() == data
    for name in ("a.safetensors", "a.h5"):
        (tmp_path / name).write_bytes(data)
        refused(tmp_path / name)
    torch.save({"it": Evil(marker)}, tmp_path / "b.safetensors")
    refused(tmp_path / "b.safetensors")
    assert not marker.exists()
