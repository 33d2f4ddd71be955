"""Storage in memory: the columns of a buffer without ``path``. ``disk`` has the storage of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._tree.kinds import Tree

FORMAT = "typedbatch buffer"
VERSION = 1


class Memory:
    """Columns in memory. Pages that were never written to take no memory."""

    durable: bool = False

    def __init__(self) -> None:
        self.extras: dict[str, NDArray[np.float64]] = {}
        """Arrays with a number for each slot that are not columns, such as priorities."""

    def extra(self, name: str, size: int) -> NDArray[np.float64]:
        """Create an array of ``size`` zeros in :attr:`extras`, and return it."""
        self.extras[name] = np.zeros(size)
        return self.extras[name]

    def array(self, path: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a new column for the field at ``path``, filled with zeros, or with ``None`` for objects."""
        return np.full(shape, None, object) if dtype.hasobject else np.zeros(shape, dtype)

    def tensor(self, path: tuple[str, ...], shape: tuple[int, ...], like: Any) -> Any:
        """Return a new column of zeros with the dtype and device of the tensor ``like``."""
        return like.new_zeros(shape, requires_grad=False)

    def lay_out(self, buffer: dict[str, Any], columns: Tree, numbers: NDArray[np.float64]) -> None:
        """Store the description of the buffer, its set of columns, and its positions. Does nothing in memory."""

    def tidy(self) -> None:
        """Remove columns that were created since the last ``lay_out`` by a change that failed.

        Does nothing in memory.
        """

    def commit(self, numbers: NDArray[np.float64], overwritten: int = 0, *, begun: bool = False) -> None:
        """Store the positions as one step. Does nothing in memory.

        Args:
            numbers: Positions, as :meth:`State.numbers` returns them.
            overwritten: Number of rows of a ring that readers must count as overwritten.
            begun: Whether these rows are being overwritten from now on, until the next step.
        """

    def store_random(self, random: Any) -> None:
        """Store the state of random numbers. Does nothing in memory."""

    def flush(self) -> None:
        """Wait until everything is on the disk. Does nothing in memory."""

    def close(self) -> None:
        """Release the lock of the folder. Does nothing in memory."""
