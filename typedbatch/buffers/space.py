"""Space on a disk, which is reserved before a file is mapped into memory: a write into a mapped file cannot fail.

Where the disk has no room for a page of it, the operating system ends the process with SIGBUS instead.
"""

from __future__ import annotations

import errno
import os
import shutil

from typedbatch.errors import StorageError

_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def reserve(number: int, size: int, path: str) -> None:
    """Make an open file at least so many bytes long, all of which the disk has room for. What is in it stays.

    Where the file system cannot reserve space, as on macOS, the free space is compared and the file stays sparse.

    Args:
        number: the descriptor of the file.
        size: how many bytes it will have.
        path: the file, for errors.

    Raises:
        StorageError: there is no room for them.
        OSError: the file may not be that large.
    """
    found = os.fstat(number)
    missing = size - 512 * found.st_blocks if hasattr(found, "st_blocks") else size - found.st_size
    if missing <= 0:
        return
    if missing > (free := shutil.disk_usage(os.path.dirname(path)).free):
        raise _no_room(path, missing, free)  # asked for, they would fill the disk before that is an error
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(number, 0, size)
    except OSError as error:
        if error.errno in _FULL:
            raise _no_room(path, missing, shutil.disk_usage(os.path.dirname(path)).free) from error
        if error.errno not in _UNSUPPORTED:
            raise


def _no_room(path: str, missing: int, free: int) -> StorageError:
    return StorageError(
        f"{path} needs {missing:,} more bytes, and {free:,} are free on its disk; "
        "make room there, or the buffer smaller, or give another path="
    )
