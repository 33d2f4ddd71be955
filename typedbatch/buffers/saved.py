"""``SavedBuffer``: buffers that are written to files, and opened from folders."""

from __future__ import annotations

import os
from typing import Any, Literal, Self

from typedbatch._ops.construct import refuse_on_instances
from typedbatch.buffers import restore
from typedbatch.buffers.guard import locked
from typedbatch.buffers.state import State


class SavedBuffer:
    """The methods of a buffer that write and read files."""

    _state: State

    @locked
    def save_hdf5(self, path: str | os.PathLike[str], compression: str | None = None) -> None:
        """Write the buffer to an HDF5 file atomically. This needs the extra ``hdf5``.

        Args:
            path: Path of the file; an existing file is replaced.
            compression: ``"gzip"``, ``"lzf"``, or None for no compression.

        Raises:
            StorageError: A field holds objects that cannot be written as JSON.
        """
        restore.save_hdf5(self._state, path, compression)

    @classmethod
    def load_hdf5(cls, path: str | os.PathLike[str], device: Any = None, *, trusted: bool = False) -> Self:
        """Load a buffer from an HDF5 file, with the state of its random numbers. Nothing in the file is executed.

        The constructor of a user's class is not called. A file that Tianshou's buffer of the same name has saved is
        read too, but only its rows and options: its priorities and random numbers are pickles.

        Args:
            path: Path of the file.
            device: Device of tensors; None for the CPU.
            trusted: Whether the file is read in this process; see :func:`typedbatch.files.load`.

        Raises:
            StorageError: The file does not hold a buffer of this class, or is damaged.
        """
        kind: Any = cls  # A ReplayBuffer, which derives from this class.
        buffer: Self = restore.load_hdf5(kind, path, device, trusted=trusted)
        return buffer

    @classmethod
    def open(cls, path: str | os.PathLike[str], mode: Literal["r", "r+"] = "r+") -> Self:
        """Open the buffer that was created with this ``path``, with every row whose ``add`` had returned.

        This holds even if the process was killed. After a loss of power, it holds for the rows of the last
        :meth:`flush`. Random numbers continue from the last :meth:`flush` or :meth:`close`; without one, they start
        again from the seed.

        Args:
            path: Path of the folder.
            mode: ``"r+"`` to read and write, which one buffer at a time may; or ``"r"`` to read, which any number of
                readers may, even during writes and without permission to write. Each call sees the current rows of the
                folder. Slots mean the rows that they held when a call last read all rows, as ``sample`` does.

        Raises:
            StorageError: The folder holds no buffer of this class, is damaged, or another buffer writes to it.
            SettingError: ``mode`` is neither.
        """
        kind: Any = cls
        buffer: Self = restore.open_folder(kind, path, mode)
        return buffer

    @locked
    def flush(self) -> None:
        """Wait until everything is on the disk, with the state of random numbers. Does nothing in memory."""
        self._state.storage.store_random(self._state.rng.bit_generator.state)
        self._state.storage.flush()

    def close(self) -> None:
        """Store the state of random numbers, and release the folder of this buffer, so that another can write to it.

        This buffer cannot be used afterwards. Does nothing for a buffer in memory. A buffer is also closed, without
        random numbers, when its process ends, or when it is garbage collected.
        """
        self._state.close()


refuse_on_instances(SavedBuffer, "load_hdf5", "open")
