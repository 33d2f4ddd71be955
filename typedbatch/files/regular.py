"""Regular files, opened without waiting for anybody, and which errors are the operating system's."""

from __future__ import annotations

import os
import stat
from typing import IO

from typedbatch.errors import StorageError

_NOT_WAITING = getattr(os, "O_NONBLOCK", 0)  # for a program that opens the other end of a pipe


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> IO[bytes]:
    """Open a file for reading.

    What was opened is looked at, and not what had the name before: nobody can put a pipe in its place in between.

    Args:
        path: the file; links to one are followed.
        buffering: as for ``open``; 0 for a raw file.

    Raises:
        StorageError: it is a pipe, a device or something else that is not a regular file.
        OSError: it cannot be opened, or is a folder.
    """
    file: IO[bytes] = open(path, "rb", buffering=buffering, opener=_open_without_waiting)  # noqa: SIM115  # the caller closes it
    try:
        require_regular(os.fstat(file.fileno()), os.fspath(path))
    except BaseException:
        file.close()
        raise
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | _NOT_WAITING)


def require_regular(found: os.stat_result, name: str) -> None:
    """Check that something is a regular file.

    Raises:
        StorageError: it is not.
    """
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{name} is {_kind(found.st_mode)}, and not a regular file")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a pipe",
        stat.S_IFDIR: "a folder",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
        stat.S_IFLNK: "a link",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")


def is_from_system(error: OSError) -> bool:
    """Return whether the operating system reported an error, which gives each of its errors a number.

    Others, such as the ``TimeoutError`` of a signal handler, say nothing about the file that was read or written when
    they came.
    """
    return error.errno is not None
