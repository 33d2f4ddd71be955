"""What HDF5 writes into: a file on which writing never fails, as far as HDF5 is told.

HDF5 keeps what it could not write, and ends the process when it fails to do so a second time, at the end. So the first
failure is kept here, what comes after it is dropped, and the file with it once HDF5 is done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import IO, Any

import h5py

from typedbatch.errors import StorageError
from typedbatch.files._hdf5 import is_from_hdf5


class Target:
    """A file, as h5py takes it.

    Args:
        file: a raw file, open for reading and writing.
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

    def readinto(self, room: Any) -> int:
        view = memoryview(room).cast("B")
        self._file.seek(self._at)
        read = self._file.readinto(view)
        view[read:] = bytes(len(view) - read)
        self._at += len(view)
        return len(view)

    def read(self, count: int) -> bytes:
        room = bytearray(count)
        self.readinto(room)
        return bytes(room)

    def truncate(self, size: int) -> int:
        try:
            if self.failure is None:
                self._file.truncate(size)
        except OSError as error:
            self.failure = error
        self._end = size
        return size

    def flush(self) -> None:
        """There is nothing to wait for."""


@contextlib.contextmanager
def written(file: IO[bytes]) -> Generator[h5py.File]:
    """An HDF5 file to write, in a raw file that is empty.

    Raises:
        OSError: for example the disk is full.
        StorageError: HDF5 fails for another reason.
    """
    target = Target(file)
    try:
        # the newest format has checksums
        with h5py.File(target, "w", track_order=True, libver="latest") as found:
            yield found
    except (OSError, RuntimeError) as error:
        if target.failure is not None:
            raise target.failure from error
        if not is_from_hdf5(error):
            raise
        raise StorageError(f"HDF5 could not write the file: {error}") from error
    if target.failure is not None:
        raise target.failure
