"""Files of buffers: HDF5 files are saved and loaded, and folders opened. Their contents are not trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import Tree, describe, is_placeholder, leading_shape, new_tree
from typedbatch._core.lengths import leaves
from typedbatch._ops.conversion import leaf_to_numpy, require_device
from typedbatch.batch import Batch
from typedbatch.buffers import transfer
from typedbatch.buffers.arguments import FLAGS, MOST_SLOTS
from typedbatch.buffers.columns import Plan, new_column
from typedbatch.buffers.declared import library_class
from typedbatch.buffers.guard import Reader
from typedbatch.buffers.incoming import REQUIRED
from typedbatch.buffers.state import State, state_of
from typedbatch.buffers.storage import FORMAT, VERSION, Disk, Memory
from typedbatch.errors import SchemaError, SettingError, StorageError, TypedBatchError
from typedbatch.files.regular import atomic_write

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer

F = TypeVar("F", bound="ReplayBuffer[Any, Any]")

_TRIES = 20
_PARTS = ("rows", "numbers", "extras")


def make_empty(cls: type[F], arguments: dict[str, Any]) -> F:
    """Return an empty buffer of a class; the constructor of a user's class is not called."""
    if "main_buffer" in arguments:
        from typedbatch.buffers.replay import ReplayBuffer

        arguments = {**arguments, "main_buffer": ReplayBuffer[Any, Any](**arguments["main_buffer"])}
    out = cls.__new__(cls)
    library_class(cls).__init__(out, **arguments)
    return out


def restored(
    cls: type[F],
    described: Any,
    columns: Tree | Callable[[int], Tree],
    numbers: NDArray[np.float64],
    storage: Memory,
    where: str,
    more: dict[str, Any],
) -> F:
    """Return a buffer that is restored from its description, columns and positions; ``more`` are other arguments."""
    kind = library_class(cls).__name__
    try:
        if described["class"] != kind:
            raise StorageError(f"a {kind} is expected, got a {described['class']}")
        arguments = described["arguments"]
        rings = [n for name, n in _items(arguments) if name.endswith("buffer_num")]
        huge = any(type(n) is int and n > MOST_SLOTS for _, n in _items(arguments))
        if huge or any(n > numbers.size for n in rings) or any(name == "path" for name, _ in _items(arguments)):
            raise StorageError("its description has arguments that no buffer takes")
        sizes = [n for name, n in _items(arguments) if name in ("size", "total_size")]
        if "Prioritized" in kind and not storage.extras["priorities"].size >= max(sizes):
            raise StorageError("one priority for each slot is expected, got fewer")
        buffer = make_empty(cls, {**arguments, **more})
        state = state_of(buffer)
        state.storage = storage
        state.columns = columns if isinstance(columns, Tree) else columns(state.rings.size)
        if state.columns.__dict__:
            _require_columns(state.columns, state.rings.size)
        state.restore(numbers)
        if len(state.rings) and not state.columns.__dict__:
            raise StorageError("a column for each field is expected, got rows without columns")
        state.share_columns()
        if isinstance(storage, Disk):
            storage.restore_random(state.rng)
        if isinstance(storage, Disk) and not storage.folder.write:
            state.guard.reader = Reader(state, storage)
        else:
            state.on_reopened()
        if state.columns.__dict__:
            state.declaration().validate_sampled(state.rows(np.arange(0)))
    except SchemaError:  # the buffer is intact, but of another type
        raise
    except Exception as error:  # damaged contents cause errors of any class
        reason = str(error) if isinstance(error, TypedBatchError) else f"{type(error).__name__}: {error}"
        raise StorageError(f"{where} is damaged, or not a buffer of this class: {reason}") from error
    return buffer


def open_folder(cls: type[F], path: str | os.PathLike[str], mode: str, **more: Any) -> F:
    """Open the buffer in a folder; see :meth:`ReplayBuffer.open`."""
    if mode not in ("r", "r+"):
        raise SettingError(f"mode= is 'r', to read, or 'r+', to write too; got {mode!r}")
    for last in (False,) * _TRIES + (True,):
        disk, layout = Disk.open(path, write=mode == "r+")
        try:
            where = str(disk.folder.path)
            return restored(cls, layout.buffer, layout.columns, layout.numbers, disk, where, more)
        except BaseException as error:
            disk.close()
            # Try again if another process has changed the folder in the meantime.
            if not isinstance(error, StorageError) or last or mode == "r+" or not disk.overwritten(layout.step):
                raise
    raise AssertionError("the last try returns or raises")


