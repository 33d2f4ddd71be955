"""The file that HDF5 writes to. It hides failures from HDF5 and raises them once HDF5 is done.

HDF5 keeps data that it could not write, tries again when it shuts down, and aborts the process if that fails too. So
:class:`Target` stores the first failure and drops all later data. The caller then discards the file.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Generator
from typing import IO, Any

import h5py

from typedbatch.errors import StorageError
from typedbatch.files._hdf5 import is_from_hdf5
from typedbatch.files.regular import is_from_system

_own: deque[tuple[int, int, int, int]] = deque(maxlen=1000)
"""Device, inode, size and time of change of the last files that this process has written."""


class Target:
    """A file object for h5py whose methods do not fail when the disk is full.

    Args:
        file: A raw file, open for reading and writing.

    Attributes:
        failure: The first error of the operating system, or None.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.failure: OSError | None = None
        self._file: Any = file
        self._at = self._end = 0

    def seek(self, at: int, whence: int = 0) -> int:
        self._at = at + (0, self._at, self._end)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        count = len(view)
        try:
            self._file.seek(self._at)
            while view and self.failure is None:
                view = view[self._file.write(view) :]
        except OSError as error:
            self.failure = error
        self._at += count
        self._end = max(self._end, self._at)
        return count

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        self._file.seek(self._at)
        read = self._file.readinto(view)
        view[read:] = bytes(len(view) - read)
        self._at += len(view)
        return len(view)

    def read(self, count: int) -> bytes:
        buffer = bytearray(count)
        self.readinto(buffer)
        return bytes(buffer)

    def truncate(self, size: int) -> int:
        try:
            if self.failure is None:
                self._file.truncate(size)
        except OSError as error:
            self.failure = error
        self._end = size
        return size

    def flush(self) -> None:
        """Do nothing, because the raw file has no buffer."""


@contextlib.contextmanager
def written(file: IO[bytes]) -> Generator[h5py.File]:
    """Open an HDF5 file for writing, in an empty raw file.

    Raises:
        OSError: The operating system refuses to write, for example because the disk is full.
        StorageError: HDF5 fails for another reason.
    """
    target = Target(file)
    try:
        # Only the latest version of the format has checksums.
        with h5py.File(target, "w", track_order=True, libver="latest") as hdf5_file:
            yield hdf5_file
    except (OSError, RuntimeError) as error:
        if target.failure is not None:
            raise target.failure from error
        if not is_from_hdf5(error):
            raise
        raise StorageError(f"HDF5 could not write the file: {error}") from error
    if target.failure is not None:
        raise target.failure
    if os.utime in os.supports_fd:
        # The time comes from a fine clock, because two changes within a tick of the file system's clock look like one.
        now = time.time_ns() // 1000 * 1000
        try:
            os.utime(file.fileno(), ns=(now, now))
        except OSError as error:  # Some file systems cannot do this. The file is then read like one of others.
            if not is_from_system(error):
                raise
        found = os.fstat(file.fileno())
        if found.st_mtime_ns == now:
            _own.append((found.st_dev, found.st_ino, found.st_size, now))


def is_own(found: os.stat_result) -> bool:
    """Return whether this process has written a file, and nobody has changed it since."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) in _own
