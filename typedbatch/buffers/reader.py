"""Reading a folder without a lock while another process writes to it.

The writer never waits for readers. Before it overwrites rows, it raises the step number of the folder by the number of
rows (see ``disk``). A reader compares the step number before and after it has read. The result is valid if all its rows
were further from being overwritten than the number has grown; otherwise it is discarded. While the number is odd, the
slots after the newest row are being overwritten already.
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
    """Synchronization of a buffer that is open for reading with its folder.

    Args:
        state: State of the buffer.
        disk: Storage of the buffer.
    """

    def __init__(self, state: State, disk: Disk) -> None:
        self.frames: int = 1
        """Number of frames that the current call reads for each row that it names, including the row itself."""
        self._state = state
        self._disk = disk
        self._step = math.nan
        self._margin = 0
        self._spare: Any = 0
        """Number of rows of each ring that may be overwritten before any row that counts here is."""
        self._inside = False

    def read(self, call: Callable[[], T], state: State, index: Any = _ALL) -> T:
        """Return the result of a function that reads the buffer, or a ring of it, as it was at one moment.

        Args:
            call: Function to call.
            state: State of the buffer or ring that it reads.
            index: Rows that it reads. A slice means the current rows. Slots mean the rows that they held when the
                positions were last read.

        Raises:
            StorageError: Rows of ``index`` have been overwritten, or rows are overwritten faster than they can be read.
        """
        if self._inside:
            return call()
        try:
            self._inside, self.frames = True, 1
            if isinstance(index, slice) or index is Ellipsis or math.isnan(self._step):
                return self._latest(call)
            out = call()
            self._require_stored(state, index)
            return out
        finally:
            self._inside = False

    def _latest(self, call: Callable[[], T]) -> T:
        """Return the result of a function on the current rows of the folder."""
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
        """Read the positions of the folder, and leave out the rows that the next ``margin`` rows will overwrite."""
        state = self._state
        if math.isinf(self._disk.overwritten(0)):
            self._step = math.nan
            state.columns = self._disk.read().columns
        step, numbers = self._disk.positions()
        if (step, margin) == (self._step, self._margin):
            return
        if not step - self._step < 2 * state.rings.capacity.min():  # every row may have been overwritten
            state.rings.turns += 2
        self._step, self._margin = step, margin
        self._disk.read_extras()
        state.restore(numbers)
        free = self._free(state.rings)
        state.rings.drop_oldest(_ALL, margin)
        self._spare = state.rings.capacity - state.rings.length - free
        state.share_columns()
        state.on_rows_dropped()

    def _free(self, rings: Rings) -> Any:
        """Return how many free slots of each ring may be in the middle of being written at the current step."""
        return (rings.capacity - rings.length) * (self._step % 2)

    def _begun(self) -> Any:
        """Return how many rows of a ring may have been overwritten, at least in part, since the current step.

        Rows that were being written at that step do not count; ``_free`` has them.
        """
        gone = self._disk.overwritten(self._step)
        return np.floor(gone) if self._step % 2 else np.ceil(gone)

    def _require_stored(self, state: State, index: Any) -> None:
        """Raise an error if rows of ``index``, or their frames, may have been overwritten since the current step."""
        if not (gone := self._begun()):
            return
        rings = state.rings
        slots = np.atleast_1d(as_slots(rings, index))
        ring = rings.ring_of(slots)
        # Number of rows that are written before each slot is overwritten.
        ahead = (slots - rings.offset[ring] - rings.insertion[ring]) % rings.capacity[ring] - self._free(rings)[ring]
        if slots.size and gone > ahead.min() - (self.frames - 1):
            raise StorageError(
                f"rows of {self._disk.folder.path} were overwritten since these slots were sampled; sample again"
            )
