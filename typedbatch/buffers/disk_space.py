"""Reservation of disk space for files that are mapped into memory.

A write to a mapped file cannot raise an error: if the disk is full, the operating system kills the process with SIGBUS.
"""

from __future__ import annotations

import errno
import os
import shutil

from typedbatch.errors import StorageError

_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def reserve(number: int, size: int, path: str) -> None:
    """Extend an open file to at least ``size`` bytes, and reserve disk space for all of them.

    The contents of the file do not change. If the file system cannot reserve space, as on macOS, the free space is only
    compared, and the file stays sparse.

    Args:
        number: Descriptor of the file.
        size: Size of the file in bytes.
        path: Path of the file, for errors.

    Raises:
        StorageError: The disk lacks the space.
        OSError: The file may not be that large.
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
