"""Opening of regular files without blocking, and a test for errors of the operating system."""

from __future__ import annotations

import os
import stat
from typing import IO

from typedbatch.errors import StorageError

# Without this flag, opening a pipe blocks until another program opens its other end.
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0)


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading.

    The check is on the opened file and not on its path, so nobody can put a pipe in its place in between.

    Args:
        path: The file. Links are followed.

    Raises:
        StorageError: It is a pipe, a device or something else that is not a regular file.
        OSError: It cannot be opened, or is a folder.
    """
    file: IO[bytes] = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115  # closed by the caller
    try:
        require_regular(os.fstat(file.fileno()), os.fspath(path))
    except BaseException:
        file.close()
        raise
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | _NOT_WAITING)


def require_regular(found: os.stat_result, name: str) -> None:
    """Raise an error unless something is a regular file.

    Args:
        found: The result of ``stat``, ``lstat`` or ``fstat``.
        name: The subject of the error text.

    Raises:
        StorageError: It is not a regular file.
    """
    if not stat.S_ISREG(found.st_mode):
        kinds = {
            stat.S_IFIFO: "a pipe",
            stat.S_IFDIR: "a folder",
            stat.S_IFCHR: "a device",
            stat.S_IFBLK: "a device",
            stat.S_IFSOCK: "a socket",
            stat.S_IFLNK: "a link",
        }
        kind = kinds.get(stat.S_IFMT(found.st_mode), "something else")
        raise StorageError(f"{name} is {kind}, and not a regular file")


def is_from_system(error: OSError) -> bool:
    """Return whether the operating system, or a library that reads or writes files, may have raised an error.

    Errors of the system have a number. Libraries such as h5py and pyarrow also raise ``OSError`` itself without one.
    A subclass without a number, such as the ``TimeoutError`` of a signal handler, has nothing to do with the file.
    """
    return type(error) is OSError or error.errno is not None
