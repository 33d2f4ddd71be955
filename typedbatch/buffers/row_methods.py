"""Methods of a buffer that change or inspect all of its rows, or a whole column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from typedbatch._typing import Index
from typedbatch.batch import Batch
from typedbatch.buffers import transfer
from typedbatch.buffers.guard import locked, locked_for_writing
from typedbatch.buffers.incoming import ring_ids
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.state import State, state_of

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer


class RowMethods:
    """Base class of :class:`ReplayBuffer` with the methods that move, replace and clean rows."""

    _state: State

    def update(self, buffer: ReplayBuffer[Any, Any]) -> Slots:
        """Add the rows of another buffer as they are stored there, in time order.

        If the rows of several rings are added to one, ``done`` is set for the last row of each ring.

        Returns:
            The slot of each row; empty if there is nothing to move, or the capacity is 0.

        Raises:
            StructureError: This buffer has several rings, and the other one has a different number of rings.
            RowAssignmentError: The rows do not fit the columns.
        """
        return transfer.update(self._state, state_of(buffer, "update()"))

    @locked_for_writing
    def reset(self, keep_statistics: bool = False) -> None:
        """Remove all rows.

        Args:
            keep_statistics: Whether the return and length of the current episode continue.
        """
        state = self._state
        forget = partial(state.forget, keep_statistics)
        state.transaction(
            forget, forget
        )  # the rollback finishes an interrupted reset, as removed rows cannot be restored

    @locked_for_writing
    def truncate_episodes(self, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> None:
        """End current episodes: mark their last rows as truncated, so that the next row of a ring begins an episode.

        Episodes that have ended do not change. Those in the caches of a ``CachedReplayBuffer`` move to its main buffer.

        Args:
            buffer_ids: Numbers of the rings, as :meth:`ReplayBuffer.add` takes them; None for all.

        Raises:
            StructureError: A ring does not exist.
        """
        rings = self._state.inputs
        self._state.cut_episodes(np.arange(rings)[ring_ids(rings, buffer_ids)[0]])

    @locked_for_writing
    def set_batch(self, batch: Any) -> None:
        """Replace the contents by a copy of a batch of ``maxsize`` rows, so that every slot holds a row.

        On disk, the previous rows are gone as soon as this begins.

        Raises:
            SizeError: ``batch`` has another number of rows (also an ``AssertionError``).
            MissingFieldError: A required field is missing.
            SchemaError: ``batch`` is not of the declared type.
        """
        transfer.set_batch(self._state, batch)

    @locked_for_writing
    def set_array_at_key(
        self, seq: NDArray[Any], key: str, index: Index = None, default_value: float | None = None
    ) -> None:
        """Set a field, or some slots of it; see :meth:`typedbatch.Batch.set_array_at_key`. Values are copied.

        Raises:
            FieldNameError: The field marks where episodes end.
            EmptyBufferError: Nothing has been added yet.
            StructureError: The number of values does not match the number of slots.
            RowAssignmentError: A value or ``default_value`` does not fit the dtype, or stored rows get no value and the
                dtype has no null.
        """
        transfer.set_array_at_key(self._state, seq, key, index, default_value)

    @locked
    def hasnull(self) -> bool:
        """Return whether any stored value is null: ``None``, NaN or NaT."""
        return bool(len(self._state.rings)) and Batch.hasnull(transfer.stored_rows(self._state))

    @locked
    def isnull(self) -> Batch:
        """Return masks that are true where a value of ``buffer[:]`` is ``None``, NaN or NaT.

        Raises:
            EmptyBufferError: Nothing has been added yet.
        """
        state = self._state
        if not state.columns.__dict__:
            raise state.empty()
        return Batch.isnull(state.rows(state.rings.chronological()))

    @locked_for_writing
    def dropnull(self) -> None:
        """Drop the rows in which a field has a null. The shapes of fields and the size of the buffer do not change.

        An episode that loses its last row ends with the last one that remains: ``done`` is true there. On disk, the
        folder holds no rows while this runs.
        """
        transfer.drop_null(self._state)
