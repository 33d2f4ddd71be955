"""``ReplayBuffer``: the transitions of the past, to be sampled from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, overload

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray
from typing_extensions import TypeForm

from typedbatch._typing import Index, with_defaults
from typedbatch._validation.convert import convert
from typedbatch.batch import Batch
from typedbatch.buffers import bulk, column_view, incoming, restore
from typedbatch.buffers.column_view import Column
from typedbatch.buffers.contents import Contents
from typedbatch.buffers.guard import changing, exclusive, exclusive_at, in_whole, require_writer
from typedbatch.buffers.options import BufferOptions, R, S
from typedbatch.buffers.rings import Added, Slots
from typedbatch.buffers.selection import as_slots, slots_between
from typedbatch.buffers.settings import count_of, frame_count
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import EmptyBufferError, SettingError, StorageError

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device, Dtype

T = TypeVar("T")


class ReplayBuffer(Contents, Generic[R, S]):
    """The last ``size`` transitions of one environment, oldest overwritten first.

    ``ReplayBuffer[GoalRollout](size)`` takes and samples such batches: checkers know it, and at run time the first
    batch is validated, with what sampling will give. After that a row must have the dtypes and shapes of the columns.
    Where what is sampled differs, for example by stacked frames, the second argument says how. Without arguments
    anything with the five required fields is taken.

    Without arguments what is sampled has ``done``, and empty batches ``info`` and ``policy`` where rows lack them, as
    Tianshou's code expects. With them it has these fields only if they are declared, or were added with values;
    ``done`` only if it is declared.

    Columns are laid out by the first batch: a field of any kind and depth gets a column, and none is left out. Rewards
    are kept as they come if they are floating, else as float64; ``terminated`` and ``truncated`` as bool, and ``done``
    is computed. What is added is copied, what is sampled is a copy.

    Args:
        size: transitions to keep.
        stack_num: sample ``obs`` and ``obs_next`` as the last so many frames of the episode, ``(N, stack_num, *obs)``;
            where an episode is younger, its first frame is repeated.
        ignore_obs_next: do not store ``obs_next``; it is read from the row that follows.
        save_only_last_obs: store the last frame only of an ``obs`` that comes as ``(frames, *obs)``.
        sample_avail: with ``stack_num``, sample only rows that have all their frames.
        random_seed: seed of everything random in this buffer; None for a different one each time.
        path: a folder to keep the rows in, instead of memory; see :meth:`open`.

    Raises:
        SizeError: a ``size`` that is negative, or above 2**48; ``stack_num`` below 1, or above 1,000 and ``size``.
        SettingError: a ``random_seed`` that is none.
        StorageError: ``path`` cannot be used.

    As Tianshou's ``ReplayBuffer``; docs/buffers.md lists where behaviour departs.
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
        def __orig_class__(self, hint: Any) -> None:  # by typing, when ``ReplayBuffer[GoalRollout](20)`` was made
            self._state.hint = hint

        def __getattr__(self, name: str) -> Any:
            if name[:1] == "_":  # it is looked for before there are columns, by copy and pickle
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self._state.shown(name)

    # ---- what it is -----------------------------------------------------------------------------------------------

    @property
    def stack_num(self) -> int:
        """Frames of ``obs`` and ``obs_next`` in what is sampled.

        It may be set, on the buffer for its rings too. What is sampled then must be of the declared type as before.

        Raises:
            SizeError: it is below 1, or above 1,000 and the number of slots.
            SchemaError: what would be sampled is not of the declared type. Nothing was changed.
        """
        return self._state.stack_num

    @stack_num.setter
    @changing
    def stack_num(self, stack_num: int) -> None:
        self._state.set_stack_num(stack_num)

    @property
    def maxsize(self) -> int:
        """Rows that there is room for."""
        return self._state.rings.size

    @property
    def options(self) -> BufferOptions:
        """What the buffer was made with, of what all buffers take, ``path`` excepted."""
        return self._state.options.copy()

    @property
    def columns(self) -> Batch:
        """The columns, live and in the order of the slots, as a batch to look at.

        In memory, ``buffer.columns.rew = array`` puts another column of ``maxsize`` rows in the place of one, which is
        not checked against what the buffer is declared to hold. As Tianshou's ``_meta``, and under that name too.
        """
        return column_view.Columns.of(self._state)

    if not TYPE_CHECKING:

        @property
        def _meta(self) -> Batch:
            return self.columns

        @_meta.setter
        @changing
        def _meta(self, columns: Any) -> None:
            column_view.set_columns(self._state, columns)

        @property
        def _size(self) -> int:
            return len(self._state.rings)

        @property
        def _indices(self) -> Slots:
            return np.arange(self.maxsize)

    @property
    @exclusive
    def last_index(self) -> Slots:
        """The slot that was written last, in each ring."""
        return self._state.rings.last

    @property
    def subbuffer_edges(self) -> Slots:
        """Where rings begin and end, as ``[0, maxsize]``; with several, as ``[0, n, 2 * n, ...]``."""
        return self._state.rings.edges.copy()

    @property
    def buffer_num(self) -> int:
        """How many rings there are."""
        return len(self._state.rings.capacity)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """What every call holds; with ``with buffer.lock:`` around several calls no other thread's comes in between."""
        return self._state.guard.lock

    @property
    @exclusive
    def buffers(self) -> list[ReplayBuffer[R, S]]:
        """Each ring as a buffer of its own, which shares its rows and positions with this one; the same ones always."""
        if not self._parts:
            sizes = self._state.rings.capacity.tolist()
            options: BufferOptions = {**self.options, "stack_num": 1}
            self._parts = [ReplayBuffer[R, S](size, **options) for size in sizes]
            self._state.parts = [state_of(part) for part in self._parts]
            self._state.use_frames(self.stack_num)
            self._state.share_columns()
        return [*self._parts]

    @exclusive
    def __len__(self) -> int:
        """Rows that are stored."""
        return len(self._state.rings)

    @exclusive
    def __repr__(self) -> str:
        return type(self).__name__ + repr(self._state.columns).removeprefix("Batch")

    # ---- adding ---------------------------------------------------------------------------------------------------

    def add(self, batch: R, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> Added:
        """Add a transition; nothing is stored if any of it does not fit.

        Args:
            batch: one transition, without a row dimension: ``obs``, ``act``, ``rew``, ``terminated``, ``truncated``,
                and whatever else. Fields that earlier ones had and this one lacks become zero, or ``None``.
            buffer_ids: the ring of each row, of a batch of several. A buffer of one ring takes ``[0] * n``, in order.

        Returns:
            For each row: its slot, the return and the length of the episode if the row ended it (else 0), and the slot
            in which the episode began.

        Raises:
            MissingFieldError: a required field is missing.
            RowAssignmentError: a value whose shape or dtype is not that of its column; the error names the field.
            LeafError: a value that cannot be stored.
            SchemaError: a batch that is not of the declared type.
        """
        state = self._state
        guard = state.guard
        with guard.lock:  # as ``changing`` does for other methods; this one is called most
            if guard.unfinished:
                guard.settle()
            if guard.reader is not None:
                require_writer(guard, "add")
            if buffer_ids is None and not state.many:
                fields, done, rew = incoming.to_store(state, batch, ())
                return state.add_one(state.plan(batch, fields, ()), rew, done)
            return self._add_rows(batch, buffer_ids)

    def _add_rows(self, batch: Any, buffer_ids: Any) -> Added:
        state = self._state
        ids, rows = incoming.ring_ids(len(state.rings.capacity), buffer_ids)
        if rows == 1 and buffer_ids is not None:
            batch = incoming.single_row(batch)
        fields, done, rew = incoming.to_store(state, batch, (rows,))
        plan = state.plan(batch, fields, (rows,))
        if isinstance(ids, ndarray) and len(ids) > 1 and np.bincount(ids).max() > 1:
            return state.add_block(plan, ids, rew, done)
        return state.add_many(plan, ids, rew, done)

    @changing
    def extend(self, batch: R, buffer_ids: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> Added:
        """Add rows in the order of time, as :meth:`add` would one after the other, with one write for each field.

        Of more rows than there is room for, the last ones stay. All are added, or none if one does not fit.

        Args:
            batch: the rows: fields of shape ``(n, ...)``, of which :meth:`add` says more.
            buffer_ids: the ring of each row, where there are several; each ring gets its rows in their order.

        Returns:
            What :meth:`add` returns, with an entry for each row; where a later one has overwritten a row, the slot is
            that of both.

        Raises:
            StructureError: there are several rings, and not one is given for each row; or one does not exist.
            RowAssignmentError: fields of another number of rows; a single row without a dimension for rows; and what
                :meth:`add` raises it for, and the other errors that :meth:`add` raises.
        """
        ids = incoming.ids_of_rows(len(self._state.rings.capacity), batch, buffer_ids)
        return self._add_rows(batch, ids) if len(ids) else Added.nothing()

    # ---- sampling -------------------------------------------------------------------------------------------------

    @overload
    def sample(self, batch_size: int | None) -> tuple[S, Slots]: ...
    @overload
    def sample(
        self, batch_size: int | None, *, into: TypeForm[T], device: Device | None = None, dtype: Dtype | None = None
    ) -> tuple[T, Slots]: ...
    @overload  # jedi does not know TypeForm; it reads this one, and checkers never reach it
    def sample(  # type: ignore[overload-cannot-match]
        self,
        batch_size: int | None,
        *,
        into: type[T],
        device: Device | None = None,
        dtype: Dtype | None = None,  # pyright: ignore[reportOverlappingOverload]
    ) -> tuple[T, Slots]: ...
    def sample(
        self, batch_size: int | None, *, into: Any = None, device: Device | None = None, dtype: Dtype | None = None
    ) -> Any:
        """Random transitions, each as likely as the other, with repetition.

        Args:
            batch_size: how many; 0 for all in the order of time, None for as many as there are at random.
            into: the protocol or record to become, as ``RolloutBatch[Tensor]``; see :func:`typedbatch.convert`. None
                for what is stored.
            device: where the tensors of ``into`` go; None leaves them where they are.
            dtype: dtype of their floating numbers; None keeps it.

        Returns:
            The batch, and the slots that it is from: ``buffer[slots]`` again.

        Raises:
            EmptyBufferError: there is nothing to sample.
            SizeError: ``batch_size`` is no whole number.
            SettingError: ``device`` or ``dtype`` without ``into``, and what :func:`typedbatch.convert` raises.
            SchemaError: the batch does not match ``into``.
        """
        if into is None:
            if device is not None or dtype is not None:
                raise SettingError(
                    "device= and dtype= are for tensors; say what to sample, as into=RolloutBatch[Tensor]"
                )
            return self._sample(batch_size)
        rows, slots = self._sample(batch_size)
        return convert(rows, into, device=device, dtype=dtype), slots

    @exclusive
    def _sample(self, batch_size: int | None) -> tuple[S, Slots]:
        state, slots = self._state, self.sample_indices(batch_size)
        if not state.columns.__dict__ or (not len(slots) and (batch_size is None or batch_size >= 0)):
            raise state.empty()
        return state.rows(slots), slots

    @exclusive
    def sample_indices(self, batch_size: int | None) -> Slots:
        """The slots that :meth:`sample` would take. All of them in the order of time for 0, none for less than 0.

        Raises:
            EmptyBufferError: ``batch_size`` is above 0, and there is nothing to sample.
        """
        count = None if batch_size is None else count_of(batch_size, "batch_size", -sys.maxsize)
        state = self._state
        if count is not None and count < 0:
            return np.zeros(0, np.intp)
        if state.sample_avail and state.stack_num > 1:
            return self._with_frames(count)
        if count == 0:
            return state.rings.chronological()
        count = len(state.rings) if count is None else count
        if count and not len(state.rings):
            raise state.empty()
        return state.draw(count)

    def _with_frames(self, count: int | None) -> Slots:
        state = self._state
        slots = state.rings.with_frames(state.stack_num, state.flags()) if len(state.rings) else np.zeros(0, np.intp)
        if count == 0:
            return slots
        if count and not len(slots):
            raise EmptyBufferError(f"no row has {state.stack_num} frames, and sample_avail takes no other; add() more")
        return slots[state.rng.integers(0, max(len(slots), 1), len(slots) if count is None else count)]

    # ---- reading --------------------------------------------------------------------------------------------------

    @exclusive_at
    def __getitem__(self, index: Index) -> S:
        """Stored transitions, as :meth:`sample` gives them, always a copy.

        ``buffer[:]`` is everything in the order of time, ring by ring. Otherwise an index names slots: what ``add`` and
        ``sample`` return. A slice, or a negative number, counts among those that hold a row.

        Raises:
            EmptyBufferError: nothing has been added yet.
            RowIndexError: a slot that does not exist, or holds no row.
        """
        state = self._state
        if not state.columns.__dict__:
            raise state.empty()
        rows: S = state.rows(as_slots(state.rings, index))
        return rows

    def __iter__(self) -> Iterator[S]:
        """Every row, in the order of time, ring by ring."""
        return (self[slot] for slot in in_whole(self._state, self._state.rings.chronological).tolist())

    @exclusive_at
    def get(self, index: Index, key: str, default_value: Any = None, stack_num: int | None = None) -> Any:
        """One field of some rows, in frames of ``stack_num``: ``(*index, stack_num, *field)``.

        Args:
            index: as ``buffer[index]`` takes it.
            key: name of the field.
            default_value: what to return when there is no such field; None raises.
            stack_num: frames; None for those of the buffer, 1 for the row alone, without a dimension for them.

        Raises:
            MissingFieldError: there is no such field.
            RowIndexError: a slot that does not exist, or holds no row.
        """
        state = self._state
        if key not in state.columns.__dict__ and default_value is not None:
            return default_value
        column = state.column(key)
        count = state.stack_num if stack_num is None else frame_count(stack_num, state.rings.size)
        return state.read(key, column, state.frames(as_slots(state.rings, index), count))

    # ---- neighbours in time ---------------------------------------------------------------------------------------

    @exclusive_at
    def prev(self, index: Any) -> Any:
        """The slot of the transition before each one; its own where it begins an episode, or is the oldest."""
        return self._state.rings.prev(as_slots(self._state.rings, index), self._state.flags())[()]

    @exclusive_at
    def next(self, index: Any) -> Any:
        """The slot of the transition after each one; its own where it ends an episode, or is the last."""
        return self._state.rings.next(as_slots(self._state.rings, index), self._state.flags())[()]

    @exclusive
    def unfinished_index(self) -> Slots:
        """The slot of the last transition of each episode that is still going on."""
        rings = self._state.rings
        if not len(rings):
            return np.zeros(0, np.intp)
        last = rings.last[rings.length > 0]
        unfinished: Slots = last[~self.done[last]]
        return unfinished

    def get_buffer_indices(self, start: int, stop: int) -> Slots:
        """The slots from ``start`` up to ``stop``, which is not among them, around the end of the ring if need be.

        ``buffer[buffer.get_buffer_indices(ep_start, last + 1)]`` is an episode.

        Raises:
            StructureError: the two are in different rings (a ``ValueError``).
        """
        return slots_between(self._state.rings, start, stop)

    # ---- files ----------------------------------------------------------------------------------------------------

    @classmethod
    def from_data(cls, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, done: Any, obs_next: Any) -> Self:
        """A full buffer of the given rows, which are copied: arrays, tensors, or datasets of an HDF5 file.

        Raises:
            SizeError: they differ in length (an ``AssertionError`` too).
        """
        given = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        return bulk.from_data(cls, {**given, "done": done, "obs_next": obs_next})

    @exclusive
    def save_hdf5(self, path: str | os.PathLike[str], compression: str | None = None) -> None:
        """Write everything to an HDF5 file, which is there as a whole or not at all. Needs the extra ``hdf5``.

        Args:
            path: the file; one that is there is replaced.
            compression: ``"gzip"`` or ``"lzf"``.

        Raises:
            StorageError: a field holds objects that cannot be written as JSON.
        """
        from typedbatch.buffers import hdf5

        hdf5.save(self._state, path, compression)

    @classmethod
    def load_hdf5(cls, path: str | os.PathLike[str], device: Any = None, *, trusted: bool = False) -> Self:
        """A buffer from such a file; the random numbers go on where they were. Nothing in the file is executed.

        The constructor of a class of your own is not called. A file that Tianshou's buffer of the same name has saved
        is read too, as far as it needs no pickle: its rows and options, not its priorities and random numbers.

        Args:
            path: the file.
            device: where tensors go; None for the CPU.
            trusted: read it in this process, as :func:`typedbatch.files.load` says.

        Raises:
            StorageError: the file is not a buffer of this class, or is damaged.
        """
        from typedbatch.buffers import hdf5

        return hdf5.load(cls, path, device, trusted=trusted)

    @classmethod
    def open(cls, path: str | os.PathLike[str], mode: Literal["r", "r+"] = "r+") -> Self:
        """The buffer that was made with this ``path``, with every row whose ``add`` had returned.

        That holds when the process was killed. When the machine lost power, it holds for what was there at the last
        :meth:`flush`. Random numbers begin anew.

        Args:
            path: the folder.
            mode: ``"r+"`` to go on writing, which one buffer at a time may; ``"r"`` to read, for any number of readers,
                also while it is being written to, and where one may not write. Each call sees the folder as it is
                then; slots mean the rows that they held when the reader last looked at all of them, as ``sample`` does.

        Raises:
            StorageError: the folder holds no buffer of this class, is damaged, or is being written to by another one.
            SettingError: there is no such mode.
        """
        return restore.open_folder(cls, path, mode)

    @exclusive
    def flush(self) -> None:
        """Wait until everything is on the disk, for a buffer that is kept there."""
        self._state.storage.flush()

    def close(self) -> None:
        """Let another buffer write to the folder of this one, which cannot be used any more. In memory nothing happens.

        One whose process ends is closed by that, and one that nobody holds any more when it is collected.
        """
        state = self._state
        with state.guard.lock:
            if state.storage.durable:
                state.guard.refuse("this buffer was closed; open() gives another one on its folder")
                state.storage.close()

    def __getstate__(self) -> dict[str, Any]:
        if self._state.storage.durable:
            raise StorageError("a buffer on disk is not copied or pickled; hand on its path, and open() it there")
        return {name: value for name, value in self.__dict__.items() if name != "_parts"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._parts = []
