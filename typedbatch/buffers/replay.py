"""``ReplayBuffer``: a ring of transitions to sample from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeForm

from typedbatch._ops.construct import refuse_on_instances
from typedbatch._typing import Index, with_defaults
from typedbatch._validation.convert import convert
from typedbatch.batch import Batch
from typedbatch.buffers import column_view, incoming, transfer
from typedbatch.buffers.arguments import BufferOptions, R, S, as_slots, count_of, require_into, slots_between
from typedbatch.buffers.column_view import Column
from typedbatch.buffers.guard import call_locked, locked, locked_at, locked_for_writing, prepare_change
from typedbatch.buffers.rings import Added, Slots
from typedbatch.buffers.saved import SavedBuffer
from typedbatch.buffers.state import State, state_of
from typedbatch.buffers.windowed import WindowedBuffer
from typedbatch.errors import StorageError

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device, Dtype

T = TypeVar("T")


class ReplayBuffer(SavedBuffer, WindowedBuffer[S], Generic[R, S]):
    """The last ``size`` transitions of one environment; the oldest are overwritten first.

    ``ReplayBuffer[GoalRollout](size)`` takes and samples batches of that type. Type checkers know this, and at run time
    the first batch is validated, together with a sample. After that, rows must have the dtypes and shapes of the
    columns. If samples differ in type, for example by stacked frames, the second type argument declares theirs.
    Without type arguments, any batch with the five required fields is taken.

    Without type arguments, samples have ``done``, and empty batches ``info`` and ``policy`` if the rows lack them, as
    Tianshou's code expects. With type arguments, samples have ``info`` and ``policy`` only if these are declared or
    were added with values, and ``done`` only if it is declared.

    The first batch defines the columns: a field of any kind and depth gets one. Rewards of a floating dtype are stored
    in that dtype, others as float64. ``terminated`` and ``truncated`` are stored as bool, and ``done`` is computed.
    Rows are copied when they are added and when they are sampled.

    Args:
        size: Number of transitions to store.
        stack_num: Number of frames that samples of ``obs`` and ``obs_next`` have, ``(N, stack_num, *obs)``: the row's
            and those before it in the episode. The first frame of an episode is repeated if there are fewer.
        ignore_obs_next: Whether ``obs_next`` is not stored, but read from ``obs`` of the row that follows. The last row
            of an episode, and the newest one, have none that follows: their own ``obs`` is read, which is right only if
            the episode was terminated, whose value does not count. A truncated row causes a warning.
        save_only_last_obs: Whether only the last frame is stored of an ``obs`` of shape ``(frames, *obs)``.
        sample_avail: Whether only rows that have all ``stack_num`` frames are sampled.
        random_seed: Seed of everything random in this buffer; None for a different one each time. Buffers with the same
            seed, such as the default of 42, sample the same slots, so pass one for each agent.
        path: Folder to store the rows in, instead of memory; see :meth:`open`.

    Raises:
        SizeError: ``size`` is negative or above 2**48; or ``stack_num`` is below 1, or above both 1,000 and ``size``.
        SettingError: ``random_seed`` is not a valid seed.
        StorageError: ``path`` cannot be used.

    Like Tianshou's ``ReplayBuffer``; docs/buffers.md lists where the behavior differs.
    """

    obs: Any = Column()
    act: Any = Column()
    rew: Any = Column()
    terminated: Any = Column()
    truncated: Any = Column()
    done: Any = Column()
    obs_next: Any = Column()
    info: Any = Column()
    policy: Any = Column()

    def __init__(
        self,
        size: int,
        stack_num: int = 1,
        ignore_obs_next: bool = False,
        save_only_last_obs: bool = False,
        sample_avail: bool = False,
        random_seed: int | None = 42,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        options: BufferOptions = {
            "stack_num": stack_num,
            "ignore_obs_next": ignore_obs_next,
            "save_only_last_obs": save_only_last_obs,
            "sample_avail": sample_avail,
            "random_seed": random_seed,
            "path": path,
        }
        self._begin(State(type(self), [count_of(size, "size")], options))

    def _begin(self, state: State) -> None:
        self._state = state
        self._parts: list[ReplayBuffer[R, S]] = []
        if state.storage.durable:
            state.on_columns_laid_out()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, args: Any) -> Any:
            return super().__class_getitem__(with_defaults(cls, args))

        @property
        def __orig_class__(self) -> Any:
            return self._state.hint

        @__orig_class__.setter
        def __orig_class__(self, hint: Any) -> None:  # set by typing, after ``ReplayBuffer[GoalRollout](20)``
            self._state.hint = hint

        def __getattr__(self, name: str) -> Any:
            if name[:1] == "_":  # copy and pickle look up private names before ``_state`` is set
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return column_view.shown(self._state, name)

        _size = property(lambda self: len(self._state.rings))
        _indices = property(lambda self: np.arange(self.maxsize))
        _meta = property(lambda self: self.columns)

        @_meta.setter
        @locked_for_writing
        def _meta(self, columns: Any) -> None:
            column_view.set_columns(self._state, columns)

    # ---- properties -----------------------------------------------------------------------------------------------

    @property
    def stack_num(self) -> int:
        """Number of frames that samples of ``obs`` and ``obs_next`` have.

        It may be set, which sets it for all rings of the buffer. Samples must still match the declared type.

        Raises:
            SizeError: The number is below 1, or above both 1,000 and the number of slots.
            SchemaError: Samples would not match the declared type. Nothing was changed.
        """
        return self._state.stack_num

    @stack_num.setter
    @locked_for_writing
    def stack_num(self, stack_num: int) -> None:
        self._state.set_stack_num(stack_num)

    @property
    def maxsize(self) -> int:
        """Capacity in rows."""
        return self._state.rings.size

    @property
    def options(self) -> BufferOptions:
        """Options that all buffers share, as this buffer was created with, except for ``path``."""
        return self._state.options.copy()

    @property
    def columns(self) -> Batch:
        """Live columns in slot order, as a batch to inspect.

        In memory, ``buffer.columns.rew = array`` replaces a column by one of ``maxsize`` rows, which is not validated
        against the declared type; so do methods of the batch, and of those in it, that set fields. Columns cannot be
        removed, and flags are read-only. Tianshou's name ``_meta`` works too.
        """
        return column_view.view(self._state)

    @property
    @locked
    def last_index(self) -> Slots:
        """Slot of the newest row of each ring; its first slot while the ring is empty."""
        return self._state.rings.last

    @property
    def subbuffer_edges(self) -> Slots:
        """Slots at which rings begin and end, ``[0, maxsize]`` or, for several rings, ``[0, n, 2 * n, ...]``."""
        return self._state.rings.edges.copy()

    @property
    def buffer_num(self) -> int:
        """Number of rings."""
        return len(self._state.rings.capacity)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Lock that every call holds. Hold it with ``with buffer.lock:`` to keep out other threads between calls."""
        return self._state.guard.lock

    @property
    @locked
    def buffers(self) -> list[ReplayBuffer[R, S]]:
        """Each ring as a buffer, which shares its rows and positions with this one. The objects are always the same."""
        if not self._parts:
            options: BufferOptions = {**self.options, "stack_num": 1}
            self._parts = [ReplayBuffer[R, S](size, **options) for size in self._state.rings.capacity.tolist()]
            self._state.parts = [state_of(part) for part in self._parts]
            self._state.use_frames(self.stack_num)
            self._state.share_columns()
        return [*self._parts]

    @locked
    def __len__(self) -> int:
        """Return the number of rows that are stored."""
        return len(self._state.rings)

    @locked
    def __repr__(self) -> str:
        return type(self).__name__ + repr(self._state.columns).removeprefix("Batch")

    # ---- adding and changing --------------------------------------------------------------------------------------

    def add(self, batch: R, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> Added:
        """Add a transition. Nothing is stored if any value does not fit.

        Args:
            batch: One transition without a row dimension: ``obs``, ``act``, ``rew``, ``terminated``, ``truncated``,
                and any other fields. Fields that have a column and that this batch lacks become zero, or ``None``.
            buffer_ids: Number of the ring of each row, for a batch of several rows. A buffer of one ring takes
                ``[0] * n``, and adds the rows in their order.

        Returns:
            For each row: its slot, the return and the length of the episode if the row ended it (else 0), and the slot
            in which the episode began.

        Raises:
            MissingFieldError: A required field is missing.
            RowAssignmentError: The shape or dtype of a value does not fit its column; the error names the field.
            LeafError: A value cannot be stored.
            SchemaError: ``batch`` is not of the declared type.
        """
        state = self._state
        guard = state.guard
        with guard.lock:  # hot path: what ``locked_for_writing`` does for other methods, inlined
            if guard.unfinished or guard.reader is not None:
                prepare_change(guard, "add")
            if buffer_ids is None and not state.many:
                if state.declared is None or state.declared.with_items is not None:
                    batch = state.declaration().wrapped(batch)
                return incoming.add_one(state, *incoming.check_rows(state, batch, ()))
            ids, rows = incoming.ring_ids(len(state.rings.capacity), buffer_ids)
            if rows == 1 and buffer_ids is not None:
                batch = incoming.single_row(state, batch)
            return incoming.add_rows(state, batch, ids, rows)

    @locked_for_writing
    def extend(self, batch: R, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> Added:
        """Add rows in time order, as repeated calls of :meth:`add` would, with one write for each field.

        Of more rows than the capacity, the last ones are stored. All rows are added, or none if one does not fit.

        Args:
            batch: Rows, with the fields that :meth:`add` takes, of shape ``(n, ...)``.
            buffer_ids: Number of the ring of each row, if there are several rings; each ring gets its rows in their
                order.

        Returns:
            The same as :meth:`add`, with an entry for each row. A row that a later one has overwritten has the same
            slot as that one.

        Raises:
            StructureError: There are several rings, and ``buffer_ids`` does not name one for each row; or a ring does
                not exist.
            RowAssignmentError: Fields differ in the number of rows, or ``batch`` is a single row without a row
                dimension. All errors of :meth:`add` are raised too.
        """
        ids = incoming.ids_of_rows(len(self._state.rings.capacity), batch, buffer_ids)
        return incoming.add_rows(self._state, batch, ids, len(ids)) if len(ids) else Added.nothing()

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
        self._state.reset(keep_statistics)

    @locked_for_writing
    def truncate_episodes(self, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> None:
        """End current episodes: mark their last rows as truncated, so that the next row of a ring begins an episode.

        Episodes that have ended do not change. Those in the caches of a ``CachedReplayBuffer`` move to its main buffer.

        Args:
            buffer_ids: Numbers of the rings, as :meth:`add` takes them; None for all.

        Raises:
            StructureError: A ring does not exist.
        """
        rings = self._state.inputs
        self._state.cut_episodes(np.arange(rings)[incoming.ring_ids(rings, buffer_ids)[0]])

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

    @locked_for_writing
    def dropnull(self) -> None:
        """Drop the rows in which a field has a null. The shapes of fields and the size of the buffer do not change.

        An episode that loses its last row ends with the last one that remains: ``done`` is true there. On disk, the
        folder holds no rows while this runs.
        """
        transfer.drop_null(self._state)

    # ---- sampling -------------------------------------------------------------------------------------------------

    @overload
    def sample(self, batch_size: int | None) -> tuple[S, Slots]: ...
    @overload
    def sample(
        self, batch_size: int | None, *, into: TypeForm[T], device: Device | None = None, dtype: Dtype | None = None
    ) -> tuple[T, Slots]: ...
    @overload  # for jedi, which does not support TypeForm; type checkers never reach this overload
    def sample(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
        self, batch_size: int | None, *, into: type[T], device: Device | None = None, dtype: Dtype | None = None
    ) -> tuple[T, Slots]: ...
    def sample(
        self, batch_size: int | None, *, into: Any = None, device: Device | None = None, dtype: Dtype | None = None
    ) -> Any:
        """Sample transitions at random, uniformly and with replacement.

        Args:
            batch_size: Number of rows; 0 for all rows in time order, None for as many random rows as are stored.
            into: Protocol or record to convert the sample to, such as ``RolloutBatch[Tensor]``; see
                :func:`typedbatch.convert`. None for no conversion.
            device: Device of the tensors of ``into``; None to leave them where they are.
            dtype: Dtype of floating values of ``into``; None to leave it unchanged.

        Returns:
            The batch and its slots; ``buffer[slots]`` is the same batch.

        Raises:
            EmptyBufferError: There is nothing to sample.
            SizeError: ``batch_size`` is not a whole number.
            SettingError: ``device`` or ``dtype`` is passed without ``into``. Errors of :func:`typedbatch.convert` are
                raised too.
            SchemaError: The batch does not match ``into``.
        """
        require_into(into, device, dtype)
        rows, slots = self._sample(batch_size)
        return rows if into is None else convert(rows, into, device=device, dtype=dtype), slots

    @locked
    def _sample(self, batch_size: int | None) -> tuple[S, Slots]:
        state, slots = self._state, self.sample_indices(batch_size)
        if not state.columns.__dict__ or (not len(slots) and (batch_size is None or batch_size >= 0)):
            raise state.empty()
        return state.rows(slots), slots

    @locked
    def sample_indices(self, batch_size: int | None) -> Slots:
        """Return random slots of stored rows, as :meth:`sample` does.

        Args:
            batch_size: Number of slots; 0 for all in time order, negative for none, None for as many random ones as
                rows are stored.

        Raises:
            EmptyBufferError: ``batch_size`` is above 0, and there is nothing to sample.
            SizeError: ``batch_size`` is not a whole number.
        """
        count = None if batch_size is None else count_of(batch_size, "batch_size", -sys.maxsize)
        state = self._state
        if count is not None and count < 0:
            return np.zeros(0, np.intp)
        rows = state.rings.occupancy.rows
        if state.sample_avail and state.stack_num > 1:
            slots = state.draw_with_frames(count)
        elif count == 0:
            slots = state.rings.chronological()
        elif count and not rows:
            raise state.empty()
        else:
            slots = state.draw(rows if count is None else count)
        return state.rings.hand_out(slots)

    # ---- reading --------------------------------------------------------------------------------------------------

    @locked_at
    def __getitem__(self, index: Index) -> S:
        """Return a copy of stored transitions, in the form in which :meth:`sample` returns them.

        ``buffer[:]`` returns all rows in time order, ring by ring. Any other index names slots, as ``add`` and
        ``sample`` return them. Slices and negative numbers count only the slots that hold a row, in slot order.

        Raises:
            EmptyBufferError: Nothing has been added yet.
            RowIndexError: A slot does not exist, or holds no row.
        """
        state = self._state
        if not state.columns.__dict__:
            raise state.empty()
        rows: S = state.rows(as_slots(state.rings, index))
        return rows

    def __iter__(self) -> Iterator[S]:
        """Iterate over all rows in time order, ring by ring."""
        return (self[slot] for slot in call_locked(self._state, self._state.rings.chronological).tolist())

    @locked_at
    def get(self, index: Index, key: str, default_value: Any = None, stack_num: int | None = None) -> Any:
        """Return one field of some rows with stacked frames, ``(*index, stack_num, *field)``.

        Args:
            index: Index as in ``buffer[index]``.
            key: Name of the field.
            default_value: Value to return if the field does not exist; None to raise an error.
            stack_num: Number of frames; None for ``stack_num`` of the buffer, 1 for the row itself without a dimension
                of frames.

        Raises:
            MissingFieldError: The field does not exist.
            RowIndexError: A slot does not exist, or holds no row.
        """
        return self._state.field(key, index, default_value, stack_num)

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
        rows: Any = self[:]
        return Batch.isnull(rows)

    # ---- neighbors in time ----------------------------------------------------------------------------------------

    @locked_at
    def prev(self, index: Any) -> Any:
        """Return the slot of the transition before each one, or its own if it begins an episode or is the oldest."""
        return self._state.rings.prev(as_slots(self._state.rings, index), self._state.flags())[()]

    @locked_at
    def next(self, index: Any) -> Any:
        """Return the slot of the transition after each one, or its own if it ends an episode or is the newest."""
        return self._state.rings.next(as_slots(self._state.rings, index), self._state.flags())[()]

    @locked
    def unfinished_index(self) -> Slots:
        """Return the slot of the last transition of each unfinished episode."""
        return self._state.unfinished(np.arange(self.buffer_num))

    def get_buffer_indices(self, start: int, stop: int) -> Slots:
        """Return the slots from ``start`` up to, but not including, ``stop``, wrapping around at the end of the ring.

        ``buffer[buffer.get_buffer_indices(ep_start, last + 1)]`` is an episode.

        Raises:
            StructureError: ``start`` and ``stop`` are in different rings (also a ``ValueError``).
        """
        return slots_between(self._state.rings, start, stop)

    @classmethod
    def from_data(cls, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, done: Any, obs_next: Any) -> Self:
        """Return a full buffer of the given rows, which are copied: arrays, tensors, or datasets of an HDF5 file.

        Raises:
            SizeError: The fields differ in length (also an ``AssertionError``).
        """
        given = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        return transfer.from_data(cls, {**given, "done": done, "obs_next": obs_next})

    def __getstate__(self) -> dict[str, Any]:
        if self._state.storage.durable:
            raise StorageError("a buffer on disk cannot be copied or pickled; pass its path, and open() it there")
        return {name: value for name, value in self.__dict__.items() if name != "_parts"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._parts = []


refuse_on_instances(ReplayBuffer, "from_data")
