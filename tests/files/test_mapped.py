"""``mmap=True``: arrays that stay in the file until they are looked at."""

from __future__ import annotations

import gc
import os
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.files.helpers import by_hand, cells, entry
from tests.strategies import numpy_batches
from typedbatch import Batch, SampleBatch
from typedbatch.errors import SettingError, StorageError
from typedbatch.files import load, save


@pytest.fixture
def path(tmp_path: Any) -> Any:
    return tmp_path / "batch.safetensors"


def under(array: Any) -> list[type]:
    """The classes of what an array is a view of."""
    found = []
    while array is not None:
        found.append(type(array))
        array = getattr(array, "base", None)
    return found


def mapped_addresses(path: Any) -> list[tuple[int, int]]:
    """Where the file is mapped into the memory of this process, as Linux says."""
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps if line.rstrip().endswith(str(path))]
    return [(int(begin, 16), int(end, 16)) for begin, end in (line[0].split("-") for line in lines)]


def is_mapped(address: int, path: Any) -> bool:
    return any(begin <= address < end for begin, end in mapped_addresses(path))


EVERY = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[D]"]


@pytest.mark.parametrize("dtype", EVERY)
def test_arrays_are_views_of_the_file(dtype, path):
    batch = Batch(odd=np.ones(3, bool), a=np.ones((3, 5), dtype), scalar=np.ones((), dtype))
    save(batch, path)
    read = load(path, mmap=True)
    for name in ("a", "scalar"):
        assert type(read[name]) is np.ndarray
        assert np.memmap in under(read[name])
        assert is_mapped(read[name].ctypes.data, path)
        assert read[name].tolist() == batch[name].tolist()
    assert np.memmap not in under(load(path).a)


TENSORS = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64]
TENSORS += [torch.float8_e5m2, torch.complex128]


@pytest.mark.parametrize("dtype", TENSORS, ids=str)
def test_tensors_are_views_of_the_file(dtype, path):
    save(Batch(odd=np.ones(3, bool), t=torch.ones(3, 5).to(dtype)), path)
    read = load(path, mmap=True).t
    assert read.dtype == dtype
    assert is_mapped(read.data_ptr(), path)
    assert read.to(torch.complex64).tolist() == torch.ones(3, 5).tolist()


def test_the_memory_of_large_arrays_is_not_taken(path):
    save(Batch(a=np.zeros(4_000_000), t=torch.zeros(2_000_000)), path)
    tracemalloc.start()
    read = load(path, mmap=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert read.a[-1] == read.t[-1] == 0


def test_what_is_written_into_them_stays_in_memory(path):
    save(Batch(a=np.zeros(3), t=torch.zeros(3), d=np.zeros(3, "M8[s]")), path)
    before = path.read_bytes()
    read, other = load(path, mmap=True), load(path, mmap=True)
    read.a[:], read.t[:], read.d[:] = 1, 2, np.datetime64("2020", "s")
    assert read.a.tolist() == [1, 1, 1]
    assert read.t.tolist() == [2, 2, 2]
    del read
    gc.collect()
    assert path.read_bytes() == before
    assert other.a.tolist() == other.t.tolist() == [0, 0, 0]
    assert load(path, mmap=True).a.tolist() == [0, 0, 0]


def test_a_file_that_may_not_be_written_is_mapped(path):
    save(Batch(a=np.zeros(3)), path)
    path.chmod(0o444)
    read = load(path, mmap=True)
    read.a[0] = 1
    assert load(path).a[0] == 0


@given(numpy_batches(dtypes=("?", "i1", "u2", "f2", "f4", "i8", "c8", "c16")), st.integers(0, 9))
def test_every_array_is_aligned(tmp_path_factory, batch, length):
    batch["x" * length] = np.ones(length, "u1")  # headers of all lengths
    path = tmp_path_factory.mktemp("aligned") / "a.safetensors"
    save(batch, path)
    read = load(path, mmap=True)
    assert read == batch
    for one in read.__dict__.values():
        assert isinstance(one, Batch) or one.flags.aligned


def test_arrays_of_others_that_are_not_aligned_are_read_all_the_same(path):
    data = b"\1" + np.arange(4, dtype="<i4").tobytes() + np.array([1.5, 2.5], "<f4").tobytes()
    header = {"b": entry("BF16", [8], 1, 17), "o": entry("U8", [1], 0, 1), "f": entry("F32", [2], 17, 25)}
    for spaces in range(4):
        text = str(header).replace("'", '"').encode() + b" " * spaces
        read = load(by_hand(path, text, data), mmap=True)
        assert read.f.tolist() == [1.5, 2.5]
        assert read.b.view(torch.int16).tolist() == [0, 0, 1, 0, 2, 0, 3, 0]
        read.f += 1
        read.b.add_(1)
        assert read.f.tolist() == [2.5, 3.5]
        assert (load(path).b == load(path, mmap=True).b).all()


def test_what_is_no_array_and_what_has_no_bytes_comes_back_too(path):
    batch = Batch(o=cells(None, [1]), text="é", none=None, empty=np.zeros((0, 3), "f4"), t=torch.zeros(0, 2), r=Batch())
    for whole in (batch, Batch(), Batch(empty=batch.empty), SampleBatch(text="a")):
        save(whole, path)
        read = load(path, mmap=True)
        assert type(read) is type(whole)
        assert read == whole


def test_another_byte_order_comes_back_and_the_file_stays(path):
    save(Batch(a=np.arange(3, dtype=">i4")), path)
    read = load(path, mmap=True).a
    read[0] = 7
    assert (read.dtype.str, read.tolist(), load(path).a.tolist()) == (">i4", [7, 1, 2], [0, 1, 2])


def test_a_batch_that_is_mapped_is_saved_over_its_own_file(path):
    save(Batch(a=np.arange(1000), t=torch.arange(10)), path)
    read = load(path, mmap=True)
    save(Batch(a=read.a + 1, t=read.t), path)
    save(read, path.with_suffix(".h5"))
    assert read.a[:3].tolist() == [0, 1, 2]
    save(read, path)
    assert load(path) == read == load(path.with_suffix(".h5"))


def test_a_file_that_is_gone_stays_mapped(path):
    save(Batch(a=np.arange(3)), path)
    read = load(path, mmap=True)
    path.unlink()
    assert read.a.tolist() == [0, 1, 2]


def test_no_file_stays_open(path):
    save(Batch(a=np.arange(3)), path)
    before = len(os.listdir("/proc/self/fd"))
    read = [load(path) for _ in range(5)]
    assert len(os.listdir("/proc/self/fd")) == before
    mapped = load(path, mmap=True)
    del mapped, read
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    assert not mapped_addresses(path)


def test_a_header_that_is_damaged_is_refused_though_data_are_not_read(path):
    save(Batch(a=np.arange(3)), path)
    whole = bytearray(path.read_bytes())
    for place, reads in ((20, False), (len(whole) - 1, True)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(bytes(damaged))
        if reads:
            assert load(path, mmap=True).a[2] != 2
        else:
            with pytest.raises(StorageError):
                load(path, mmap=True)
        with pytest.raises(StorageError):
            load(path)


@pytest.mark.parametrize("name", ["a.h5", "a.hdf5", "missing.h5"])
def test_hdf5_files_are_not_mapped(name, tmp_path):
    save(Batch(a=np.arange(3)), tmp_path / "a.h5")
    save(Batch(a=np.arange(3)), tmp_path / "a.hdf5")
    with pytest.raises(SettingError, match="mmap= and allow_pickle= are for safetensors files"):
        load(tmp_path / name, mmap=True)
