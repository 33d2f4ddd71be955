"""The contents of a buffer: what is done to all of its rows, or to a whole column."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from typedbatch._typing import Index
from typedbatch.batch import Batch
from typedbatch.buffers import bulk
from typedbatch.buffers.guard import changing, exclusive
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.state import State, state_of

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer


class Contents:
    """The part of :class:`ReplayBuffer` that moves, replaces and cleans rows."""

    _state: State

    def update(self, buffer: ReplayBuffer[Any, Any]) -> Slots:
        """Add the rows of another buffer, in the order of time, as they are stored there.

        Where rows of several rings come into one, ``done`` is true for the last row of each.

        Returns:
            The slot of each row; empty when there is nothing to move, or no room.

        Raises:
            StructureError: this buffer has several rings, and the other not as many.
            RowAssignmentError: rows that do not fit the columns.
        """
        return bulk.update(self._state, state_of(buffer, "update()"))

    @changing
    def reset(self, keep_statistics: bool = False) -> None:
        """Forget every row; with ``keep_statistics`` the return and length of the current episode go on."""
        state = self._state
        forget = partial(state.forget, keep_statistics)
        state.change(forget, forget)  # if it is interrupted, what is left of it is done

    @changing
    def set_batch(self, batch: Any) -> None:
        """Make a batch of ``maxsize`` rows the contents, as a copy: every slot is taken then.

        On disk, what was there before is gone as soon as this begins.

        Raises:
            SizeError: it has another number of rows (an ``AssertionError`` too).
            MissingFieldError: a required field is missing.
            SchemaError: a batch that is not of the declared type.
        """
        bulk.set_batch(self._state, batch)

    @changing
    def set_array_at_key(
        self, seq: NDArray[Any], key: str, index: Index = None, default_value: float | None = None
    ) -> None:
        """Set a field, or some slots of it; see :meth:`typedbatch.Batch.set_array_at_key`. Values are copied.

        Raises:
            FieldNameError: a field that says where episodes end.
            EmptyBufferError: nothing has been added yet.
            StructureError: the number of values does not fit.
            RowAssignmentError: a value or ``default_value`` does not fit the dtype, or stored rows get no value and the
                dtype has no null.
        """
        bulk.set_array_at_key(self._state, seq, key, index, default_value)

    @exclusive
    def hasnull(self) -> bool:
        """True when any stored value is null: ``None``, NaN or NaT."""
        return bool(len(self._state.rings)) and Batch.hasnull(bulk.stored_rows(self._state))

    @exclusive
    def isnull(self) -> Batch:
        """Masks that are true where a value of ``buffer[:]`` is ``None``, NaN or NaT.

        Raises:
            EmptyBufferError: nothing has been added yet.
        """
        state = self._state
        if not state.columns.__dict__:
            raise state.empty()
        return Batch.isnull(state.rows(state.rings.chronological()))

    @changing
    def dropnull(self) -> None:
        """Drop the rows in which a field has a null; fields keep their shape, the buffer its size.

        An episode that loses its last row ends with the last one that is kept: ``done`` is true there. On disk, every
        row is gone for as long as this takes.
        """
        bulk.drop_null(self._state)
