"""Reading a folder that another process writes to, without a lock: what was read is thrown away if it was not whole.

The process that writes never waits for those that read, and does not know of them. It announces in the number of each
step how many rows it is about to overwrite. A reader looks at that number before and after it has read: rows that are
further from being overwritten than the number has grown were whole. Where it is odd, the slots behind the newest row
are being overwritten already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from typedbatch.buffers.disk import Disk
from typedbatch.buffers.rings import Rings
from typedbatch.buffers.selection import as_slots
from typedbatch.errors import StorageError

if TYPE_CHECKING:
    from typedbatch.buffers.state import State

T = TypeVar("T")

_TRIES = 40
_ALL = slice(None)


class Reader:
    """Keeps a buffer that was opened for reading at the state of its folder.

    Args:
        state: that of the buffer.
        disk: its folder.
    """

    def __init__(self, state: State, disk: Disk) -> None:
        self.frames: int = 1
        """How many rows in front of those that are named the call that is going on may read."""
        self._state = state
        self._disk = disk
        self._step = math.nan
        self._margin = 0
        self._spare: Any = 0
        """How many rows may be overwritten in each ring before one of those that count is."""
        self._inside = False

    def read(self, call: Callable[[], T], state: State, index: Any = _ALL) -> T:
        """What a call gives that reads the buffer, or a ring of it, as it was at one moment.

        Args:
            call: what is called.
            state: that of what it reads.
            index: which rows it is about; slots mean the rows that they held when the buffer was looked at last.

        Raises:
            StorageError: rows that are named have been overwritten, or are being so faster than they can be read.
        """
        if self._inside:
            return call()
        try:
            self._inside, self.frames = True, 1
            if isinstance(index, slice) or index is Ellipsis or math.isnan(self._step):
                return self._latest(call)
            out = call()
            self._require_kept(state, index)
            return out
        finally:
            self._inside = False

    def _latest(self, call: Callable[[], T]) -> T:
        """What a call gives on the state that the folder is in now."""
        margin = 0
        for _ in range(_TRIES):
            try:
                self._refresh(margin)
                out = call()
            except Exception:
                if not self._disk.overwritten(self._step) and not margin:
                    raise
            else:
                if (self._begun() <= self._spare).all():
                    return out
            if math.isfinite(gone := self._disk.overwritten(self._step)):
                half = int(self._state.rings.capacity.max()) // 2
                margin = min(max(2 * margin, 2 * math.ceil(gone)), half)
        raise StorageError(
            f"{self._disk.folder.path} is overwritten faster than it can be read; read fewer rows at once"
        )

    def _refresh(self, margin: int) -> None:
        """Take over the positions of the folder, without the rows that so many more would overwrite."""
        state = self._state
        if math.isinf(self._disk.overwritten(0)):
            self._step = math.nan
            state.columns = self._disk.read().columns
        step, numbers = self._disk.positions()
        if (step, margin) == (self._step, self._margin):
            return
        self._step, self._margin = step, margin
        self._disk.read_extras()
        state.restore(numbers)
        free = self._free(state.rings)
        state.rings.drop_oldest(_ALL, margin)
        self._spare = state.rings.capacity - state.rings.length - free
        state.share_columns()
        state.on_rows_dropped()

    def _free(self, rings: Rings) -> Any:
        """How many slots behind the newest row of each ring may be in the middle of being written at this step."""
        return (rings.capacity - rings.length) * (self._step % 2)

    def _begun(self) -> Any:
        """How many rows of a ring may have been overwritten, or be half so, since this step and beyond those then."""
        gone = self._disk.overwritten(self._step)
        return np.floor(gone) if self._step % 2 else np.ceil(gone)

    def _require_kept(self, state: State, index: Any) -> None:
        if not (gone := self._begun()):
            return
        rings = state.rings
        slots = np.atleast_1d(as_slots(rings, index))
        ring = rings.ring_of(slots)
        further = (slots - rings.offset[ring] - rings.insertion[ring]) % rings.capacity[ring] - self._free(rings)[ring]
        if slots.size and gone > further.min() - (self.frames - 1):
            raise StorageError(
                f"rows of {self._disk.folder.path} were overwritten since these slots were sampled; sample anew"
            )
