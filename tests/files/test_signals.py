"""An error of a signal handler comes out of whatever was going on as it is, and is not taken for one of the file."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest

import typedbatch
from typedbatch import Batch
from typedbatch.buffers import ReplayBuffer
from typedbatch.cli.arguments import read
from typedbatch.files import load, save
from typedbatch.files.hdf5 import from_hdf5, to_hdf5

PACKAGE = os.path.dirname(typedbatch.__file__)


def buffer(path: Any = None) -> ReplayBuffer:
    made = ReplayBuffer(3, path=path)
    made.add(Batch(obs=np.ones(2), act=0, rew=1.0, terminated=False, truncated=False))
    return made


def files(folder: Any) -> None:
    """One file of each sort, and a buffer's folder."""
    save(Batch(a=np.ones(3), b=Batch(c="text")), folder / "a.safetensors")
    save(Batch(a=np.ones(3), b=Batch(c="text")), folder / "a.h5")
    shutil.copy(folder / "a.h5", folder / "copy.h5")
    np.savez(folder / "a.npz", a=np.ones(3))
    write_group(folder)
    buffer().save_hdf5(folder / "buffer.h5")
    shutil.copy(folder / "buffer.h5", folder / "copy of buffer.h5")
    buffer(folder / "buffer").close()


def write_group(folder: Any) -> None:
    with h5py.File(folder / "group.h5", "w") as file:
        to_hdf5({"a": np.ones(3), "b": {"c": "text"}}, file)


CALLS: dict[str, Callable[[Any], Any]] = {
    "save": lambda folder: save(Batch(a=np.ones(3), b="text"), folder / "b.safetensors"),
    "save as hdf5": lambda folder: save(Batch(a=np.ones(3), b="text"), folder / "b.h5"),
    "load": lambda folder: load(folder / "a.safetensors"),
    "load mapped": lambda folder: load(folder / "a.safetensors", mmap=True),
    "load hdf5": lambda folder: load(folder / "copy.h5"),
    "load hdf5 here": lambda folder: load(folder / "a.h5"),
    "to_hdf5": write_group,
    "from_hdf5": lambda folder: from_hdf5(folder / "group.h5"),
    "save a buffer": lambda folder: buffer().save_hdf5(folder / "c.h5"),
    "load a buffer": lambda folder: ReplayBuffer.load_hdf5(folder / "copy of buffer.h5"),
    "load a buffer here": lambda folder: ReplayBuffer.load_hdf5(folder / "buffer.h5"),
    "make a folder": lambda folder: buffer(folder / "new").close(),
    "open a folder": lambda folder: ReplayBuffer.open(folder / "buffer").close(),
    "read a folder": lambda folder: len(ReplayBuffer.open(folder / "buffer", "r")),
    "the command": lambda folder: read(folder / "a.npz", False),
}


MOMENTS: dict[str, list[str]] = {
    "save": ["atomic_write", "write"],
    "save as hdf5": ["write_file", "_write_array", "plain"],
    "load": ["_open_without_waiting", "require_regular", "_document", "_entries", "_batch", "value"],
    "load mapped": ["_entries", "aligned"],
    "load hdf5": ["open_regular", "_ask", "_group", "build_value", "_leaf"],
    "load hdf5 here": ["open_regular", "is_own", "read_group", "read_dataset", "_require_readable", "_leaf"],
    "to_hdf5": ["_write_array", "plain"],
    "from_hdf5": ["open_regular", "_ask", "_group", "build_value", "_leaf"],
    "save a buffer": ["atomic_write", "description", "to_hdf5", "_write_array"],
    "load a buffer": ["_ask", "build_value", "make_empty", "_require_columns", "restore"],
    "load a buffer here": ["read_group", "read_dataset"],
    "make a folder": ["require_no_link", "lock", "_take", "create_array", "reserve", "_lay_out", "replace"],
    "open a folder": ["require_no_link", "identity", "_take", "description", "_map_column", "opened", "reserve"],
    "read a folder": ["description", "_map_column", "array", "positions", "restored", "_require_columns"],
    "the command": ["_open_without_waiting", "_content"],
}
"""The functions that are entered when the signal comes."""


@pytest.mark.parametrize(("what", "moment"), [(what, moment) for what, names in MOMENTS.items() for moment in names])
def test_the_error_of_a_handler_comes_out_as_it_is(what, moment, tmp_path):
    def handler(*_: Any) -> None:
        raise error

    def trace(frame: Any, event: str, _: Any) -> None:
        if frame.f_code.co_name == moment and frame.f_code.co_filename.startswith(PACKAGE):
            sys.settrace(None)
            signal.raise_signal(signal.SIGUSR1)

    files(tmp_path)
    error, before = TimeoutError("the handler's own"), signal.signal(signal.SIGUSR1, handler)
    try:
        sys.settrace(trace)
        with pytest.raises(TimeoutError) as caught:
            CALLS[what](tmp_path)
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGUSR1, before)
    assert caught.value is error
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".new")]


def test_an_error_of_the_operating_system_is_one_of_the_file(tmp_path):
    with pytest.raises(typedbatch.errors.StorageError, match="cannot be read"):
        load(tmp_path / "not there.safetensors")
