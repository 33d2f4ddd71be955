"""A buffer as data, and a buffer made of data that anybody may have written to: nothing in it is trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._tree.leaves import Tree, describe, is_reserved, leading_shape
from typedbatch._tree.rows import leaves
from typedbatch.buffers.declared import library_class
from typedbatch.buffers.disk import Disk, Layout
from typedbatch.buffers.incoming import REQUIRED
from typedbatch.buffers.reader import Reader
from typedbatch.buffers.settings import MOST_SLOTS
from typedbatch.buffers.state import state_of
from typedbatch.buffers.storage import Memory
from typedbatch.errors import SchemaError, SettingError, StorageError, TypedBatchError
from typedbatch.files.regular import is_from_system

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer

F = TypeVar("F", bound="ReplayBuffer[Any, Any]")

_TRIES = 20


def make_empty(cls: type[F], arguments: dict[str, Any]) -> F:
    """An empty buffer from what describes it; the constructor of a user's class is not called."""
    if "main_buffer" in arguments:
        from typedbatch.buffers.replay import ReplayBuffer

        arguments = {**arguments, "main_buffer": ReplayBuffer[Any, Any](**arguments["main_buffer"])}
    out = cls.__new__(cls)
    library_class(cls).__init__(out, **arguments)
    return out


def restored(
    cls: type[F],
    described: Any,
    columns_for: Callable[[int], Tree],
    numbers: NDArray[np.float64],
    storage: Memory,
    where: str,
    more: dict[str, Any],
) -> F:
    """A buffer from its description, its columns for so many slots, and its positions.

    Args:
        cls: the class that is asked for.
        described: what ``description`` gave.
        columns_for: makes the columns.
        numbers: the positions.
        storage: where the columns are.
        where: what an error names.
        more: what the constructor takes beside what is described.

    Raises:
        StorageError: they are of another class, or do not fit together.
        SchemaError: the class is declared to hold something else.
    """
    kind = library_class(cls).__name__
    try:
        if described["class"] != kind:
            raise StorageError(f"it holds a {described['class']}, not a {kind}")
        arguments = described["arguments"]
        rings = [n for name, n in _items(arguments) if name.endswith("buffer_num")]
        huge = any(type(n) is int and n > MOST_SLOTS for _, n in _items(arguments))
        if huge or any(n > numbers.size for n in rings) or any(name == "path" for name, _ in _items(arguments)):
            raise StorageError("arguments that no buffer was made with")
        sizes = [n for name, n in _items(arguments) if name in ("size", "total_size")]
        if "Prioritized" in kind and not storage.extras["priorities"].size >= max(sizes):
            raise StorageError("a priority for each slot is expected")
        buffer = make_empty(cls, {**arguments, **more})
        state = state_of(buffer)
        state.storage = storage
        state.columns = columns_for(state.rings.size)
        if state.columns.__dict__:
            _require_columns(state.columns, state.rings.size)
        state.restore(numbers)
        if len(state.rings) and not state.columns.__dict__:
            raise StorageError("rows, and no columns")
        state.share_columns()
        if isinstance(storage, Disk) and not storage.folder.write:
            state.guard.reader = Reader(state, storage)
        else:
            state.on_reopened()
        if state.columns.__dict__:
            state.declaration().validate_sampled(state.rows(np.arange(0)))
    except SchemaError:  # it is a buffer, and holds something else
        raise
    except Exception as error:  # whatever it is, what was read is the reason for it
        if isinstance(error, OSError) and not is_from_system(error):
            raise
        reason = str(error) if isinstance(error, TypedBatchError) else f"{type(error).__name__}: {error}"
        raise StorageError(f"{where} is damaged, or no buffer of this class: {reason}") from error
    return buffer


def open_folder(cls: type[F], path: str | os.PathLike[str], mode: str, **more: Any) -> F:
    """The buffer in a folder; see :meth:`ReplayBuffer.open`."""
    if mode not in ("r", "r+"):
        raise SettingError(f"mode= is 'r', to read, or 'r+', to write too; got {mode!r}")
    for last in (False,) * _TRIES + (True,):
        disk, layout = Disk.open(path, write=mode == "r+")
        try:
            return _on_disk(cls, disk, layout, more)
        except BaseException as error:
            disk.close()
            if not isinstance(error, StorageError) or last or mode == "r+" or not disk.overwritten(layout.step):
                raise  # else the process that writes has changed it meanwhile
    raise AssertionError("the last turn returns or raises")


def _on_disk(cls: type[F], disk: Disk, layout: Layout, more: dict[str, Any]) -> F:
    return restored(cls, layout.buffer, lambda _: layout.columns, layout.numbers, disk, str(disk.folder.path), more)


def _items(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in arguments.items():
        yield name, value
        if isinstance(value, dict):
            yield from _items(value)


def _require_columns(columns: Tree, size: int) -> None:
    for path, leaf in leaves(columns.__dict__):
        if not is_reserved(leaf) and leading_shape(leaf)[:1] != (size,):
            raise StorageError(f"{path} is {describe(leaf)}, not a column of {size} slots")
    if missing := [name for name in (*REQUIRED, "done") if name not in columns.__dict__]:
        raise StorageError(f"no column for {', '.join(missing)}")
    for name in ("terminated", "truncated", "done"):
        flags = np.asarray(leaf_to_numpy(columns.__dict__[name]))
        if flags.dtype != bool or flags.shape != (size,):
            raise StorageError(f"{name} is {describe(flags)}, not a flag for each of {size} slots")
    rew = np.asarray(leaf_to_numpy(columns.__dict__["rew"]))
    if rew.dtype.kind != "f" or rew.shape[:1] != (size,):
        raise StorageError(f"rew is {describe(rew)}, not floating")
