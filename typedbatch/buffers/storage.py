"""Storage in memory: where the columns of a buffer are that has no ``path``. ``disk`` has the other one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._tree.leaves import Tree

FORMAT = "typedbatch buffer"
VERSION = 1


class Memory:
    """Columns in memory. Pages that nothing was written to take no room."""

    durable: bool = False

    def __init__(self) -> None:
        self.extras: dict[str, NDArray[np.float64]] = {}
        """Numbers for each slot that are not columns, such as priorities."""

    def extra(self, name: str, size: int) -> NDArray[np.float64]:
        """A place for such numbers, 0 at first."""
        self.extras[name] = np.zeros(size)
        return self.extras[name]

    def array(self, path: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """A column of zeros, of ``None`` for objects, for the field at ``path``."""
        return np.full(shape, None, object) if dtype.hasobject else np.zeros(shape, dtype)

    def tensor(self, path: tuple[str, ...], shape: tuple[int, ...], like: Any) -> Any:
        """A column of zeros with the dtype, and on the device, of the tensor ``like``."""
        return like.new_zeros(shape, requires_grad=False)

    def lay_out(self, buffer: dict[str, Any], columns: Tree, numbers: NDArray[np.float64]) -> None:
        """Take note of the columns that there are now, of what makes the buffer, and of its positions."""

    def tidy(self) -> None:
        """Let go of columns that were made since the last ``lay_out``, because some other could not be made."""

    def commit(self, numbers: NDArray[np.float64], overwritten: int = 0, *, begun: bool = False) -> None:
        """Take note of the positions, and that so many rows of a ring will be written over; ``begun``: from now on."""

    def flush(self) -> None:
        """Wait until everything is on the disk."""

    def close(self) -> None:
        """Let go of what others wait for."""
