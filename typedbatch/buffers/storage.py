"""Storage: where the columns of a buffer are. In memory, or in a folder on disk that outlives the process.

A folder holds ``.npy`` files, one per column and one for the positions, and ``buffer.json``, which says what is what.
The columns are mapped into memory, so they may be larger than it. Of the positions there are two copies, and the one
with the higher number counts: it is written whole before its number is, so a process that is killed at any moment
leaves one that is right. A buffer lets the rows that it is about to overwrite go in one such step, writes, and counts
the new rows in with the next; so rows that are half written are never among those that count.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from typedbatch.errors import StorageError
from typedbatch.leaves import BATCH, KINDS, TENSOR, Tree, new_tree

FORMAT = "typedbatch buffer"
VERSION = 1


class Memory:
    """Columns in memory. Pages that nothing was written to take no room."""

    durable: bool = False

    def __init__(self) -> None:
        self.extras: dict[str, NDArray[np.float64]] = {}
        """Numbers for each slot that are no column, priorities for one."""

    def extra(self, name: str, size: int) -> NDArray[np.float64]:
        """A place for such numbers, 0 at first."""
        self.extras[name] = np.zeros(size)
        return self.extras[name]

    def array(self, path: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """A column of zeros, of ``None`` for objects, for the field at ``path``."""
        return np.full(shape, None, object) if dtype.hasobject else np.zeros(shape, dtype)

    def tensor(self, path: tuple[str, ...], shape: tuple[int, ...], like: Any) -> Any:
        """A column of zeros with the dtype, and on the device, of the tensor ``like``."""
        return like.new_zeros(shape, requires_grad=False)

    def lay_out(self, buffer: dict[str, Any], columns: Tree, numbers: NDArray[np.float64]) -> None:
        """Take note of the columns that there are now, of what makes the buffer, and of its positions."""

    def tidy(self) -> None:
        """Let go of columns that were made since the last ``lay_out``, because some other could not be made."""

    def commit(self, numbers: NDArray[np.float64]) -> None:
        """Take note of the positions."""

    def flush(self) -> None:
        """Wait until everything is on the disk."""


class Disk(Memory):
    """Columns in a folder.

    Args:
        folder: made if it is not there; it must be empty.

    Raises:
        StorageError: the folder cannot be used.
    """

    durable = True

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__()
        self.folder: Path = Path(folder).absolute()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            taken = any(self.folder.iterdir())
        except (OSError, ValueError) as error:
            raise StorageError(f"{self.folder} cannot be made a folder: {error}") from error
        if taken:
            raise StorageError(f"{self.folder} is not empty; a buffer that is in it is opened with open()")
        self._files: dict[tuple[str, ...], str] = {}
        self._extra_files: dict[str, str] = {}
        self._maps: dict[str, Any] = {}
        self._state: Any = np.zeros((2, 0))
        self._state_file = ""
        self._used: set[str] = set()
        """The files that ``buffer.json`` names."""

    def extra(self, name: str, size: int) -> NDArray[np.float64]:
        self.extras[name] = self.array((name,), (size,), np.dtype(np.float64))
        self._extra_files[name] = self._files.pop((name,))
        return self.extras[name]

    def array(self, path: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        if dtype.hasobject:
            raise StorageError("Python objects cannot be kept on disk; leave the field out", ".".join(path))
        name = self._new_name()
        try:
            self._maps[name] = open_memmap(self.folder / name, "w+", dtype, shape)
        except (OSError, ValueError) as error:  # a full disk; no rows, which cannot be mapped
            raise StorageError(f"no room for {list(shape)} of {dtype}: {error}", ".".join(path)) from error
        self._files[path] = name
        column: NDArray[Any] = self._maps[name].view(np.ndarray)
        return column

    def tensor(self, path: tuple[str, ...], shape: tuple[int, ...], like: Any) -> Any:
        from typedbatch.tensors import bits, from_bits

        if like.device.type != "cpu":
            raise StorageError(f"tensors on {like.device} cannot be kept on disk; move them first", ".".join(path))
        return from_bits(self.array(path, shape, bits(like.dtype)), like.dtype)

    def lay_out(self, buffer: dict[str, Any], columns: Tree, numbers: NDArray[np.float64]) -> None:
        try:
            self._lay_out(buffer, columns, numbers)
        except OSError as error:
            raise StorageError(f"{self.folder} cannot be written to: {error}") from error

    def _lay_out(self, buffer: dict[str, Any], columns: Tree, numbers: NDArray[np.float64]) -> None:
        fields: list[dict[str, Any]] = []
        for path, column in _columns(columns):
            file = None if KINDS[type(column)] is BATCH else self._files[path]
            tensor = str(column.dtype).removeprefix("torch.") if KINDS[type(column)] is TENSOR else None
            fields.append({"path": path, "file": file, "tensor": tensor})
        if self._state.shape != (2, 1 + len(numbers)):
            self._state_file = "state.npy" if not self._state_file else f"state.{self._new_name()}"
            state = open_memmap(self.folder / self._state_file, "w+", np.float64, (2, 1 + len(numbers)))
            self._maps[self._state_file] = self._state = state
            self.commit(numbers)
        described = {"format": FORMAT, "version": VERSION, "buffer": buffer, "fields": fields}
        described |= {"extras": self._extra_files, "state": self._state_file}
        (self.folder / "buffer.new.json").write_text(json.dumps(described, indent=1))
        os.replace(self.folder / "buffer.new.json", self.folder / "buffer.json")
        own = {*self._extra_files.values(), self._state_file}
        self._used = own | {field["file"] for field in fields if field["file"]}
        self.tidy()

    def tidy(self) -> None:
        for name in [name for name in self._maps if name not in self._used]:
            del self._maps[name]
            with contextlib.suppress(OSError):
                (self.folder / name).unlink()
        self._files = {path: name for path, name in self._files.items() if name in self._used}

    def _new_name(self) -> str:
        numbers = [int(name.split(".")[-2]) for name in self._maps if name != "state.npy"]
        return f"{1 + max(numbers, default=0)}.npy"

    def commit(self, numbers: NDArray[np.float64]) -> None:
        state = self._state
        older = int(state[1, 0] <= state[0, 0])
        state[older, 1:] = numbers
        state[older, 0] = state[1 - older, 0] + 1

    def flush(self) -> None:
        for mapped in self._maps.values():
            mapped.flush()
        for place in (self.folder / "buffer.json", self.folder):
            with _opened(place) as number:
                os.fsync(number)

    # ---- opening again --------------------------------------------------------------------------------------------

    @staticmethod
    def open(folder: str | os.PathLike[str]) -> tuple[Disk, dict[str, Any], Tree, NDArray[np.float64]]:
        """A folder that a buffer was kept in: the storage, what makes the buffer, its columns and its positions.

        Nothing in the folder is executed, and nothing outside of it is read.

        Raises:
            StorageError: there is no buffer in it, or its files do not fit together.
        """
        disk = object.__new__(Disk)
        Memory.__init__(disk)
        disk.folder, disk._files, disk._maps = Path(os.fspath(folder)).absolute(), {}, {}
        try:
            described = json.loads(_own(disk.folder / "buffer.json").read_text())
            if described["format"] != FORMAT or described["version"] != VERSION:
                raise StorageError(f"{described['format']} of version {described['version']}")
            columns = disk._map_columns(described["fields"])
            disk._extra_files = dict(described["extras"])
            disk.extras = {name: disk._map_file(file) for name, file in disk._extra_files.items()}
            disk._state_file = described["state"]
            disk._state = disk._map_file(disk._state_file)
            numbers = np.array(disk._state[int(disk._state[1, 0] > disk._state[0, 0]), 1:])
            buffer = described["buffer"]
            disk._used = set(disk._maps)
        except FileNotFoundError as error:
            raise StorageError(f"{disk.folder} holds no buffer: {error.filename} is missing") from error
        except Exception as error:  # whatever it is, what was read is the reason for it
            raise StorageError(f"{disk.folder} holds no buffer, or it is damaged: {error}") from error
        return disk, buffer, columns, numbers

    def _map_columns(self, fields: list[dict[str, Any]]) -> Tree:
        columns: Tree = new_tree(Tree.plain, {})
        for field in fields:
            *outer, name = path = tuple(map(str, field["path"]))
            place = columns
            for step in outer:
                place = place.__dict__.setdefault(step, new_tree(Tree.plain, {}))
            place.__dict__[name] = self._map_column(path, field["file"], field["tensor"])
        return columns

    def _map_column(self, path: tuple[str, ...], file: str | None, tensor: str | None) -> Any:
        if file is None:
            return new_tree(Tree.plain, {})
        array = self._map_file(file)
        self._files[path] = file
        if tensor is None:
            return array
        from typedbatch.conversion import torch_side

        side = torch_side()
        return side.from_bits(array, side.dtype_named(tensor))

    def _map_file(self, file: str) -> NDArray[Any]:
        if not re.fullmatch(r"(state|\d+|state\.\d+)\.npy", file):
            raise StorageError(f"{file!r} is no name of a column's file")
        self._maps[file] = _mapped(self.folder / file)
        array: NDArray[Any] = self._maps[file].view(np.ndarray)
        return array


def _columns(columns: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every column with its path; a reserved field comes as the empty Batch that it is."""
    for name, column in columns.__dict__.items():
        if KINDS[type(column)] is BATCH and column.__dict__:
            yield from _columns(column, (*path, name))
        else:
            yield (*path, name), column


@contextlib.contextmanager
def _opened(place: Path) -> Generator[int]:
    number = os.open(place, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


def _own(file: Path) -> Path:
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise StorageError(f"{file.name} is no file, or a link to one elsewhere, which is not followed")
    return file


def _mapped(file: Path) -> Any:
    open_memmap(_own(file), mode="r")  # refuses a file that was cut off, which "r+" would fill up with zeros
    return open_memmap(file, mode="r+")