def add_priorities(cls: type[F], path: str | os.PathLike[str], arguments: dict[str, Any]) -> None:
    """Make the folder of a buffer one of the prioritized class ``cls``, unless it is one; its rows get a priority."""
    from typedbatch import buffers

    kind = library_class(cls).__name__
    disk, layout = Disk.open(path, write=True)
    disk.close()
    if isinstance(layout.buffer, dict) and layout.buffer.get("class") == kind:
        return
    state = state_of(open_folder(getattr(buffers, kind.removeprefix("Prioritized")), path, "r+"))
    try:
        prioritized: Any = state_of(make_empty(cls, {**state.arguments(), **arguments}))
        prioritized.storage, prioritized.rings = state.storage, state.rings
        prioritized.begin()
        state.storage.lay_out(prioritized.description(), state.columns, prioritized.numbers())
    finally:
        state.close()


def _items(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of arguments, including nested ones."""
    for name, value in arguments.items():
        yield name, value
        if isinstance(value, dict):
            yield from _items(value)


def _require_columns(columns: Tree, size: int) -> None:
    """Check that every column has ``size`` slots, and that those of required fields have the right dtypes."""
    for path, leaf in leaves(columns.__dict__):
        if not is_placeholder(leaf) and leading_shape(leaf)[:1] != (size,):
            raise StorageError(f"{path} must be a column of {size} slots, got {describe(leaf)}")
    if missing := [name for name in (*REQUIRED, "done") if name not in columns.__dict__]:
        raise StorageError(f"a column for each of {', '.join(missing)} is expected, got none")
    for name in FLAGS:
        flags = np.asarray(leaf_to_numpy(columns.__dict__[name]))
        if flags.dtype != bool or flags.shape != (size,):
            raise StorageError(f"{name} must be a bool for each of {size} slots, got {describe(flags)}")
    rew = np.asarray(leaf_to_numpy(columns.__dict__["rew"]))
    if rew.dtype.kind != "f" or rew.shape[:1] != (size,):
        raise StorageError(f"rew must be floating, with {size} slots, got {describe(rew)}")


def save_hdf5(state: State, path: str | os.PathLike[str], compression: str | None) -> None:
    """Write a buffer to a file; see :meth:`ReplayBuffer.save_hdf5`. Slots without rows are not written."""
    from typedbatch.files._hdf5 import written
    from typedbatch.files.hdf5 import to_hdf5

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


def load_hdf5(cls: type[F], path: str | os.PathLike[str], device: Any, *, trusted: bool = False, **more: Any) -> F:
    """Load a buffer from a file; see :meth:`ReplayBuffer.load_hdf5`."""
    from typedbatch.bridges.tianshou import files as tianshou_files  # it imports buffers
    from typedbatch.files._hdf5 import build_value, read_file, text_of

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
        buffer = _from_parts(cls, described, read, str(path), more)
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


def _from_parts(cls: type[F], described: Any, read: dict[str, Any], path: str, more: dict[str, Any]) -> F:
    """Return a buffer from the parts of a file."""
    rows: Tree = new_tree(Batch, dict(read["rows"].__dict__))
    storage = Memory()
    storage.extras = read["extras"]
    count = len(rows.__dict__.get("done", ()))

    def columns_for(size: int) -> Tree:
        columns: Tree = rows if count == size else new_column(rows, size, (count,), storage, ())
        return columns

    buffer = restored(cls, described, columns_for, read["numbers"], storage, path, more)
    if len(buffer) != count:
        raise StorageError(f"{path} is damaged: {len(buffer)} rows are expected, got {count}")
    if count != buffer.maxsize:
        state, plan = state_of(buffer), Plan((count,), [])
        plan.add(state.columns.__dict__, rows.__dict__)
        plan.write(state.rings.stored())
    return buffer
