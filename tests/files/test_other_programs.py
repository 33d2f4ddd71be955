"""Files of other programs: the safetensors library reads ours, and its files and those of h5py are read here."""

from __future__ import annotations

import json
from typing import Any

import h5py
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given
from safetensors import safe_open

from tests.files.helpers import assert_same, batches_to_keep, by_hand, cells, entry
from tests.strategies import numpy_batches
from typedbatch import Batch, BatchRecord
from typedbatch.errors import StorageError
from typedbatch.files import load, save
from typedbatch.files.hdf5 import from_hdf5


@pytest.fixture
def path(tmp_path: Any) -> Any:
    return tmp_path / "batch.safetensors"


class Weights(BatchRecord):
    w: np.ndarray


def flat(batch: Any, path: str = "") -> dict[str, Any]:
    """Arrays by their dotted names, where these are different."""
    found: dict[str, Any] = {}
    for name, value in batch.__dict__.items():
        dotted = f"{path}.{name}" if path else name
        found |= flat(value, dotted) if isinstance(value, Batch) else {dotted: value}
    return found


@given(numpy_batches(dtypes=("?", "i1", "i8", "u1", "f2", "f4", "f8", "c8")))
def test_arrays_are_there_under_their_dotted_names(tmp_path_factory, batch):
    path = tmp_path_factory.mktemp("ours") / "a.safetensors"
    save(batch, path)
    read = safetensors.torch.load_file(path)
    expected = flat(batch)
    if len(expected) == len(read) and "" not in expected:
        for name, array in expected.items():
            assert read[name].numpy().dtype == array.dtype
            np.testing.assert_array_equal(read[name].numpy(), array)
    sizes = sorted(tensor.nbytes for tensor in read.values())
    assert sizes == sorted(leaf.nbytes for _, leaf in every_leaf(batch))


def every_leaf(batch: Any) -> list[tuple[str, Any]]:
    found = []
    for name, value in batch.__dict__.items():
        found += every_leaf(value) if isinstance(value, Batch) else [(name, value)]
    return found


@given(batches_to_keep)
def test_every_file_of_ours_is_one_for_the_library(tmp_path_factory, batch):
    path = tmp_path_factory.mktemp("ours") / "a.safetensors"
    save(batch, path)
    safetensors.torch.load_file(path)


def test_a_name_that_is_no_unicode_is_kept_in_a_file_that_the_library_reads(path):
    save(Batch({"\ud800": np.arange(2)}), path)
    assert load(path)["\ud800"].tolist() == [0, 1]
    assert len(safetensors.torch.load_file(path)) == 1


def test_tensors_are_read_with_their_dtypes(path):
    dtypes = [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.complex64, torch.bool]
    dtypes += [torch.uint16, torch.uint64, torch.float64]
    batch = Batch({str(dtype): torch.arange(6).reshape(2, 3).float().to(dtype) for dtype in dtypes})
    save(batch, path)
    assert_same(Batch(**safetensors.torch.load_file(path))[sorted(batch.__dict__)[0]], batch[sorted(batch.__dict__)[0]])
    read = safetensors.torch.load_file(path)
    for name, tensor in batch.__dict__.items():
        assert_same(read[name], tensor)


def test_what_the_library_has_no_dtype_for_is_there_as_numbers(path):
    save(Batch(d=np.array([3], "M8[s]"), c=np.array([1 + 2j]), big=np.array([1, 2], ">i4"), o=cells(None), t="x"), path)
    read = safetensors.numpy.load_file(path)
    assert sorted(read) == ["big", "c", "d"]
    assert [read[name].ravel().tolist() for name in ("big", "c", "d")] == [[1, 2], [1, 2], [3]]


def test_one_tensor_is_read_alone_and_metadata_are_text(path):
    save(Batch(obs=Batch(cam=np.arange(6).reshape(2, 3)), act=np.arange(2)), path, None)
    with safe_open(path, "np") as file:
        assert sorted(file.keys()) == ["act", "obs.cam"]
        assert file.get_slice("obs.cam")[1:].tolist() == [[3, 4, 5]]
        assert json.loads(file.metadata()["typedbatch"])["version"] == 1


DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64]
DTYPES += [torch.uint64, torch.float16, torch.float32, torch.float64, torch.complex64]
NO_ARRAYS = [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("dtype", [*DTYPES, *NO_ARRAYS], ids=str)
def test_tensors_of_the_library_are_fields(dtype, mmap, path):
    tensors = {"a.b": torch.arange(6).reshape(2, 3).float().to(dtype), "s": torch.ones(()).to(dtype)}
    tensors |= {"": torch.zeros(0, 2).to(dtype), "odd": torch.ones(3, dtype=torch.uint8)}
    safetensors.torch.save_file(tensors, path, {"format": "pt"})
    read = load(path, mmap=mmap)
    assert set(read.__dict__) == set(tensors)
    for name, tensor in tensors.items():
        is_array = tensor.dtype not in NO_ARRAYS
        assert_same(read[name], tensor.numpy() if is_array else tensor)


def test_a_file_of_the_library_is_checked_against_a_schema(path):
    safetensors.numpy.save_file({"w": np.ones((2, 2)), "more": np.ones(2)}, path)
    read = load(path, Weights)
    assert type(read) is Weights
    assert read.w.tolist() == [[1, 1], [1, 1]]
    safetensors.torch.save_file({"w": torch.ones(2, dtype=torch.bfloat16)}, path)
    with pytest.raises(ValueError, match="w "):
        load(path, Weights)


def test_what_is_read_of_the_library_is_saved_and_comes_back(path):
    safetensors.torch.save_file({"w": torch.ones(2, dtype=torch.bfloat16), "a": torch.ones(3)}, path)
    read = load(path)
    save(read, path)
    assert_same(load(path), read)


def test_tensors_of_the_library_go_where_they_are_wanted(path):
    safetensors.torch.save_file({"w": torch.ones(2, dtype=torch.bfloat16)}, path)
    assert load(path, device="meta").w.device.type == "meta"


def test_an_empty_file_of_the_library(path):
    safetensors.numpy.save_file({}, path)
    assert_same(load(path), Batch())
    assert_same(load(path, mmap=True), Batch())


def test_metadata_of_others_are_no_problem(path):
    safetensors.numpy.save_file({"w": np.ones(2)}, path, {"typed": "batch", "": "", "format": "np"})
    assert load(path).w.tolist() == [1, 1]
    header = {"w": entry("U8", [1], 0, 1)}
    assert load(by_hand(path, {**header, "__metadata__": {}}, b"\5")).w.tolist() == [5]
    assert safetensors.numpy.load_file(by_hand(path, {**header, "__metadata__": None}, b"\5"))["w"] == [5]
    assert load(path).w.tolist() == [5]


def test_a_dtype_that_is_not_known_is_refused_by_name(path):
    safetensors.torch.save_file({"a": torch.ones(2), "w": torch.ones(2).to(torch.float8_e8m0fnu)}, path)
    with pytest.raises(StorageError, match="field 'w': unknown dtype 'F8_E8M0'"):
        load(path)


def test_files_that_the_library_refuses_are_refused(path):
    one = entry("U8", [1], 0, 1)
    broken = [
        ({"a": one}, b""), ({"a": one}, b"12"), ({"a": one, "b": one}, b"1"),
        ({"a": one, "b": entry("U8", [1], 2, 3)}, b"123"), ({"a": entry("U8", [1], 1, 2)}, b"12"),
        ({"a": entry("U8", [2], 0, 1)}, b"1"), ({"a": entry("U8", [1], 1, 0)}, b"1"),
        ({"a": entry("XX", [1], 0, 1)}, b"1"), ({"a": entry("U8", [-1], 0, 1)}, b"1"),
        ({"a": entry("U8", [2**32, 2**32], 0, 0)}, b""), ({"a": entry("U8", None, 0, 1)}, b"1"), ({"a": {}}, b""),
        ({"__metadata__": []}, b""), ([], b""), (b"", b""), (b"\xff\xfe{\0}\0", b""),
    ]  # fmt: skip
    for header, data in broken:
        by_hand(path, header, data)
        with pytest.raises(safetensors.SafetensorError):
            safetensors.numpy.load_file(path)
        for mmap in (False, True):
            with pytest.raises(StorageError):
                load(path, mmap=mmap)


VARIABLE, ASCII, FIXED = h5py.string_dtype(), h5py.string_dtype("ascii"), h5py.string_dtype("utf-8", 6)
TEXTS: dict[str, tuple[Any, Any, Any]] = {
    "text": ("é\u4e00 \0 text", None, "é\u4e00 "),  # C ends a text at its first NUL
    "nothing": ("", None, ""),
    "bytes": (b"text", None, "text"),
    "list": (["a", "", "é"], None, ["a", "", "é"]),
    "matrix": (np.array([["a", "b"], ["c", "d"]], object), VARIABLE, [["a", "b"], ["c", "d"]]),
    "no rows": (np.zeros((0, 2), object), VARIABLE, []),
    "ascii": ([b"a", "b"], ASCII, ["a", "b"]),
    "of a fixed size": (np.array(["é".encode(), b"b"], FIXED), None, ["é", "b"]),
    "Latin-1": (np.array([b"\xe9"], object), VARIABLE, ["\udce9"]),
    "empty": (h5py.Empty(VARIABLE), None, None),
    "empty numbers": (h5py.Empty("f8"), None, None),
}


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("way", ["path", "file", "member"])
@pytest.mark.parametrize("name", TEXTS)
def test_texts_in_members_of_h5py(name, way, compression, tmp_path):
    data, dtype, expected = TEXTS[name]
    is_array = isinstance(expected, list) and expected
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if isinstance(data, str) and "\0" in data:
            data = data.split("\0")[0]
        group = file.create_group("inner")
        group.create_dataset("text", data=data, dtype=dtype, compression=compression if is_array else None)
        group["text"].attrs.update({"time": "at noon", "shape": ["a", "b"], "dtype": 5})  # words that our files use
        group["obs"] = np.arange(3)
    if way == "path":
        inner = from_hdf5(tmp_path / "a.h5")["inner"]
    else:
        with h5py.File(tmp_path / "a.h5") as file:
            inner = (
                from_hdf5(file)["inner"]
                if way == "file"
                else {name: from_hdf5(file["inner"][name]) for name in ("text", "obs")}
            )
    assert inner["obs"].tolist() == [0, 1, 2]
    text = inner["text"]
    assert (text.tolist() if isinstance(expected, list) else text) == expected
    if isinstance(expected, list):
        assert text.dtype == object
        assert text.shape == np.shape(data)
        assert all(type(one) is str for one in text.ravel())


@pytest.mark.parametrize("way", ["path", "file"])
def test_texts_in_attributes_of_h5py(way, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["env"] = "CartPole"
        file.attrs["bytes"] = np.bytes_("v1")
        file.attrs["names"] = ["x", "é"]
        file.attrs.create("ascii", [[b"a"], [b"b"]], dtype=ASCII)
        file.attrs["seed"] = 3
        file["obs"] = np.arange(3)
    if way == "path":
        read = from_hdf5(tmp_path / "a.h5")
    else:
        with h5py.File(tmp_path / "a.h5") as file:
            read = from_hdf5(file)
    assert [read[name] for name in ("env", "bytes", "seed")] == ["CartPole", "v1", 3]
    assert [read[name].tolist() for name in ("names", "ascii", "obs")] == [["x", "é"], [["a"], ["b"]], [0, 1, 2]]
    batch = Batch(read)
    save(Batch(obs=batch.obs, names=np.array([*batch.names, None], object)), tmp_path / "b.h5")
    assert load(tmp_path / "b.h5").names.tolist() == ["x", "é", None]


def test_an_array_of_variable_length_is_refused_and_the_others_can_be_read(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("parts", (2,), h5py.vlen_dtype(np.int64))
        file["text"] = "a"
    with pytest.raises(StorageError, match=r"field 'parts': arrays of variable length, .* open the file with h5py"):
        from_hdf5(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert from_hdf5(file["text"]) == "a"
