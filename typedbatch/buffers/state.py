"""The state of a buffer: its columns, positions, storage and guard, and hooks that are called when rows change.

Users call methods of a buffer; the functions of this package take its state. A class of buffers that stores more than
rows, such as priorities, has a subclass of ``State``, which overrides the hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core.kinds import Tree, describe, is_placeholder, new_tree
from typedbatch._core.level import current_level
from typedbatch._ops.conversion import map_leaves
from typedbatch.batch import Batch
from typedbatch.buffers import incoming
from typedbatch.buffers.arguments import FIELDS, FILLED_IN, BufferOptions, as_slots, frame_count
from typedbatch.buffers.columns import Lead, Plan, Simple, same_structure, simple_columns, take_slots
from typedbatch.buffers.declared import DeclaredTypes, library_class
from typedbatch.buffers.guard import Guard
from typedbatch.buffers.rings import Rings, Slots
from typedbatch.buffers.storage import Disk, Layout, Memory
from typedbatch.errors import (
    EmptyBufferError,
    LeafError,
    MissingFieldError,
    SettingError,
    SizeError,
    StorageError,
    StructureError,
)

P = ParamSpec("P")
T = TypeVar("T")


def state_of(buffer: Any, who: str = "this") -> State:
    """Return the state of a buffer, or raise a LeafError that says that ``who`` takes one."""
    state = getattr(buffer, "_state", None)
    if not isinstance(state, State):
        raise LeafError(f"{who} takes a buffer, got {describe(buffer)}")
    return state


class State:
    """State of a buffer of class ``cls``, with rings of ``capacities`` slots.

    With ``many``, a batch that is added without ``buffer_ids`` has a row for each ring; else it is a single row.
    """

    def __init__(self, cls: type, capacities: list[int], options: BufferOptions, *, many: bool = False) -> None:
        known: BufferOptions = {
            "stack_num": 1,
            "ignore_obs_next": False,
            "save_only_last_obs": False,
            "sample_avail": False,
            "random_seed": 42,
        }
        if unknown := options.keys() - known - {"path"}:
            raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {min(unknown)!r}")
        known.update(options)
        path = known.pop("path", None)
        self.stack_num: int = frame_count(known["stack_num"], sum(capacities))
        known["stack_num"] = self.stack_num
        self.options: BufferOptions = known
        self.many: bool = many
        """Whether a batch that is added without ``buffer_ids`` has a row for each ring; else it is a single row."""
        self.save_obs_next: bool = not known["ignore_obs_next"]
        self.save_only_last_obs: bool = known["save_only_last_obs"]
        self.stores_all: bool = self.save_obs_next and not self.save_only_last_obs
        """Whether rows are stored with all their fields and frames."""
        self.sample_avail: bool = known["sample_avail"]
        seed = known["random_seed"]
        try:
            self.rng: np.random.Generator = np.random.default_rng(seed)
        except (TypeError, ValueError) as error:
            raise SettingError(f"random_seed must be None or a whole number of at least 0, got {seed!r}") from error
        self.hint: Any = cls
        """Class of the buffer, with its type arguments."""
        self.name: str = cls.__name__
        self.rings: Rings = Rings(capacities)
        self.columns: Tree = new_tree(Batch, {})
        self.simple: tuple[Lead, Simple] = (), {}
        """Leading shape of the rows that were added last, and the columns that store such rows unchanged."""
        self.guard: Guard = Guard()
        self.parent: tuple[State, int] | None = None
        """If this buffer is a ring of another: the state of that one, and the slot there that is slot 0 here."""
        self.parts: list[State] = []
        """States of the rings as buffers of their own, once ``ReplayBuffer.buffers`` has been used."""
        self.storage: Memory = Memory() if path is None else Disk.create(path)
        self.durable: bool = False
        """Whether the rows are on disk; for a ring, whether those of the whole buffer are."""
        self.declared: DeclaredTypes | None = None
        """Cached result of :meth:`declaration`."""

    @property
    def done(self) -> Any:
        """Column that is true for the rows that end an episode."""
        return self.columns.__dict__["done"]

    def owner(self) -> State:
        """Return the state that stores the rows: that of the whole buffer for a ring, otherwise this one."""
        return self if self.parent is None else self.parent[0]

    def require_whole(self, what: str) -> None:
        """Raise a StructureError that begins with ``what`` if this buffer is a ring of another."""
        if self.parent is not None:
            raise StructureError(f"{what} is not possible in a ring of a {self.owner().name}; use the whole buffer")

    def declaration(self) -> DeclaredTypes:
        """Return the declared types of the buffer."""
        if self.declared is None:
            own = DeclaredTypes(self.hint)
            self.declared = own if own.says else self.declared_elsewhere() or own
        return self.declared

    def declared_elsewhere(self) -> DeclaredTypes | None:
        """Return the declared types that a buffer without type arguments takes over, as a ring does; None if none."""
        return None if self.parent is None else self.parent[0].part_declaration()

    def part_declaration(self) -> DeclaredTypes:
        """Return the declared types of the rings of this buffer."""
        return self.declaration()

    def set_stack_num(self, stack_num: Any) -> None:
        """Set the number of frames; see :attr:`ReplayBuffer.stack_num`."""
        frames = frame_count(stack_num, self.owner().rings.size)

        def use(count: int) -> None:
            self.use_frames(count)
            self.on_description_changed()

        def use_if_it_fits() -> None:
            use(frames)
            if self.columns.__dict__:
                self.declaration().validate_sampled(self.rows(np.arange(0)))

        self.transaction(partial(use, self.stack_num), use_if_it_fits)

    def use_frames(self, count: int) -> None:
        """Set the number of frames of this buffer and its rings, without checks."""
        for state in (self, *self.parts):
            state.stack_num = state.options["stack_num"] = count

    # ---- columns --------------------------------------------------------------------------------------------------

    def plan(self, batch: Any, fields: dict[str, Any], lead: Lead) -> Plan:
        """Check rows, of a batch to be validated or None, add columns for new fields, and return the pending writes."""
        if not self.rings.size:
            raise SizeError(f"this {self.name} has a capacity of 0 rows, so nothing can be added")
        plan = Plan(lead, [])
        plan.add(self.columns.__dict__, fields, (), self.simple_columns(lead))
        if batch is not None and (plan.new or plan.fills or current_level() == "values"):
            declared, new = self.declaration(), {field.path[0] for field in plan.new}
            # Rows of the same structure as the columns are valid, because those that created the columns were.
            if not self.columns.__dict__ or plan.fills or new & declared.names() or current_level() == "values":
                rows = {**batch.__dict__, **{name: fields[name] for name in ("rew", "terminated", "truncated")}}
                if not self.save_obs_next:
                    rows.setdefault("obs_next", rows["obs"])
                declared.validate_added(rows, not lead)
        if plan.new:
            self.require_whole(f"adding field {plan.new[0].name!r}")
            self.transaction(self.make_rollback(structure=True), self._add_columns, plan)
        return plan

    def simple_columns(self, lead: Lead) -> Simple:
        """Return the columns that store values of their own dtype and shape unchanged, for rows of a leading shape."""
        if self.simple[0] != lead:
            self.simple = lead, simple_columns(self.columns.__dict__, lead)
        return self.simple[1]

    def _add_columns(self, plan: Plan) -> None:
        columns = self.columns.__dict__
        first = not columns
        plan.add_new_columns(self.rings.size, self.storage)
        in_order = [name for name in FIELDS if name in columns]
        for name in [*in_order, *(name for name in columns if name not in FIELDS)]:  # the order of fields in samples
            columns[name] = columns.pop(name)
        if first:
            self.rings.ep_return = np.zeros((len(self.rings.capacity), *np.shape(columns["rew"])[1:]))
            self.declaration().validate_sampled(self.rows(np.arange(0)))
        self.on_columns_laid_out()

    def on_columns_laid_out(self) -> None:
        """Update the rings and the storage after columns were added or replaced."""
        self.share_columns()
        self.on_description_changed()

    def on_description_changed(self) -> None:
        """Update the storage after the description of the buffer has changed."""
        if self.parent is None:
            self.storage.lay_out(self.description(), self.columns, self.numbers())

    def share_columns(self) -> None:
        """Update everything that refers to the columns and positions after these objects were replaced."""
        self.guard.durable = self.durable = self.owner().storage.durable
        self.simple = (), simple_columns(self.columns.__dict__, ())
        for ring, part in enumerate(self.parts):
            start, stop = self.rings.edges[ring : ring + 2].tolist()
            part.columns = map_leaves(self.columns, itemgetter(slice(start, stop)))
            part.rings = self.rings.part(ring)
            part.parent = (self, start)
            part.guard, part.rng = self.guard, self.rng
            part.share_columns()

    # ---- reading --------------------------------------------------------------------------------------------------

    def rows(self, slots: Any, elsewhere: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """Return rows as they are sampled: with frames, computed fields, and the declared type.

        Fields named by ``elsewhere`` are read from other slots.
        """
        frames, declared = self.frames(slots, self.stack_num), self.declaration()
        out = declared.template.copy()
        left_out = declared.left_out
        for name, column in self.columns.__dict__.items():
            if name in elsewhere:
                out[name] = self.read(name, column, elsewhere[name], elsewhere[name])
            elif name not in left_out or (name != "done" and not is_placeholder(column)):
                out[name] = self.read(name, column, frames if name in ("obs", "obs_next") else slots, slots)
        if not self.save_obs_next and "obs_next" in out:
            out["obs_next"] = self.obs_next(slots, slots)
        for name in FILLED_IN:
            if name in out and out[name] is None:
                out[name] = new_tree(Batch, {})
        return declared.typed(out)

    def read(self, name: str, column: Any, slots: Any, rows: Any) -> Any:
        """Return a copy of some slots of a field, each read for a row, whose goal it gets in a hindsight buffer."""
        return column.take(slots, 0) if type(column) is ndarray else take_slots(column, slots)

    def obs_next(self, slots: Any, rows: Any) -> Any:
        """Return the observations after some slots, read for ``rows``, with frames, also if they are not stored."""
        if self.save_obs_next:
            return self.read("obs_next", self.column("obs_next"), self.frames(slots, self.stack_num), rows)
        after = self.rings.next(slots, self.done)[()]
        return self.read("obs", self.columns.__dict__["obs"], self.frames(after, self.stack_num), rows)

    def frames(self, slots: Any, count: int) -> Any:
        """Return the slots of the last ``count`` rows up to each of ``slots``, or ``slots`` itself if that is 1."""
        if count == 1:
            return slots
        if self.guard.reader is not None:
            self.guard.reader.frames = max(self.guard.reader.frames, count)
        return self.rings.frames(slots, count, self.done)

    def column(self, name: str) -> Any:
        """Return the column of a field."""
        try:
            return self.columns.__dict__[name]
        except KeyError:
            raise MissingFieldError(self.name, name, self.columns.__dict__) from None

    def field(self, name: str, index: Any, default: Any, stack_num: int | None) -> Any:
        """Return a field of some rows; see :meth:`ReplayBuffer.get`."""
        if default is not None and name not in self.columns.__dict__:
            return default
        column = self.column(name)
        count = self.stack_num if stack_num is None else frame_count(stack_num, self.rings.size)
        slots = as_slots(self.rings, index)
        return self.read(name, column, self.frames(slots, count), slots)

    def shown(self, name: str) -> Any:
        """Return the value of ``buffer.name``: the column, unless rows are read with values that are not stored."""
        return self.column(name)

    def flags(self) -> NDArray[np.bool_]:
        """Return the column ``done``, or raise an EmptyBufferError if nothing has been added yet."""
        if not self.columns.__dict__:
            raise self.empty()
        flags: NDArray[np.bool_] = self.done
        return flags

    def ahead(self, slots: Slots, steps: int) -> tuple[list[Slots], list[NDArray[np.bool_]]]:
        """Return the slots that rows look ahead to, as :meth:`Rings.ahead` does, up to the ends of episodes as read."""
        return self.rings.ahead(slots, self.flags(), steps)

    def call_for_rows(self, call: Callable[[], T], slots: Slots, rows: Slots) -> T:
        """Call a function that reads the buffer at ``slots``, to which the rows in the slots ``rows`` look ahead."""
        return call()

    def empty(self) -> EmptyBufferError:
        """Return the error for a call that needs a row in an empty buffer."""
        return EmptyBufferError(f"this {self.name} of {self.rings.size} rows is empty; add() transitions first")

    def draw(self, count: int) -> Slots:
        """Draw ``count`` slots that hold a row, with replacement."""
        return self.rings.draw(self.rng, count)

    def draw_windows(self, total: int, count: int, begins: Callable[[Slots], Slots]) -> Slots:
        """Draw ``count`` numbers of ``total`` windows in time order, or return all if ``count`` is 0.

        ``begins`` takes numbers of windows, and returns the slots of their first rows to learn from.
        """
        return self.rng.integers(0, total, count) if count else np.arange(total)

    def fields_of_windows(self, begins: Slots) -> dict[str, Any]:
        """Return fields of windows whose first rows to learn from are in some slots, ``(n, ...)``."""
        return {}

    def draw_with_frames(self, count: int | None) -> Slots:
        """Draw slots as :meth:`ReplayBuffer.sample_indices` does, of rows that have all their frames."""
        slots = np.zeros(0, np.intp)
        if len(self.rings):
            slots = self.rings.chronological()
            frames = self.rings.frames(slots, self.stack_num, self.done)
            slots = slots[frames[:, 0] != frames[:, 1]]
        if count == 0:
            return slots
        if count and not len(slots):
            text = f"with sample_avail only rows of {self.stack_num} frames are sampled, and none is stored; add() more"
            raise EmptyBufferError(text)
        return slots[self.rng.integers(0, max(len(slots), 1), len(slots) if count is None else count)]

    # ---- episodes -------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> int:
        """Number of rings that rows are added to."""
        return len(self.rings.capacity)

    def unfinished(self, ids: Slots) -> Slots:
        """Return the slot of the last row of each unfinished episode in some rings."""
        last = self.rings.last[ids[self.rings.length[ids] > 0]]
        slots: Slots = last[~self.done[last]] if len(last) else last
        return slots

    def cut_episodes(self, ids: Slots | None = None) -> None:
        """Mark the current episodes of rings, by default all, as truncated at their last rows, as others will follow.

        If this is interrupted, the rollback finishes it. If the process is killed, the next call finishes it.
        """
        ids = np.arange(len(self.rings.capacity)) if ids is None else ids
        last = self.unfinished(ids)
        if len(last) or self.rings.ep_len[ids].any():  # reset() may keep the statistics of an episode without rows
            if len(last) and not self.save_obs_next:
                incoming.warn_if_truncated(np.False_, np.True_)
            cut = partial(self._cut, ids, last)
            self.transaction(cut, cut)

    def _cut(self, ids: Slots, last: Slots) -> None:
        rings, columns = self.rings, self.columns.__dict__
        rings.ep_return[ids] = rings.ep_len[ids] = 0
        rings.ep_start[ids] = rings.insertion[ids]
        # Commit first: if the process is killed in between, no episode that is marked as ended has statistics.
        self.on_rows_written(last[:0])
        columns["truncated"][last] = True
        columns["done"][last] = True

    def reset(self, keep_statistics: bool) -> None:
        """Remove all rows; see :meth:`ReplayBuffer.reset`. The rollback finishes this, as rows cannot be restored."""
        forget = partial(self.forget, keep_statistics)
        self.transaction(forget, forget)

    def forget(self, keep_statistics: bool) -> None:
        """Remove all rows, without a rollback."""
        self.rings.reset(keep_statistics=keep_statistics)
        self.announce_overwriting(self.rings.size)
        self.on_rows_written(np.zeros(0, np.intp))
        self.on_rows_forgotten(0, self.rings.size)

    # ---- atomic changes -------------------------------------------------------------------------------------------

    def transaction(self, rollback: Callable[[], None], act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function and return its result; if any exception ends it, roll back, which may happen repeatedly."""
        guard = self.guard
        try:
            guard.unfinished.append(rollback)
            out = act(*args, **kwargs)
            guard.unfinished.pop()
        except BaseException:
            guard.abandoned = True
            guard.rollback_unfinished()
            raise
        return out

    def make_rollback(self, ids: Any = None, count: Any = 1, *, structure: bool = False) -> Callable[[], None]:
        """Return the rollback of a change to ``count`` rows of the rings ``ids``, or with ``structure`` to the columns.

        It drops the rows that may have been overwritten, and can be called again if it is interrupted. On disk it reads
        the folder, which is in the state that a killed process would have left. If a collector has added the last rows,
        and others will follow now, the collector's episodes are cut first.
        """
        owner = self.owner()
        if ids is not None and self.guard.mark is not None:
            self.guard.mark = None
            owner.cut_episodes()
        if self.durable:
            return owner.read_again
        rings, returns = self.rings, owner.rings.ep_return
        columns = same_structure(owner.columns) if structure else None
        counts, values = owner.rings.counts.tobytes(), returns.tobytes()

        def restore_positions() -> None:
            owner.rings.counts.ravel()[:] = np.frombuffer(counts, np.int64)
            returns.ravel()[:] = np.frombuffer(values)
            owner.rings.ep_return = returns
            if ids is not None:
                rings.drop_oldest(ids, count)
            if columns is not None:
                owner.columns = same_structure(columns)
            owner.share_columns()
            owner.on_rows_dropped()

        return restore_positions

    def begin_overwrite(self, ids: Any, count: Any = 1) -> None:
        """Drop the rows that are about to be overwritten, and commit that; called before rows are written on disk."""
        if self.durable:
            self.rings.drop_oldest(ids, count)
            owner = self.owner()
            owner.storage.commit(owner.numbers(), int(np.max(count)), begun=True)

    def announce_overwriting(self, count: int) -> None:
        """Tell readers of the folder that any ``count`` slots of a ring may be overwritten. Does nothing in memory."""
        if self.durable:
            owner = self.owner()
            owner.storage.commit(owner.numbers(), count)

    # ---- hooks, which states that store more than rows override ---------------------------------------------------

    def on_rows_written(self, slots: Slots) -> None:
        """Commit the positions; called after rows were written and the positions were advanced."""
        if self.parent is not None:
            parent, start = self.parent
            parent.on_rows_written(slots + start)
        elif self.storage.durable:
            self.storage.commit(self.numbers())

    def on_rows_forgotten(self, start: int, stop: int) -> None:
        """Handle that the slots from ``start`` up to ``stop`` no longer hold rows."""
        if self.parent is not None:
            parent, first = self.parent
            parent.on_rows_forgotten(start + first, stop + first)

    def on_rows_moved(self, slots: Slots, extras: dict[str, NDArray[np.float64]]) -> None:
        """Handle that rows were moved to other slots; ``extras`` are the numbers that belong to them."""

    def on_rows_dropped(self) -> None:
        """Handle that rows no longer count, after a rollback or because another process overwrites them."""

    def on_reopened(self) -> None:
        """Finish what was interrupted if the process was killed; called after the buffer was opened or read again."""

    def numbers(self) -> NDArray[np.float64]:
        """Return all numbers, apart from the columns, that change when a row is added."""
        return self.rings.numbers()

    def restore(self, numbers: NDArray[np.float64]) -> None:
        """Restore the result of :meth:`numbers`, for the current columns."""
        columns = self.columns.__dict__
        self.rings.restore(numbers, np.shape(columns["rew"])[1:] if columns else ())

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments of the buffer, in types that JSON has."""
        if self.many:
            return {"total_size": self.rings.size, "buffer_num": len(self.rings.capacity), **self.options}
        return {"size": self.rings.size, **self.options}

    # ---- storage --------------------------------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """Return the class and constructor arguments of the buffer, in types that JSON has."""
        return {"class": library_class(self.hint).__name__, "arguments": self.arguments()}

    def read_again(self) -> None:
        """Restore a buffer on disk from its folder, as after a kill."""
        disk: Any = self.storage
        layout: Layout = disk.read()
        self.columns = layout.columns
        self.restore(layout.numbers)
        self.share_columns()
        self.on_rows_dropped()
        self.on_reopened()

    def close(self) -> None:
        """Release the folder; see :meth:`ReplayBuffer.close`."""
        with self.guard.lock:
            if self.storage.durable:
                with suppress(OSError, StorageError):  # the folder may be gone
                    self.storage.store_random(self.rng.bit_generator.state)
                self.guard.refuse("this buffer was closed; open() its folder to use it again")
                self.storage.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("parts", "guard")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.guard = Guard()
        self.parts = []
        self.share_columns()
