"""The folder of a buffer: one process writes to it, links in it are not followed, and a damaged file is refused.

The lock is one of the operating system on the file ``buffer.lock``, which goes with the process that holds it, however
that ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
from collections.abc import Generator
from math import prod
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from typedbatch.buffers.space import reserve
from typedbatch.errors import StorageError
from typedbatch.files.regular import is_from_system, require_regular

fcntl: Any
try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover  # Windows
    fcntl = None

LOCK, DESCRIPTION, UNFINISHED = "buffer.lock", "buffer.json", "buffer.new.json"
_COLUMN = re.compile(r"(state|\d+|state\.\d+)\.npy")
_OWN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0)  # for somebody to open the other end of what is not a file


class Folder:
    """The files of one buffer.

    Args:
        path: where they are.
        write: whether this process writes to them; it is the only one then.
    """

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path: Path = path
        self.write: bool = write
        self._lock: int | None = None
        _folders.add(self)

    def require_no_link(self) -> None:
        """Check that the folder itself is not a link, which may point to a folder that somebody else has chosen.

        Raises:
            StorageError: it is one.
        """
        if self.path.is_symlink():
            raise StorageError(
                f"{self.path} is a link, which is not written through; give {os.path.realpath(self.path)}"
            )

    # ---- the lock -------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Become the one that writes.

        Raises:
            StorageError: another one does, in this process or in another; or there are no locks here.
            OSError: the folder cannot be written to.
        """
        if fcntl is None:
            raise StorageError(
                "buffers are written to disk on Linux and macOS alone, whose locks go with their process; "
                "open(path, mode='r') reads them everywhere"
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
        """Lock the file, if need be after buffers are gone that nobody holds any more."""
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
                if not is_from_system(error):
                    raise
                raise StorageError(f"{self.path} is on a file system without locks: {error}") from error
            else:
                return

    def close(self) -> None:
        """Let others write."""
        number, self._lock = self._lock, None
        if number is not None:
            os.close(number)

    __del__ = close

    # ---- files ----------------------------------------------------------------------------------------------------

    def taken_by(self) -> list[str]:
        """What is in the folder, apart from what a process leaves that was killed before there was a buffer."""
        names = sorted(os.listdir(self.path))
        if LOCK not in names or DESCRIPTION in names:
            return names
        return [name for name in names if name not in (LOCK, UNFINISHED) and not _COLUMN.fullmatch(name)]

    def remove(self, name: str) -> None:
        """Remove a file, or the link that is in its place."""
        with contextlib.suppress(OSError):
            os.unlink(self.path / name)

    @contextlib.contextmanager
    def opened(self, name: str) -> Generator[IO[bytes]]:
        """A file that is there, to read and, if this process writes, to write.

        Raises:
            StorageError: it is not a file, or a link to one, or has another name elsewhere and would change there.
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
        found = os.fstat(number)
        require_regular(found, name)
        if self.write and found.st_nlink > 1:
            raise StorageError(f"{name} has a second name elsewhere (a hard link), and would change there too; copy it")

    def create(self, name: str) -> IO[bytes]:
        """A new file; what a killed process may have left under its name is removed, and never written to."""
        self.remove(name)
        number = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OWN_FLAGS, 0o666)
        return open(number, "w+b", buffering=0)

    def replace_description(self, text: str) -> None:
        """Write ``buffer.json`` anew: it is the old one or the new one at any moment."""
        with self.create(UNFINISHED) as file:
            data = memoryview(text.encode())
            while data:
                data = data[file.write(data) :]
        os.replace(self.path / UNFINISHED, self.path / DESCRIPTION)

    def description(self) -> tuple[bytes, tuple[int, int, int]]:
        """``buffer.json``, and what is another when it is replaced."""
        with self.opened(DESCRIPTION) as file:
            return file.read(), _identity(os.fstat(file.fileno()))

    def identity(self) -> tuple[int, int, int]:
        """What is another when ``buffer.json`` is replaced."""
        return _identity(os.stat(self.path / DESCRIPTION, follow_symlinks=False))

    # ---- arrays ---------------------------------------------------------------------------------------------------

    def create_array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A new ``.npy`` file of zeros, mapped into memory, for which the disk keeps all of its space.

        Raises:
            StorageError: there is no room for it. No file is left.
            OSError: the file cannot be made, for example because of a limit. No file is left.
            ValueError: it would have no bytes, or more than can be addressed. No file is left.
        """
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
        """An array of a file that is there, mapped into memory.

        Args:
            name: the file.
            copied_when_written: for one that is only read, let what is written stay in memory: tensors are made of
                nothing else.

        Raises:
            StorageError: the file is not what it should be, or cut off.
        """
        if not isinstance(name, str) or not _COLUMN.fullmatch(name):
            raise StorageError(f"{name!r} is not a name of a column's file")
        with self.opened(name) as file:
            read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
            header: Any = read(file)
            shape, fortran, dtype = header
            room = os.fstat(file.fileno()).st_size - file.tell()
            if dtype.hasobject or fortran or min(shape, default=1) <= 0 or prod(shape) * dtype.itemsize > room:
                raise StorageError(f"{name} was cut off, or does not hold a column")
            mode: Any = "r+" if self.write else "c" if copied_when_written else "r"
            return np.memmap(file, dtype, mode, file.tell(), shape)

    def reserve(self, name: str) -> None:
        """Have the disk keep all of the space of a file that is there.

        A copy of a folder may lack it, and a folder that an older version made.

        Raises:
            StorageError: there is no room for it.
            OSError: it cannot be opened.
        """
        with self.opened(name) as file:
            reserve(file.fileno(), os.fstat(file.fileno()).st_size, str(self.path / name))

    def flush(self, maps: Any) -> None:
        """Wait until the files are on the disk."""
        for mapped in maps:
            mapped.flush()
        with self.opened(DESCRIPTION) as file:
            os.fsync(file.fileno())
        number = os.open(self.path, os.O_RDONLY | _OWN_FLAGS)
        try:
            os.fsync(number)
        finally:
            os.close(number)


_folders: WeakSet[Folder] = WeakSet()


def _in_a_forked_process() -> None:
    """A lock is held for as long as any process has the file open, so only the one that took it goes on having it."""
    for folder in list(_folders):
        folder.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_process)


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_mtime_ns, found.st_size
