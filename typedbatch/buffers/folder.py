"""The folder of a buffer: one process writes to it, links in it are not followed, and damaged files are refused.

The operating system locks the file ``buffer.lock`` for the process that writes, and releases it when that process ends
for any reason.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import re
import shutil
from collections.abc import Generator
from math import prod
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from typedbatch.errors import StorageError
from typedbatch.files.regular import require_regular

fcntl: Any
try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover  # Windows
    fcntl = None

LOCK, DESCRIPTION, UNFINISHED, RANDOM = "buffer.lock", "buffer.json", "buffer.new.json", "random.json"
_COLUMN = re.compile(r"(state|\d+|state\.\d+)\.npy")
_OWN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0)  # a pipe would block until its other end is opened
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Folder:
    """The files of one buffer, which one process at a time may write to."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path: Path = path
        self.write: bool = write
        self._lock: int | None = None
        folders.add(self)

    def require_no_link(self) -> None:
        """Check that the folder itself is not a link, as another user may have chosen the target."""
        if self.path.is_symlink():
            raise StorageError(f"{self.path} is a link, which is not followed; pass {os.path.realpath(self.path)}")

    # ---- the lock -------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Take the lock of the folder. Where another buffer has it, or there are no locks, a StorageError is raised."""
        if fcntl is None:
            raise StorageError(
                "buffers can be written to disk only on Linux and macOS, which release the lock of a process that "
                "ends; open(path, mode='r') reads them on any system"
            )
        number = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | _OWN_FLAGS | _NOT_WAITING, 0o666)
        try:
            self._require_file(number, LOCK)
            self._take(number)
            os.ftruncate(number, 0)
            os.pwrite(number, str(os.getpid()).encode(), 0)
        except BaseException:
            os.close(number)
            raise
        self._lock = number

    def _take(self, number: int) -> None:
        """Lock the file; if this process holds the lock, collect garbage first, as its buffer may be unreachable."""
        for last in (False, True):
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(number, 20, 0).decode("ascii", "replace")
                if not last and owner == str(os.getpid()):
                    gc.collect()
                    continue
                who = "this process" if owner == str(os.getpid()) else f"process {owner}"
                raise StorageError(
                    f"{self.path} is being written to by {who}, and one buffer at a time may; "
                    "close() that one first, or open this one with mode='r'"
                ) from None
            except OSError as error:
                raise StorageError(f"{self.path} is on a file system that does not support locks: {error}") from error
            else:
                return

    @property
    def is_locked(self) -> bool:
        """Whether this object holds the lock."""
        return self._lock is not None

    def close(self) -> None:
        """Release the lock."""
        number, self._lock = self._lock, None
        if number is not None:
            os.close(number)

    __del__ = close

    # ---- files ----------------------------------------------------------------------------------------------------

    def taken_by(self) -> list[str]:
        """Return the names in the folder, sorted, that prevent a new buffer in it.

        Files that a process left when it was killed before it had stored a buffer do not count.
        """
        names = sorted(os.listdir(self.path))
        if LOCK not in names or DESCRIPTION in names:
            return names
        return [name for name in names if name not in (LOCK, UNFINISHED) and not _COLUMN.fullmatch(name)]

    def remove(self, name: str) -> None:
        """Remove a file, or a link of its name."""
        with contextlib.suppress(OSError):
            os.unlink(self.path / name)

    @contextlib.contextmanager
    def opened(self, name: str) -> Generator[IO[bytes]]:
        """Open an existing file for reading and, if this process writes, for writing.

        A link is refused, and for writing a file that has a second name elsewhere, too.
        """
        flags = os.O_RDWR if self.write else os.O_RDONLY
        try:
            number = os.open(self.path / name, flags | _OWN_FLAGS | _NOT_WAITING)
        except OSError as error:
            if os.path.islink(self.path / name):
                raise StorageError(f"{name} is a link, which is not followed") from error
            raise
        with open(number, "r+b" if self.write else "rb", buffering=0) as file:
            self._require_file(number, name)
            yield file

    def _require_file(self, number: int, name: str) -> None:
        """Check that an open file is a regular file and, if this process writes, has no other name."""
        found = os.fstat(number)
        require_regular(found, name)
        if self.write and found.st_nlink > 1:
            raise StorageError(f"{name} has another name elsewhere (a hard link), and would change there too; copy it")

    def create(self, name: str) -> IO[bytes]:
        """Create a new file. A file or link that a killed process left under its name is removed, not written to."""
        self.remove(name)
        number = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OWN_FLAGS, 0o666)
        return open(number, "w+b", buffering=0)

    def replace(self, name: str, text: str, *, wait: bool = False) -> None:
        """Replace a file of text atomically, after waiting until the text is on the disk if ``wait`` is set."""
        with self.create(UNFINISHED) as file:
            data = memoryview(text.encode())
            while data:
                data = data[file.write(data) :]
            if wait:
                os.fsync(file.fileno())
        os.replace(self.path / UNFINISHED, self.path / name)

    def description(self) -> tuple[bytes, tuple[int, int, int]]:
        """Return the contents of ``buffer.json``, and its identity, which changes when it is replaced."""
        with self.opened(DESCRIPTION) as file:
            return file.read(), _identity(os.fstat(file.fileno()))

    def identity(self) -> tuple[int, int, int]:
        """Return the identity of ``buffer.json``, which changes when it is replaced."""
        return _identity(os.stat(self.path / DESCRIPTION, follow_symlinks=False))

    # ---- arrays ---------------------------------------------------------------------------------------------------

    def create_array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Create a ``.npy`` file of zeros with its disk space reserved, and map it into memory, or leave no file."""
        header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        try:
            with self.create(name) as file:
                npy.write_array_header_1_0(file, header)
                reserve(file.fileno(), file.tell() + prod(shape) * dtype.itemsize, str(self.path / name))
                return np.memmap(file, dtype, "r+", file.tell(), shape)
        except BaseException:
            self.remove(name)
            raise

    def array(self, name: Any, *, copied_when_written: bool = False) -> NDArray[Any]:
        """Map the array of an existing file into memory, copy-on-write for torch, which takes writable ones alone."""
        if not isinstance(name, str) or not _COLUMN.fullmatch(name):
            raise StorageError(f"{name!r} is not a file name of a column")
        with self.opened(name) as file:
            read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
            header: Any = read(file)
            shape, fortran, dtype = header
            size = os.fstat(file.fileno()).st_size - file.tell()
            if dtype.hasobject or fortran or min(shape, default=1) <= 0 or prod(shape) * dtype.itemsize > size:
                raise StorageError(f"{name} is truncated, or does not hold a column")
            mode: Any = "r+" if self.write else "c" if copied_when_written else "r"
            return np.memmap(file, dtype, mode, file.tell(), shape)

    def reserve(self, name: str) -> None:
        """Reserve the disk space of an existing file, which may be sparse, as in a copy of a folder."""
        with self.opened(name) as file:
            reserve(file.fileno(), os.fstat(file.fileno()).st_size, str(self.path / name))

    def flush(self, maps: Any) -> None:
        """Wait until the mapped files, ``buffer.json`` and the folder itself are on the disk."""
        for mapped in maps:
            mapped.flush()
        with self.opened(DESCRIPTION) as file:
            os.fsync(file.fileno())
        number = os.open(self.path, os.O_RDONLY | _OWN_FLAGS)
        try:
            os.fsync(number)
        finally:
            os.close(number)


folders: WeakSet[Folder] = WeakSet()
"""All folders, whose lock files a child of this process closes."""


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_mtime_ns, found.st_size


def reserve(number: int, size: int, path: str) -> None:
    """Extend an open file to at least ``size`` bytes, and reserve disk space for all of them.

    If the disk were full when a mapped file is written to, the operating system would kill the process with SIGBUS.

    The contents of the file do not change. If the file system cannot reserve space, as on macOS, the free space is only
    compared, and the file stays sparse.
    """
    found = os.fstat(number)
    missing = size - 512 * found.st_blocks if hasattr(found, "st_blocks") else size - found.st_size
    if missing <= 0:
        return
    if missing > (free := shutil.disk_usage(os.path.dirname(path)).free):
        raise _no_space(path, missing, free)  # posix_fallocate would fill the disk before it fails
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(number, 0, size)
    except OSError as error:
        if error.errno in _FULL:
            raise _no_space(path, missing, shutil.disk_usage(os.path.dirname(path)).free) from error
        if error.errno not in _UNSUPPORTED:
            raise


def _no_space(path: str, missing: int, free: int) -> StorageError:
    return StorageError(
        f"{path} needs {missing:,} more bytes, and {free:,} are free on its disk; "
        "free some space there, create a smaller buffer, or pass another path="
    )
