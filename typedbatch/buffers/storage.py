"""Storage of the columns of a buffer: in memory, or on disk in a folder, which outlives the process.

A folder holds ``.npy`` files, one per column and one for the positions, and ``buffer.json``, which describes them. The
columns are mapped into memory, so they may be larger than it.

The positions are stored twice, each time with a step number, and the copy with the higher number is valid. A copy is
written before its number, so a process that is killed at any moment leaves one valid copy. Adding rows takes two such
steps: the first drops the rows that are about to be overwritten, and the second, after the columns are written, counts
the new rows. So half-written rows never count.

Both steps together raise the step number by twice the number of rows that are written to a ring; in between it is odd.
From the number, readers tell whether the rows that they have read were complete.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import BATCH, KINDS, TENSOR, Tree, new_tree
from typedbatch._ops.conversion import torch_side
from typedbatch.buffers.folder import DESCRIPTION, LOCK, RANDOM, Folder
from typedbatch.errors import StorageError

FORMAT = "typedbatch buffer"
VERSION = 1
_TRIES = 1000


class Memory:
    """Columns in memory. Pages that were never written to take no memory."""

    durable: bool = False

    def __init__(self) -> None:
        self.extras: dict[str, NDArray[np.float64]] = {}
        """Arrays with a number for each slot that are not columns, such as priorities."""

    def extra(self, name: str, size: int) -> NDArray[np.float64]:
        """Create an array of ``size`` zeros in :attr:`extras`, and return it."""
        self.extras[name] = np.zeros(size)
        return self.extras[name]

    def array(self, path: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a new column for the field at ``path``, filled with zeros, or with ``None`` for objects."""
        return np.full(shape, None, object) if dtype.hasobject else np.zeros(shape, dtype)

    def tensor(self, path: tuple[str, ...], shape: tuple[int, ...], like: Any) -> Any:
        """Return a new column of zeros with the dtype and device of the tensor ``like``."""
        return like.new_zeros(shape, requires_grad=False)

    def lay_out(self, buffer: dict[str, Any], columns: Tree, numbers: NDArray[np.float64]) -> None:
        """Store the description of the buffer, its set of columns, and its positions. Does nothing in memory."""

    def tidy(self) -> None:
        """Remove columns that a failed change has created since the last ``lay_out``. Does nothing in memory."""

    def commit(self, numbers: NDArray[np.float64], overwritten: int = 0, *, begun: bool = False) -> None:
        """Store the positions as one step. Does nothing in memory.

        Readers must count ``overwritten`` rows of a ring as overwritten; ``begun`` says that this lasts until the next
        step.
        """

    def store_random(self, random: Any) -> None:
        """Store the state of random numbers. Does nothing in memory."""

    def flush(self) -> None:
        """Wait until everything is on the disk. Does nothing in memory."""

    def close(self) -> None:
        """Release the lock of the folder. Does nothing in memory."""


class Layout(NamedTuple):
    """The contents of a folder."""

    buffer: Any
    """Description of the buffer, as :meth:`State.description` returned it."""
    columns: Tree
    step: float
    """Number of the last step."""
    numbers: NDArray[np.float64]
    """Positions after that step."""


