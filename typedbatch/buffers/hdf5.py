"""HDF5 files of buffers: saving and loading."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from typedbatch._ops.conversion import require_device
from typedbatch._tree.kinds import Tree, new_tree
from typedbatch.batch import Batch
from typedbatch.buffers import restore, transfer
from typedbatch.buffers.columns import Plan, new_column
from typedbatch.buffers.state import State, state_of
from typedbatch.buffers.storage import FORMAT, VERSION, Memory
from typedbatch.errors import SchemaError, StorageError
from typedbatch.files._hdf5 import build_value, read_file, text_of, written
from typedbatch.files.hdf5 import to_hdf5
from typedbatch.files.regular import atomic_write

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer

F = TypeVar("F", bound="ReplayBuffer[Any, Any]")

_PARTS = ("rows", "numbers", "extras")


def save(state: State, path: str | os.PathLike[str], compression: str | None) -> None:
    """Write a buffer to a file; see :meth:`ReplayBuffer.save_hdf5`. Slots without rows are not written."""
    full = len(state.rings) == state.rings.size
    rows = state.columns if full else transfer.stored_rows(state, state.rings.stored())
    with atomic_write(path) as unfinished, written(unfinished) as file:
        # Bytes, as attributes of text in a damaged file can crash the HDF5 library.
        file.attrs["format"], file.attrs["version"] = np.bytes_(FORMAT), VERSION
        file.attrs["buffer"] = np.bytes_(json.dumps(state.description()))
        file.attrs["random"] = np.bytes_(json.dumps(state.rng.bit_generator.state))
        to_hdf5({"numbers": state.numbers(), "extras": state.storage.extras}, file)
        group = file.create_group("rows", track_order=True)
        group.attrs["__data_type__"] = np.bytes_("Batch")
        to_hdf5(rows, group, compression)


def load(cls: type[F], path: str | os.PathLike[str], device: Any, *, trusted: bool = False, **more: Any) -> F:
    """Load a buffer from a file; see :meth:`ReplayBuffer.load_hdf5`."""
    from typedbatch.bridges.tianshou import files as tianshou_files  # it imports buffers

    require_device(device)
    try:
        root = read_file(path, [*_PARTS, *tianshou_files.PARTS], trusted=trusted)
        if tianshou_files.MARK in root.members:
            return tianshou_files.load(cls, root, device, str(path), more)
        known = root.attributes
        if text_of(known.get("format")) != FORMAT or known.get("version") != VERSION:
            raise StorageError(f"{path} does not hold a buffer of version {VERSION}")
        described, random = (json.loads(known[name]) for name in ("buffer", "random"))
        read = {name: build_value(root.members[name], device) for name in _PARTS}
        buffer = _buffer(cls, described, read, str(path), more)
        state_of(buffer).rng.bit_generator.state = random
    except SchemaError:
        raise
    except StorageError as error:
        raise error if str(path) in str(error) else StorageError(f"{path} cannot be read: {error}") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    except Exception as error:  # damaged files cause errors of any class
        raise StorageError(f"{path} is damaged, or not an HDF5 file: {error}") from error
    return buffer


def _buffer(cls: type[F], described: Any, read: dict[str, Any], path: str, more: dict[str, Any]) -> F:
    """Return a buffer from the parts of a file."""
    rows: Tree = new_tree(Batch, dict(read["rows"].__dict__))
    storage = Memory()
    storage.extras = read["extras"]
    count = len(rows.__dict__.get("done", ()))

    def columns_for(size: int) -> Tree:
        columns: Tree = rows if count == size else new_column(rows, size, (count,), storage, ())
        return columns

    buffer = restore.restored(cls, described, columns_for, read["numbers"], storage, path, more)
    if len(buffer) != count:
        raise StorageError(f"{path} is damaged: {len(buffer)} rows are expected, got {count}")
    if count != buffer.maxsize:
        state, plan = state_of(buffer), Plan((count,))
        plan.add(state.columns.__dict__, rows.__dict__)
        plan.write(state.rings.stored())
    return buffer
