"""Buffers in HDF5 files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from typedbatch._ops.conversion import require_device
from typedbatch._tree.leaves import Tree, new_tree
from typedbatch.batch import Batch
from typedbatch.buffers import bulk, restore, tianshou_file
from typedbatch.buffers.columns import Plan, new_column
from typedbatch.buffers.state import State, state_of
from typedbatch.buffers.storage import FORMAT, VERSION, Memory
from typedbatch.errors import SchemaError, StorageError
from typedbatch.files._hdf5.build import built
from typedbatch.files._hdf5.nodes import text_of
from typedbatch.files._hdf5.process import read_file
from typedbatch.files._hdf5.target import written
from typedbatch.files.atomic import replacing
from typedbatch.files.hdf5 import to_hdf5
from typedbatch.files.regular import is_from_system

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer

F = TypeVar("F", bound="ReplayBuffer[Any, Any]")

_PARTS = ("rows", "numbers", "extras")


def save(state: State, path: str | os.PathLike[str], compression: str | None) -> None:
    """Write a buffer; see :meth:`ReplayBuffer.save_hdf5`. Rows that are not stored yet take no room."""
    full = len(state.rings) == state.rings.size
    rows = state.columns if full else bulk.stored_rows(state, state.rings.stored())
    with replacing(path) as unfinished, written(unfinished) as file:
        # bytes do not crash HDF5 in a damaged file, as text does
        file.attrs["format"], file.attrs["version"] = np.bytes_(FORMAT), VERSION
        file.attrs["buffer"] = np.bytes_(json.dumps(state.description()))
        file.attrs["random"] = np.bytes_(json.dumps(state.rng.bit_generator.state))
        to_hdf5({"numbers": state.numbers(), "extras": state.storage.extras}, file)
        group = file.create_group("rows", track_order=True)
        group.attrs["__data_type__"] = np.bytes_("Batch")
        to_hdf5(rows, group, compression)


def load(cls: type[F], path: str | os.PathLike[str], device: Any, *, trusted: bool = False, **more: Any) -> F:
    """A buffer from a file; see :meth:`ReplayBuffer.load_hdf5`."""
    require_device(device)
    try:
        root = read_file(path, [*_PARTS, *tianshou_file.PARTS], trusted=trusted)
        if tianshou_file.MARK in root.members:
            return tianshou_file.load(cls, root, device, str(path), more)
        known = root.attributes
        if text_of(known.get("format")) != FORMAT or known.get("version") != VERSION:
            raise StorageError(f"{path} holds no buffer of version {VERSION}")
        described, random = (json.loads(known[name]) for name in ("buffer", "random"))
        read = {name: built(root.members[name], device) for name in _PARTS}
        buffer = _buffer(cls, described, read, str(path), more)
        state_of(buffer).rng.bit_generator.state = random
    except SchemaError:
        raise
    except StorageError as error:
        raise error if str(path) in str(error) else StorageError(f"{path} cannot be read: {error}") from error
    except OSError as error:
        if not is_from_system(error):
            raise
        raise StorageError(f"{path} cannot be read: {error}") from error
    except Exception as error:  # whatever it is, what was read is the reason for it
        raise StorageError(f"{path} is damaged, or no HDF5 file: {error}") from error
    return buffer


def _buffer(cls: type[F], described: Any, read: dict[str, Any], path: str, more: dict[str, Any]) -> F:
    rows: Tree = new_tree(Batch, dict(read["rows"].__dict__))
    storage = Memory()
    storage.extras = read["extras"]
    kept = len(rows.__dict__.get("done", ()))

    def columns(size: int) -> Tree:
        room: Tree = rows if kept == size else new_column(rows, size, (kept,), storage, ())
        return room

    buffer = restore.restored(cls, described, columns, read["numbers"], storage, path, more)
    if len(buffer) != kept:
        raise StorageError(f"{path} is damaged: {kept} rows, where {len(buffer)} are expected")
    if kept != buffer.maxsize:
        state, plan = state_of(buffer), Plan((kept,))
        plan.add(state.columns.__dict__, rows.__dict__)
        plan.write(state.rings.stored())
    return buffer