class Disk(Memory):
    """Columns in a folder."""

    durable = True

    def __init__(self, folder: Folder) -> None:
        super().__init__()
        self.folder: Folder = folder
        self._files: dict[tuple[str, ...], str] = {}
        self._extra_files: dict[str, str] = {}
        self._maps: dict[str, NDArray[Any]] = {}
        self._state: Any = np.zeros((2, 0))
        self._state_file: str = ""
        self._used: set[str] = set()
        """Names of the files that ``buffer.json`` lists."""
        self._identity: Any = None

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Disk:
        """Create a folder for a new buffer; it may exist if it is empty, or left by a process that was killed early."""
        folder = Folder(Path(path).absolute(), write=True)
        with _storage_errors(f"{folder.path} cannot be created as a folder"):
            folder.require_no_link()
            folder.path.mkdir(parents=True, exist_ok=True)
            _require_empty(folder)
            folder.lock()
            _require_empty(folder)  # another process may have created a buffer before the lock was taken
            for name in os.listdir(folder.path):
                if name != LOCK:
                    folder.remove(name)
        return cls(folder)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, write: bool) -> tuple[Disk, Layout]:
        """Open the folder of a buffer. Nothing in it is executed, and nothing outside of it is read."""
        folder = Folder(Path(os.fspath(path)).absolute(), write=write)
        disk = cls(folder)
        if write:
            with _storage_errors(f"{folder.path} cannot be opened"):
                try:
                    folder.require_no_link()
                    folder.identity()  # raises if the folder holds no buffer, before the lock file is created
                    folder.lock()
                except FileNotFoundError as error:
                    raise StorageError(_no_buffer(folder, DESCRIPTION)) from error
                except PermissionError as error:
                    hint = "mode='r' opens it for reading"
                    raise StorageError(f"{folder.path} cannot be written to: {error}; {hint}") from error
        try:
            layout = disk.read()
            if write:
                disk.reserve()
        except BaseException:
            disk.close()
            raise
        return disk, layout

    # ---- columns --------------------------------------------------------------------------------------------------

    def extra(self, name: str, size: int) -> NDArray[np.float64]:
        self.extras[name] = self.array((name,), (size,), np.dtype(np.float64))
        self._extra_files[name] = self._files.pop((name,))
        return self.extras[name]

    def array(self, path: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        if dtype.hasobject:
            raise StorageError("Python objects cannot be stored on disk; leave the field out", ".".join(path))
        name = self._new_name()
        try:
            self._maps[name] = self.folder.create_array(name, shape, dtype)
        except StorageError as error:
            raise error.under(".".join(path)) from error.__cause__
        except (OSError, ValueError) as error:  # a limit or quota, or a column of 0 bytes, which cannot be mapped
            reason = f"a column of shape {list(shape)} and dtype {dtype} cannot be created: {error}"
            raise StorageError(reason, ".".join(path)) from error
        self._files[path] = name
        return self._maps[name].view(np.ndarray)

    def tensor(self, path: tuple[str, ...], shape: tuple[int, ...], like: Any) -> Any:
        from typedbatch._core.tensors import bits, from_bits

        if like.device.type != "cpu":
            text = f"tensors on {like.device} cannot be stored on disk; move them to the CPU first"
            raise StorageError(text, ".".join(path))
        return from_bits(self.array(path, shape, bits(like.dtype)), like.dtype)

    def lay_out(self, buffer: dict[str, Any], columns: Tree, numbers: NDArray[np.float64]) -> None:
        fields: list[dict[str, Any]] = []
        for path, column in _columns(columns):
            file = None if KINDS[type(column)] is BATCH else self._files[path]
            tensor = str(column.dtype).removeprefix("torch.") if KINDS[type(column)] is TENSOR else None
            fields.append({"path": path, "file": file, "tensor": tensor})
        with _storage_errors(f"{self.folder.path} cannot be written to"):
            if self._state.shape != (2, 1 + len(numbers)):
                self._state_file = "state.npy" if not self._state_file else f"state.{self._new_name()}"
                state = self.folder.create_array(self._state_file, (2, 1 + len(numbers)), np.dtype(np.float64))
                self._maps[self._state_file] = self._state = state
            self.commit(numbers)  # before the new description is visible, as new columns come with new positions
            described = {"format": FORMAT, "version": VERSION, "buffer": buffer, "fields": fields}
            described |= {"extras": self._extra_files, "state": self._state_file}
            self.folder.replace(DESCRIPTION, json.dumps(described, indent=1))
        own = {*self._extra_files.values(), self._state_file}
        self._used = own | {field["file"] for field in fields if field["file"]}
        self.tidy()

    def reserve(self) -> None:
        """Reserve disk space for every file, so that no write to a column fails."""
        with _storage_errors(f"{self.folder.path} cannot be written to"):
            for name in self._maps:
                self.folder.reserve(name)

    def tidy(self) -> None:
        for name in [name for name in self._maps if name not in self._used]:
            del self._maps[name]
            self.folder.remove(name)
        self._files = {path: name for path, name in self._files.items() if name in self._used}

    def _new_name(self) -> str:
        numbers = [int(name.split(".")[-2]) for name in self._maps if name != "state.npy"]
        return f"{1 + max(numbers, default=0)}.npy"

    def commit(self, numbers: NDArray[np.float64], overwritten: int = 0, *, begun: bool = False) -> None:
        state = self._state
        older = int(state[1, 0] <= state[0, 0])
        state[older, 1:] = numbers
        before = state[1 - older, 0]
        left = before % 2  # 1 after a process that was killed while it wrote rows
        state[older, 0] = before + (2 * overwritten - 1 + left if begun else max(2 * overwritten + left, 2 - left))

    def store_random(self, random: Any) -> None:
        if self.folder.is_locked:
            self.folder.replace(RANDOM, json.dumps(random), wait=True)

    def flush(self) -> None:
        self.folder.flush(self._maps.values())

    def restore_random(self, rng: np.random.Generator) -> None:
        """Restore the state of random numbers that was stored last, or warn if the file is damaged."""
        try:
            with self.folder.opened(RANDOM) as file:
                rng.bit_generator.state = json.loads(file.read())
        except FileNotFoundError:
            pass
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            text = f"{RANDOM} in {self.folder.path} is damaged ({error}); random numbers start again from the seed"
            warnings.warn(text, UserWarning, stacklevel=2)

    def close(self) -> None:
        self.folder.close()

    # ---- reading --------------------------------------------------------------------------------------------------

    def read(self) -> Layout:
        """Read the description and map the files of the folder, replacing those that were mapped before."""
        before = set(self._maps)
        self._files, self._maps = {}, {}
        try:
            text, self._identity = self.folder.description()
            described = json.loads(text)
            if described["format"] != FORMAT or described["version"] != VERSION:
                raise StorageError(
                    f"{FORMAT} of version {VERSION} is expected, "
                    f"got {described['format']} of version {described['version']}"
                )
            columns = self._map_columns(described["fields"])
            self._extra_files = dict(described["extras"])
            for file in self._extra_files.values():
                self._map_file(file)
            self._state_file = described["state"]
            self._state = self._map_file(self._state_file)
            layout = Layout(described["buffer"], columns, *self.positions())
            self.read_extras()
        except FileNotFoundError as error:
            raise StorageError(_no_buffer(self.folder, str(error.filename))) from error
        except Exception as error:  # damaged files cause errors of any class
            reason = error.reason if isinstance(error, StorageError) else error
            raise StorageError(f"{self.folder.path} holds no buffer, or a damaged one: {reason}") from error
        self._used = set(self._maps)
        if self.folder.write:
            for name in before - self._used:
                self.folder.remove(name)
        return layout

    def read_extras(self) -> None:
        """Set the extras from the mapped files: copies of them if this process only reads, else views."""
        maps = {name: self._maps[file] for name, file in self._extra_files.items()}
        self.extras: dict[str, NDArray[np.float64]] = {
            name: array.view(np.ndarray) if self.folder.write else np.array(array) for name, array in maps.items()
        }

    def positions(self) -> tuple[float, NDArray[np.float64]]:
        """Return the number of the last step, and the positions after it."""
        state = self._state
        for _ in range(_TRIES):
            newer = int(state[1, 0] > state[0, 0])
            step = float(state[newer, 0])
            numbers = np.array(state[newer, 1:], np.float64)
            if max(state[0, 0], state[1, 0]) == step:  # otherwise another process may have overwritten this copy
                return step, numbers
        raise StorageError("the positions are damaged, or change faster than they can be read")

    def overwritten(self, step: float) -> float:
        """Return how many rows of a ring may have been overwritten since a step.

        The number ends in one half while rows are being written. It is infinite if the columns were replaced.
        """
        try:
            if self.folder.identity() != self._identity:
                return math.inf
        except OSError:
            return math.inf
        return float(max(self._state[0, 0], self._state[1, 0]) - step) / 2

    def _map_columns(self, fields: list[dict[str, Any]]) -> Tree:
        columns: Tree = new_tree(Tree.__plain__, {})
        for field in fields:
            *outer, name = path = tuple(map(str, field["path"]))
            parent = columns
            for step in outer:
                parent = parent.__dict__.setdefault(step, new_tree(Tree.__plain__, {}))
            file, tensor = field["file"], field["tensor"]
            column: Any = new_tree(Tree.__plain__, {})
            if file is not None:
                self._files[path], column = file, self._map_file(file, tensor=tensor is not None)
                if tensor is not None:
                    side = torch_side()
                    column = side.from_bits(column, side.dtype_named(tensor))
            parent.__dict__[name] = column
        return columns

    def _map_file(self, file: str, *, tensor: bool = False) -> NDArray[Any]:
        if file in self._maps:
            raise StorageError(f"{file!r} is listed for two columns")
        self._maps[file] = self.folder.array(file, copied_when_written=tensor)
        return self._maps[file].view(np.ndarray)


@contextmanager
def _storage_errors(reason: str) -> Generator[None]:
    """Turn errors of the file system into storage errors that begin with ``reason``."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{reason}: {error}") from error


def _require_empty(folder: Folder) -> None:
    """Raise an error if a folder holds a buffer, or files of something else."""
    if not (names := folder.taken_by()):
        return
    if DESCRIPTION in names:
        raise StorageError(f"{folder.path} already holds a buffer; open it with open()")
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    raise StorageError(f"a new buffer needs an empty folder, and {folder.path} holds {shown}; pass another path=")


def _no_buffer(folder: Folder, missing: str) -> str:
    reason = f"{folder.path} holds no buffer: {missing} is missing"
    if os.path.lexists(folder.path / LOCK) and not folder.taken_by():
        reason += "; the process that created the folder was killed too early, so create the buffer again with path="
    return reason


def _columns(columns: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every column with its path. A reserved field is yielded as the empty Batch that it is."""
    for name, column in columns.__dict__.items():
        if KINDS[type(column)] is BATCH and column.__dict__:
            yield from _columns(column, (*path, name))
        else:
            yield (*path, name), column
