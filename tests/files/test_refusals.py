"""Refusals: data that cannot be stored, written or read raises an error that names it, and nothing changes."""

from __future__ import annotations

import os
import re
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from tests.files.helpers import ENDINGS, Evil, assert_same, cells, through_file
from typedbatch import Batch, MultiAgentBatch, SampleBatch
from typedbatch.buffers import ReplayBuffer
from typedbatch.errors import LeafError, SettingError, StorageError, StructureError
from typedbatch.files import load, save
from typedbatch.files.hdf5 import from_hdf5, to_hdf5
from typedbatch.sample_batches.compression import compress_column


@pytest.fixture(params=ENDINGS)
def path(request: Any, tmp_path: Any) -> Any:
    return tmp_path / f"batch{request.param}"


def looped() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def nested_tensor() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls it a prototype
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


NO_JSON = "cannot be written as JSON; leave the field out, or make it an array"
REFUSED: dict[str, tuple[Any, str]] = {
    "function": (print, "builtin_function_or_method " + NO_JSON),
    "set": ({1}, "set " + NO_JSON),
    "object": (object(), "object " + NO_JSON),
    "class": (Batch, "type " + NO_JSON),
    "bytes": (b"x", "bytes " + NO_JSON),
    "text of numpy": (np.str_("x"), "str_ " + NO_JSON),
    "distribution": (torch.distributions.Normal(0.0, 1.0), "Normal[] " + NO_JSON),
    "function in an array": (cells(1, print), "builtin_function_or_method " + NO_JSON),
    "tuple in an array": (cells(None, (1,)), "tuple " + NO_JSON),
    "array in an array": (cells(None, np.zeros(2)), "f64[2] " + NO_JSON),
    "batch in an array": (cells(None, Batch(a=1)), "Batch(a) " + NO_JSON),
    "complex number in an array": (cells(1j), "complex " + NO_JSON),
    "key that is not text": (cells([{1: 2}]), "dict " + NO_JSON),
    "list in itself": (
        cells(looped()),
        "the value is nested more than 100 deep, or contains itself; leave the field out",
    ),
    "number too long for JSON": (cells(10**5000), "int " + NO_JSON),
    "long double in an array": (cells(np.longdouble(1)), ""),
    "text of surrogate pairs": (cells("\ud83d\ude00"), "text with surrogate pairs"),
    "name of surrogate pairs": (cells([{"\ud83d\ude00": 1}]), "text with surrogate pairs"),
    "compressed column": (
        compress_column(np.zeros((2, 3)), bulk=True),
        "a compressed column cannot be stored; call decompress_if_needed() first",
    ),
    "nested tensor": (nested_tensor(), "nested torch f32 cannot be written: "),
    "text of numpy's own": (
        np.array(["a"], np.dtypes.StringDType()),
        "StringDType()[1] has a dtype that files cannot store",
    ),
    "sparse tensor": (torch.eye(2).to_sparse(), "torch f32[2,2] cannot be written: "),
    "tensor without data": (torch.zeros(2, device="meta"), "torch f32[2] cannot be written: "),
    "dtype that files lack": (torch.ones(2).to(torch.float8_e8m0fnu), "torch float8_e8m0fnu[2] cannot be written: "),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_kept_is_refused_by_name(what, path):
    value, reason = REFUSED[what]
    save(Batch(a=1), path)
    before = path.read_bytes()
    with pytest.raises(StorageError) as caught:
        save(Batch({"fine": 1, "outer": {"in/ner": {"it": value}}}), path)
    assert caught.value.path == "outer.in/ner.it"
    assert str(caught.value).startswith(f"field 'outer.in/ner.it': {reason}")
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("value", [np.ones(2, np.longdouble), np.zeros(2, "i4,f4")], ids=["long doubles", "records"])
def test_an_array_that_is_refused_is_not_told_to_become_one(value, tmp_path):
    with pytest.raises(StorageError, match="field 'a'") as caught:
        save(Batch(a=value), tmp_path / "a.safetensors")
    assert "make it an array" not in str(caught.value)


def test_a_scalar_that_is_refused_is_named(tmp_path):
    batch = Batch(a=1)
    batch.__dict__["s"] = np.longdouble(1)
    with pytest.raises(StorageError, match="field 's'"):
        save(batch, tmp_path / "a.safetensors")


def test_a_batch_that_holds_itself_is_refused(path):
    batch = Batch(a=1)
    batch.me = Batch(deep=batch)
    with pytest.raises(StructureError, match="does a batch hold itself") as caught:
        save(batch, path)
    assert len(str(caught.value)) < 1000
    assert list(path.parent.iterdir()) == []


def nested(depth: int) -> Batch:
    batch = inner = Batch()
    for _ in range(depth):
        inner.__dict__["a"] = inner = Batch()
    return batch


def test_a_batch_within_a_hundred_others_is_kept_and_a_deeper_one_refused(path):
    save(nested(100), path)
    assert load(path) == nested(100)
    with pytest.raises(StructureError, match=r"^field 'a\.a\..*\.\.\..*\.a': nested more than 100 deep; does a batch"):
        save(nested(101), path)


def test_a_group_takes_batches_and_dicts_within_a_hundred_others(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(StructureError, match="nested more than 100 deep"):
            to_hdf5({"x": nested(100)}, file)
        assert list(file) == []
        to_hdf5({"x": nested(99)}, file)


@pytest.mark.parametrize("value", [{"a": 1}, None, np.ones(2), [Batch(a=1)], Batch], ids=repr)
def test_what_is_no_batch_is_refused(value, path):
    with pytest.raises(LeafError, match=r"save\(\) takes a Batch, got "):
        save(value, path)
    assert list(path.parent.iterdir()) == []


def changed_policies() -> MultiAgentBatch:
    batch = MultiAgentBatch({"p": SampleBatch(obs=np.arange(5))}, 3)
    batch.policy_batches["p"] = SampleBatch(obs=np.arange(1))
    return batch


def uneven_policies() -> MultiAgentBatch:
    batch = MultiAgentBatch({"p": SampleBatch(obs=np.arange(5))}, 3)
    batch.policy_batches["p"].act = np.arange(2)
    return batch


@pytest.mark.parametrize("make", [changed_policies, uneven_policies])
def test_what_could_not_be_loaded_is_not_saved(make, path):
    try:
        save(make(), path)
    except StorageError:
        return
    load(path)


def test_pickles_are_written_and_read_only_if_both_sides_allow_it(tmp_path):
    path, marker = tmp_path / "a.safetensors", tmp_path / "executed"
    batch = Batch(a=np.arange(2), deep=Batch(evil=Evil(marker), s={1, 2}))
    with pytest.raises(StorageError, match=r"field 'deep.evil': Evil .*; or pickle it with allow_pickle=True"):
        save(batch, path)
    save(batch, path, allow_pickle=True)
    reason = (
        rf"{re.escape(str(path))} cannot be read: field 'deep.evil': it is a pickle, which could execute anything; "
    )
    for arguments in ({}, {"mmap": True}, {"device": "cpu"}):
        with pytest.raises(StorageError, match=reason + r"use load\(..., allow_pickle=True\) if you trust the file"):
            load(path, **arguments)
    assert not marker.exists()
    assert load(path, allow_pickle=True).deep.s == {1, 2}
    assert marker.is_dir()


def test_what_needs_no_pickle_is_none(tmp_path):
    batch = Batch(a=np.arange(2), t=torch.ones(2), o=cells([1], None), text="x", none=None, date=np.zeros(2, "M8[s]"))
    save(batch, tmp_path / "a.safetensors", allow_pickle=True)
    assert_same(load(tmp_path / "a.safetensors"), batch)


@pytest.mark.parametrize("value", [{1}, b"x", cells((1,), {2}), np.ones(2, np.longdouble), np.zeros(2, "i4,f4"), print])
def test_pickles_come_back(value):
    read = through_file(Batch(it=value), ".safetensors", allow_pickle=True).it
    assert type(read) is type(value)
    assert repr(read) == repr(value)


PICKLED = [cells(10**5000), cells(np.longdouble(1)), cells(np.float32(1), {1})]
NO_PICKLES = [lambda: 1, threading.Lock(), (one for one in "a")]


@pytest.mark.parametrize("value", PICKLED, ids=["long", "long double", "float"])
def test_what_json_cannot_hold_is_pickled(value):
    read = through_file(Batch(it=value), ".safetensors", allow_pickle=True).it
    assert [type(cell) for cell in read] == [type(cell) for cell in value]
    assert read.tolist() == value.tolist()


@pytest.mark.parametrize("value", NO_PICKLES, ids=["lambda", "lock", "generator"])
def test_what_cannot_be_pickled_is_refused_by_name(value, tmp_path):
    with pytest.raises(StorageError, match=r"field 'deep.it': \w+ cannot be written: "):
        save(Batch(deep=Batch(it=value)), tmp_path / "a.safetensors", allow_pickle=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "a.npz", "a.H5", "a.safetensors.gz", "", ".", ".h5", "a.pt", "a.h5x"])
def test_another_ending_is_refused(name, tmp_path):
    path = f"{tmp_path}/{name}"
    for refused in (partial(save, Batch(a=1), path), partial(load, path), partial(load, Path(path))):
        with pytest.raises(SettingError, match=r"the file name must end in .safetensors, .h5 or .hdf5, got "):
            refused()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there_is_refused(path):
    for name in (path, path.parent / "no" / path.name):
        with pytest.raises(StorageError, match=rf"{re.escape(str(name))} cannot be read: .*No such file") as caught:
            load(name)
        assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert list(path.parent.iterdir()) == []


def test_a_folder_is_refused(path):
    path.mkdir()
    with pytest.raises(StorageError, match=rf"{re.escape(str(path))} cannot be read: (?s:.*)Is a directory"):
        load(path)
    with pytest.raises(StorageError, match=rf"{re.escape(str(path))} cannot be written: it is not a regular file"):
        save(Batch(a=1), path)
    assert os.listdir(path.parent) == [path.name]


OPENED: dict[str, Any] = {
    "load": load,
    "load mapped": lambda path: load(path, mmap=path.suffix == ".safetensors"),
    "load trusted": lambda path: load(path, trusted=path.suffix == ".h5"),
    "load_hdf5": ReplayBuffer.load_hdf5,
    "load_hdf5 trusted": partial(ReplayBuffer.load_hdf5, trusted=True),
    "from_hdf5": from_hdf5,
}


@pytest.mark.parametrize("how", OPENED)
def test_a_pipe_is_refused_and_nobody_waits_for_its_other_end(how, path):
    os.mkfifo(path)
    with pytest.raises(StorageError, match=rf"^{re.escape(str(path))} is not a regular file$"):
        OPENED[how](path)


@pytest.mark.parametrize("how", OPENED)
def test_a_device_is_refused(how, path):
    path.symlink_to("/dev/zero")
    with pytest.raises(StorageError, match=rf"^{re.escape(str(path))} is not a regular file$"):
        OPENED[how](path)


@pytest.mark.parametrize("how", ["load", "load trusted"])
def test_a_link_to_a_file_is_read(how, path):
    save(Batch(a=1), path)
    link = path.with_name(f"link{path.suffix}")
    link.symlink_to(path)
    assert OPENED[how](link).a == 1


def test_a_folder_that_is_not_there_is_not_made(path):
    with pytest.raises(StorageError, match=r"no/batch.* cannot be written: .*No such file or directory"):
        save(Batch(a=1), path.parent / "no" / path.name)
    assert list(path.parent.iterdir()) == []


def test_a_path_with_a_nul_is_refused_and_no_other_file_is_touched(path):
    save(Batch(a=1), path)
    odd, new = f"{path}\0{path.suffix}", f"{path}x\0{path.suffix}"
    for refused in (partial(load, odd), partial(save, Batch(a=2), odd), partial(save, Batch(a=2), new)):
        with pytest.raises(SettingError, match="a path cannot contain a NUL character"):
            refused()
    assert os.listdir(path.parent) == [path.name]


def test_a_name_as_long_as_the_file_system_takes_is_written(path):
    path = path.with_name("n" * (255 - len(path.suffix)) + path.suffix)
    save(Batch(a=1), path)
    assert load(path).a == 1


def test_arguments_of_the_other_format_are_refused(tmp_path):
    batch = Batch(a=1)
    with pytest.raises(SettingError, match="compression= is for HDF5 files; safetensors files are never compressed"):
        save(batch, tmp_path / "a.safetensors", compression="gzip")
    with pytest.raises(SettingError, match="allow_pickle= is for safetensors files; HDF5 files hold no pickles"):
        save(batch, tmp_path / "a.h5", allow_pickle=True)
    with pytest.raises(SettingError, match="mmap= and allow_pickle= are for safetensors files"):
        load(tmp_path / "a.h5", allow_pickle=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compression", ["zip", "", 5, True])
@pytest.mark.parametrize("batch", [Batch(), Batch(a=np.ones(2))], ids=["empty", "array"])
def test_an_unknown_compression_is_a_wrong_setting(compression, batch, tmp_path):
    with pytest.raises(SettingError, match="compression"):
        save(batch, tmp_path / "a.h5", compression=compression)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_there_is_not_is_not_called_damage(device, path):
    save(Batch(a=np.ones(2), t=torch.ones(2)), path)
    with pytest.raises(Exception, match=r"(?i)cuda|device") as caught:
        load(path, device=device)
    assert "damaged" not in str(caught.value)


def test_a_name_that_json_would_change_is_refused(path):
    with pytest.raises(StorageError):
        save(Batch({"\ud83d\ude00": np.arange(1), "\U0001f600": np.arange(2)}), path)
    assert list(path.parent.iterdir()) == []
