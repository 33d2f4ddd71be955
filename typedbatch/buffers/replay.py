"""``ReplayBuffer``: the transitions of the past, to be sampled from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._tree.leaves import Tree, new_tree
from typedbatch._tree.rows import at_least
from typedbatch._typing import Index, with_defaults
from typedbatch.batch import Batch
from typedbatch.buffers import bulk, column_view, incoming, restore
from typedbatch.buffers.base import BufferBase
from typedbatch.buffers.columns import Plan, Simple, rows_at
from typedbatch.buffers.declared import Declared
from typedbatch.buffers.disk import Disk
from typedbatch.buffers.guard import Guard, changing, exclusive, exclusive_at, in_whole, require_writer
from typedbatch.buffers.options import FIELDS, BufferOptions, Column, R, S
from typedbatch.buffers.rings import Added, Rings, Slots
from typedbatch.buffers.selection import as_slots, slots_between
from typedbatch.buffers.storage import Memory
from typedbatch.errors import EmptyBufferError, MissingFieldError

_ONLY = slice(0, 1)


class ReplayBuffer(BufferBase, Generic[R, S]):
    """The last ``size`` transitions of one environment, oldest overwritten first.

    ``ReplayBuffer[GoalRollout](size)`` takes and samples such batches: checkers know it, and at run time the first
    batch is validated, with what sampling will give. After that a row must have the dtypes and shapes of the columns.
    Where what is sampled differs, for example by stacked frames, the second argument says how. Without arguments
    anything with the five required fields is taken.

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
        SizeError: a negative ``size``, or ``stack_num`` below 1.
        StorageError: ``path`` cannot be used.

    As Tianshou's ``ReplayBuffer``; docs/buffers.md lists where behaviour departs.
    """

    _many: ClassVar[bool] = False
    """Whether a batch that is added without ``buffer_ids`` has a row for each ring, or is a single row."""

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
        size, stack_num = at_least(0, size, "size"), at_least(1, stack_num, "stack_num")
        self._options: BufferOptions = {
            "stack_num": stack_num,
            "ignore_obs_next": ignore_obs_next,
            "save_only_last_obs": save_only_last_obs,
            "sample_avail": sample_avail,
            "random_seed": random_seed,
        }
        self.stack_num: int = stack_num
        self._save_obs_next: bool = not ignore_obs_next
        self._save_only_last_obs: bool = save_only_last_obs
        self._sample_avail: bool = sample_avail
        self._rng: np.random.Generator = np.random.default_rng(random_seed)
        self._rings: Rings = Rings([size])
        self._columns: Tree = new_tree(Batch, {})
        self._simple: Simple = {}
        self._declared: Declared | None = None
        self._guard: Guard = Guard()
        self._storage: Memory = Memory() if path is None else Disk.create(path)
        self._begin(ReplayBuffer)

    if not TYPE_CHECKING:

        def __class_getitem__(cls, args: Any) -> Any:
            return super().__class_getitem__(with_defaults(cls, args))

        def __getattr__(self, name: str) -> Any:
            if name[:1] == "_":  # it is looked for before there are columns, by copy and pickle
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self._column(name)

    # ---- what it is -----------------------------------------------------------------------------------------------

    @property
    def maxsize(self) -> int:
        """Rows that there is room for."""
        return self._rings.size

    @property
    def options(self) -> BufferOptions:
        """What the buffer was made with, of what all buffers take, ``path`` excepted."""
        return self._options.copy()

    @property
    def columns(self) -> Batch:
        """The columns, live and in the order of the slots, as a batch to look at.

        In memory, ``buffer.columns.rew = array`` puts another column of ``maxsize`` rows in the place of one, which is
        not checked against what the buffer is declared to hold. As Tianshou's ``_meta``, and under that name too.
        """
        return column_view.Columns.of(self)

    if not TYPE_CHECKING:

        @property
        def _meta(self) -> Batch:
            return self.columns

        @_meta.setter
        def _meta(self, columns: Any) -> None:
            column_view.set_columns(self, columns)

        @property
        def _size(self) -> int:
            return len(self._rings)

        @property
        def _indices(self) -> Slots:
            return np.arange(self.maxsize)

    @property
    @exclusive
    def last_index(self) -> Slots:
        """The slot that was written last, in each ring."""
        return self._rings.last

    @property
    def subbuffer_edges(self) -> Slots:
        """Where rings begin and end: ``[0, maxsize]``; ``[0, n, 2 * n, ...]`` with several."""
        return self._rings.edges.copy()

    @property
    def buffer_num(self) -> int:
        """How many rings there are."""
        return len(self._rings.capacity)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """What every call holds: ``with buffer.lock:`` around several, and no other thread's comes in between."""
        return self._guard.lock

    @property
    @exclusive
    def buffers(self) -> list[ReplayBuffer[R, S]]:
        """Each ring as a buffer of its own, which shares its rows and positions with this one; the same ones always."""
        if not self._parts:
            self._parts = [ReplayBuffer[R, S](capacity, **self._options) for capacity in self._rings.capacity.tolist()]
            self._share_columns()
        return [*self._parts]

    @exclusive
    def __len__(self) -> int:
        """Rows that are stored."""
        return len(self._rings)

    @exclusive
    def __repr__(self) -> str:
        return type(self).__name__ + repr(self._columns).removeprefix("Batch")

    def _column(self, name: str) -> Any:
        try:
            return self._columns.__dict__[name]
        except KeyError:
            raise MissingFieldError(type(self).__name__, name, self._columns.__dict__) from None

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
        guard = self._guard
        with guard.lock:  # as ``changing`` does for other methods; this one is called most
            if guard.unfinished:
                guard.settle()
            if guard.reader is not None:
                require_writer(guard, "add")
            if buffer_ids is None and not self._many:
                fields, done, rew = incoming.to_store(self, batch, ())
                return self._add_one(self._plan(batch, fields, ()), rew, done)
            return self._add_rows(batch, buffer_ids)

    def _add_one(self, plan: Plan, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        guard, undo = self._guard, self._undoing(_ONLY)
        try:  # as ``_change`` does
            guard.unfinished.append(undo)
            if self._durable:
                self._make_room(_ONLY)
            plan.write(self._rings.insertion.item(0))
            added = self._rings.advance_one(rew, done.item())
            self._on_rows_written(added.slots)
            guard.unfinished.pop()
        except BaseException:
            guard.abandoned = True
            guard.settle()
            raise
        return added

    def _add_rows(self, batch: Any, buffer_ids: Any) -> Added:
        ids, rows = incoming.ring_ids(len(self._rings.capacity), buffer_ids)
        if rows == 1 and buffer_ids is not None:
            batch = incoming.single_row(batch)
        fields, done, rew = incoming.to_store(self, batch, (rows,))
        plan = self._plan(batch, fields, (rows,))
        if isinstance(ids, ndarray) and len(ids) > 1 and np.bincount(ids).max() > 1:
            return incoming.add_in_turns(self, plan, ids, rew, done)
        return self._add_many(plan, ids, rew, done)

    def _add_many(self, plan: Plan, ids: Any, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        """Add one row to each of the rings ``ids``, which differ."""
        return self._change(self._undoing(ids), self._write_many, plan, ids, rew, done)

    def _write_many(self, plan: Plan, ids: Any, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        self._make_room(ids)
        plan.write(self._rings.target(ids))
        added = self._rings.advance(ids, rew, done)
        self._on_rows_written(added.slots)
        return added

    # ---- sampling -------------------------------------------------------------------------------------------------

    @exclusive
    def sample(self, batch_size: int | None) -> tuple[S, Slots]:
        """Random transitions, each as likely as the other, with repetition.

        Args:
            batch_size: how many; 0 for all in the order of time, None for as many as there are at random.

        Returns:
            The batch, and the slots that it is from: ``buffer[slots]`` again.

        Raises:
            EmptyBufferError: there is nothing to sample.
        """
        slots = self.sample_indices(batch_size)
        if not self._columns.__dict__ or (not len(slots) and (batch_size is None or batch_size >= 0)):
            raise self._empty()
        return self._rows(slots), slots

    def _empty(self) -> EmptyBufferError:
        return EmptyBufferError(f"this {type(self).__name__} of {self.maxsize} rows is empty; add() transitions first")

    @exclusive
    def sample_indices(self, batch_size: int | None) -> Slots:
        """The slots that :meth:`sample` would take. All of them in the order of time for 0, none for less than 0.

        Raises:
            EmptyBufferError: ``batch_size`` is above 0, and there is nothing to sample.
        """
        batch_size = None if batch_size is None else at_least(-sys.maxsize, batch_size, "batch_size")
        if batch_size is not None and batch_size < 0:
            return np.zeros(0, np.intp)
        if self._sample_avail and self.stack_num > 1:
            slots = self._rings.with_frames(self.stack_num, self._flags()) if len(self._rings) else np.zeros(0, np.intp)
        elif batch_size == 0:
            return self._rings.chronological()
        else:
            count = len(self._rings) if batch_size is None else batch_size
            if count and not len(self._rings):
                raise self._empty()
            return self._draw(count)
        if batch_size == 0:
            return slots
        if batch_size and not len(slots):
            raise EmptyBufferError(f"no row has {self.stack_num} frames, and sample_avail takes no other; add() more")
        return slots[self._rng.integers(0, max(len(slots), 1), len(slots) if batch_size is None else batch_size)]

    def _draw(self, count: int) -> Slots:
        return self._rings.draw(self._rng, count)

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
        if not self._columns.__dict__:
            raise self._empty()
        rows: S = self._rows(as_slots(self._rings, index))
        return rows

    def _rows(self, slots: Any) -> Any:
        frames = self._frames(slots, self.stack_num)
        out: dict[str, Any] = dict.fromkeys(FIELDS)
        for name, column in self._columns.__dict__.items():
            out[name] = self._read(name, column, frames if name in ("obs", "obs_next") else slots)
        if not self._save_obs_next:
            after = self._frames(self._rings.next(slots, self.done)[()], self.stack_num)
            out["obs_next"] = self._read("obs", self.obs, after)
        for name in ("obs_next", "info", "policy"):
            if out[name] is None:
                out[name] = new_tree(Batch, {})
        return self._declaration().typed(out)

    def _read(self, name: str, column: Any, slots: Any) -> Any:
        return rows_at(column, slots)

    def _frames(self, slots: Any, count: int) -> Any:
        if count == 1:
            return slots
        if self._guard.reader is not None:
            self._guard.reader.frames = max(self._guard.reader.frames, count)
        return self._rings.frames(slots, count, self.done)

    def __iter__(self) -> Iterator[S]:
        """Every row, in the order of time, ring by ring."""
        return (self[slot] for slot in in_whole(self, self._rings.chronological).tolist())

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
        if key not in self._columns.__dict__ and default_value is not None:
            return default_value
        column = self._column(key)
        count = self.stack_num if stack_num is None else at_least(1, stack_num, "stack_num")
        frames = self._frames(as_slots(self._rings, index), count)
        return self._read(key, column, frames)

    # ---- neighbours in time ---------------------------------------------------------------------------------------

    @exclusive_at
    def prev(self, index: Any) -> Any:
        """The slot of the transition before each one; its own where it begins an episode, or is the oldest."""
        return self._rings.prev(as_slots(self._rings, index), self._flags())[()]

    @exclusive_at
    def next(self, index: Any) -> Any:
        """The slot of the transition after each one; its own where it ends an episode, or is the last."""
        return self._rings.next(as_slots(self._rings, index), self._flags())[()]

    def _flags(self) -> NDArray[np.bool_]:
        if not self._columns.__dict__:
            raise self._empty()
        flags: NDArray[np.bool_] = self.done
        return flags

    @exclusive
    def unfinished_index(self) -> Slots:
        """The slot of the last transition of each episode that is still going on."""
        if not len(self._rings):
            return np.zeros(0, np.intp)
        last = self._rings.last[self._rings.length > 0]
        unfinished: Slots = last[~self.done[last]]
        return unfinished

    def get_buffer_indices(self, start: int, stop: int) -> Slots:
        """The slots from ``start`` up to ``stop``, which is not among them, around the end of the ring if need be.

        ``buffer[buffer.get_buffer_indices(ep_start, last + 1)]`` is an episode.

        Raises:
            StructureError: the two are in different rings (a ``ValueError``).
        """
        return slots_between(self._rings, start, stop)

    # ---- all of it ------------------------------------------------------------------------------------------------

    def update(self, buffer: ReplayBuffer[Any, Any]) -> Slots:
        """Add the rows of another buffer, in the order of time, as they are stored there.

        Where rows of several rings come into one, ``done`` is true for the last row of each.

        Returns:
            The slot of each row; empty when there is nothing to move, or no room.

        Raises:
            StructureError: this buffer has several rings, and the other not as many.
            RowAssignmentError: rows that do not fit the columns.
        """
        return bulk.update(self, buffer)

    @changing
    def reset(self, keep_statistics: bool = False) -> None:
        """Forget every row; with ``keep_statistics`` the return and length of the current episode go on."""
        forget = partial(self._forget, keep_statistics)
        self._change(forget, forget)  # if it is interrupted, what is left of it is done

    def _forget(self, keep_statistics: bool) -> None:
        self._rings.reset(keep_statistics=keep_statistics)
        self._announce_overwriting(self.maxsize)
        self._on_rows_written(np.zeros(0, np.intp))
        self._on_rows_forgotten(np.arange(self.maxsize))

    @changing
    def set_batch(self, batch: Any) -> None:
        """Make a batch of ``maxsize`` rows the contents, as a copy: every slot is taken then.

        On disk, what was there before is gone as soon as this begins.

        Raises:
            SizeError: it has another number of rows (an ``AssertionError`` too).
            MissingFieldError: a required field is missing.
            SchemaError: a batch that is not of the declared type.
        """
        bulk.set_batch(self, batch)

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
                dtype has none for missing.
        """
        bulk.set_array_at_key(self, seq, key, index, default_value)

    @exclusive
    def hasnull(self) -> bool:
        """True when any stored value is missing: ``None``, NaN or NaT."""
        return bool(len(self._rings)) and Batch.hasnull(bulk.stored_rows(self))

    @exclusive
    def isnull(self) -> Batch:
        """Masks that are true where a value of ``buffer[:]`` is ``None``, NaN or NaT."""
        rows: Any = self[:]
        return Batch.isnull(rows)

    @changing
    def dropnull(self) -> None:
        """Drop the rows in which a field has a missing value; fields keep their shape, the buffer its size.

        An episode that loses its last row ends with the last one that is kept: ``done`` is true there. On disk, every
        row is gone for as long as this takes.
        """
        bulk.drop_null(self)

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

        hdf5.save(self, path, compression)

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
        self._storage.flush()

    def close(self) -> None:
        """Let another buffer write to the folder of this one, which cannot be used any more. In memory nothing happens.

        One whose process ends is closed by that, and one that nobody holds any more when it is collected.
        """
        with self._guard.lock:
            if self._storage.durable:
                self._guard.refuse("this buffer was closed; open() gives another one on its folder")
                self._storage.close()

    def _arguments(self) -> dict[str, Any]:
        """What the constructor is to be called with for such a buffer, as JSON takes it."""
        if self._many:
            return {"total_size": self.maxsize, "buffer_num": self.buffer_num, **self._options}
        return {"size": self.maxsize, **self._options}
