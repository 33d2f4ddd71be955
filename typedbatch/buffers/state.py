"""What a buffer keeps: rows in columns, their positions, a place where both are; and what has to know of changes.

A buffer is what people call; the functions of this package take its state. A class of buffers that keeps more beside
its rows, such as priorities, has a state of its own, which overrides what is called when rows come and go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._level import current_level
from typedbatch._tree.leaves import Tree, describe, is_reserved, new_tree
from typedbatch.batch import Batch
from typedbatch.buffers import incoming
from typedbatch.buffers.columns import Plan, Simple, same_structure, simple_columns, slice_of, take_slots
from typedbatch.buffers.declared import Declared, library_class
from typedbatch.buffers.disk import Disk, Layout
from typedbatch.buffers.guard import Guard
from typedbatch.buffers.options import FIELDS, FILLED_IN, BufferOptions
from typedbatch.buffers.rings import Added, Rings, Slots
from typedbatch.buffers.settings import frame_count, generator
from typedbatch.buffers.storage import Memory
from typedbatch.errors import (
    EmptyBufferError,
    LeafError,
    MissingFieldError,
    SizeError,
    StructureError,
)

P = ParamSpec("P")
T = TypeVar("T")

_ONLY = slice(0, 1)


def state_of(buffer: Any, who: str = "this") -> State:
    """What a buffer keeps.

    Raises:
        LeafError: it is not a buffer.
    """
    state = getattr(buffer, "_state", None)
    if not isinstance(state, State):
        raise LeafError(f"{who} takes a buffer, got {describe(buffer)}")
    return state


class State:
    """The rows of a buffer, and all that belongs to them.

    Args:
        cls: the class of the buffer.
        capacities: slots of each ring.
        options: what the buffer was made with.
        many: whether a batch that is added without ``buffer_ids`` has a row for each ring, or is a single row.

    Raises:
        TypeError: there is no such option.
        SizeError: ``stack_num`` is below 1, or above 1,000 and the number of slots.
        SettingError: a ``random_seed`` that is none.
        StorageError: the folder cannot be used.
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
        self.save_obs_next: bool = not known["ignore_obs_next"]
        self.save_only_last_obs: bool = known["save_only_last_obs"]
        self.sample_avail: bool = known["sample_avail"]
        self.rng: np.random.Generator = generator(known["random_seed"])
        self.hint: Any = cls
        """The class of the buffer, with what it was declared to hold."""
        self.name: str = cls.__name__
        self.rings: Rings = Rings(capacities)
        self.columns: Tree = new_tree(Batch, {})
        self.simple: Simple = {}
        """The columns that take what has their dtype and shape as it is."""
        self.guard: Guard = Guard()
        self.whole: tuple[State, int] | None = None
        """The state that this one is a ring of, and the slot there that is the first one here."""
        self.parts: list[State] = []
        """The rings, each by itself, if anybody asked for them."""
        self.storage: Memory = Memory() if path is None else Disk.create(path)
        self.durable: bool = False
        """Whether the rows, maybe those of the buffer that this one is a ring of, are on disk."""
        self.declared: Declared | None = None
        self.mark: object = None
        """What a collector left that has added the last rows; see ``typedbatch.training.following``."""

    @property
    def done(self) -> Any:
        """The column that is true where an episode ends."""
        return self.columns.__dict__["done"]

    def owner(self) -> State:
        """What the rows are stored by: the state that this one is a ring of, or this one."""
        return self if self.whole is None else self.whole[0]

    def require_whole(self, what: str) -> None:
        """Raise an error for a ring of a buffer.

        Raises:
            StructureError: it is one.
        """
        if self.whole is not None:
            raise StructureError(f"{what} is not possible in a ring of a {self.owner().name}; use the whole buffer")

    def declaration(self) -> Declared:
        """What the buffer is declared to hold."""
        if self.declared is None:
            own = Declared(self.hint)
            self.declared = own if own.says else self.declared_elsewhere() or own
        return self.declared

    def declared_elsewhere(self) -> Declared | None:
        """What another buffer says of this one's rows: the one that this is a ring of."""
        return None if self.whole is None else self.whole[0].part_declaration()

    def part_declaration(self) -> Declared:
        """What a ring of this buffer is declared to hold."""
        return self.declaration()

    def set_stack_num(self, stack_num: Any) -> None:
        """Change the number of frames; see :attr:`ReplayBuffer.stack_num`.

        Raises:
            SizeError: it is no number of frames.
            SchemaError: what would be sampled is not of the declared type.
        """
        frames = frame_count(stack_num, self.owner().rings.size)

        def use(count: int) -> None:
            self.use_frames(count)
            self.on_described_anew()

        def use_if_it_fits() -> None:
            use(frames)
            if self.columns.__dict__:
                self.declaration().validate_sampled(self.rows(np.arange(0)))

        self.change(partial(use, self.stack_num), use_if_it_fits)

    def use_frames(self, count: int) -> None:
        """Sample so many frames, from each ring by itself too."""
        for state in (self, *self.parts):
            state.stack_num = state.options["stack_num"] = count

    # ---- columns --------------------------------------------------------------------------------------------------

    def plan(self, batch: Any, fields: dict[str, Any], lead: tuple[()] | tuple[int]) -> Plan:
        """Rows that fit, with columns for fields that are new; ``batch`` is what they are of, None if of a buffer."""
        plan = Plan(lead)
        plan.add(self.columns.__dict__, fields, (), self.simple)
        if batch is not None and (plan.new or plan.fills or current_level() == "values"):
            incoming.validate_added(self, batch, fields, plan)
        if plan.new:
            self._grow(plan)
        return plan

    def _grow(self, plan: Plan) -> None:
        self.require_whole(f"adding field {plan.new[0].name!r}")
        if not self.rings.size:
            raise SizeError(f"this {self.name} has room for 0 rows")
        self.change(self.undoing(structure=True), self._add_columns, plan)

    def _add_columns(self, plan: Plan) -> None:
        columns = self.columns.__dict__
        first = not columns
        plan.add_new_columns(self.rings.size, self.storage)
        in_order = [name for name in FIELDS if name in columns]
        for name in [*in_order, *(name for name in columns if name not in FIELDS)]:  # in which they are sampled
            columns[name] = columns.pop(name)
        if first:
            self.rings.ep_return = np.zeros((len(self.rings.capacity), *np.shape(columns["rew"])[1:]))
            self.declaration().validate_sampled(self.rows(np.arange(0)))
        self.on_columns_laid_out()

    def on_columns_laid_out(self) -> None:
        """Called when there are other columns than before."""
        self.share_columns()
        self.on_described_anew()

    def on_described_anew(self) -> None:
        """Called when there are other columns than before, or the buffer would be made with other arguments."""
        if self.whole is None:
            self.storage.lay_out(self.description(), self.columns, self.numbers())

    def share_columns(self) -> None:
        """Called when columns or positions are other objects than before."""
        self.guard.durable = self.durable = self.owner().storage.durable
        self.simple = simple_columns(self.columns.__dict__)
        for ring, part in enumerate(self.parts):
            self._share(ring, part)

    def _share(self, ring: int, part: State) -> None:
        """Make the rows and the positions of one ring those of ``part``."""
        start, stop = self.rings.edges[ring : ring + 2].tolist()
        part.columns = slice_of(self.columns, start, stop)
        part.rings = self.rings.part(ring)
        part.whole = (self, start)
        part.guard = self.guard
        part.share_columns()

    # ---- reading --------------------------------------------------------------------------------------------------

    def rows(self, slots: Any) -> Any:
        """Some rows, as they are sampled."""
        frames, declared = self.frames(slots, self.stack_num), self.declaration()
        out: dict[str, Any] = {name: None for name in FIELDS if name not in declared.left_out}
        for name, column in self.columns.__dict__.items():
            if name not in declared.left_out or (name != "done" and not is_reserved(column)):
                out[name] = self.read(name, column, frames if name in ("obs", "obs_next") else slots)
        if not self.save_obs_next and "obs_next" in out:
            after = self.frames(self.rings.next(slots, self.done)[()], self.stack_num)
            out["obs_next"] = self.read("obs", self.columns.__dict__["obs"], after)
        for name in FILLED_IN:
            if name in out and out[name] is None:
                out[name] = new_tree(Batch, {})
        return declared.typed(out)

    def read(self, name: str, column: Any, slots: Any) -> Any:
        """Some rows of a field."""
        return take_slots(column, slots)

    def frames(self, slots: Any, count: int) -> Any:
        """The slots of the last ``count`` rows up to each of ``slots``; they themselves for one."""
        if count == 1:
            return slots
        if self.guard.reader is not None:
            self.guard.reader.frames = max(self.guard.reader.frames, count)
        return self.rings.frames(slots, count, self.done)

    def column(self, name: str) -> Any:
        """The column of a field.

        Raises:
            MissingFieldError: there is none.
        """
        try:
            return self.columns.__dict__[name]
        except KeyError:
            raise MissingFieldError(self.name, name, self.columns.__dict__) from None

    def shown(self, name: str) -> Any:
        """What the buffer shows of a column: itself, unless its rows are read as others than are stored."""
        return self.column(name)

    def flags(self) -> NDArray[np.bool_]:
        """Where episodes end.

        Raises:
            EmptyBufferError: there are no columns yet.
        """
        if not self.columns.__dict__:
            raise self.empty()
        flags: NDArray[np.bool_] = self.done
        return flags

    def empty(self) -> EmptyBufferError:
        """What to raise where there has to be a row."""
        return EmptyBufferError(f"this {self.name} of {self.rings.size} rows is empty; add() transitions first")

    def draw(self, count: int) -> Slots:
        """So many slots with a row, at random."""
        return self.rings.draw(self.rng, count)

    # ---- adding ---------------------------------------------------------------------------------------------------

    def add_one(self, plan: Plan, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        """Add a row to the only ring."""
        guard, undo = self.guard, self.undoing(_ONLY)
        try:  # as ``change`` does
            guard.unfinished.append(undo)
            if self.durable:
                self.make_room(_ONLY)
            plan.write(self.rings.insertion.item(0))
            added = self.rings.advance_one(rew, done.item())
            self.on_rows_written(added.slots)
            guard.unfinished.pop()
        except BaseException:
            guard.abandoned = True
            guard.settle()
            raise
        return added

    def add_many(self, plan: Plan, ids: Any, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        """Add one row to each of the rings ``ids``, which differ."""
        return self.change(self.undoing(ids), self._write_many, plan, ids, rew, done)

    def _write_many(self, plan: Plan, ids: Any, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        self.make_room(ids)
        place = self.rings.place(ids)
        plan.write(place)
        added = self.rings.advance(ids, place, rew, done)
        self.on_rows_written(added.slots)
        return added

    def add_block(self, plan: Plan, ids: Slots, rew: NDArray[Any], done: NDArray[np.bool_]) -> Added:
        """Add rows of which several go into the same ring, one after the other; one write for each column."""
        counts = np.bincount(ids, minlength=len(self.rings.capacity))
        room = np.minimum(counts, self.rings.capacity)
        return self.change(self.undoing(slice(None), room), self._write_block, plan, ids, counts, room, rew, done)

    def _write_block(
        self, plan: Plan, ids: Slots, counts: Slots, room: Slots, rew: NDArray[Any], done: NDArray[np.bool_]
    ) -> Added:
        self.make_room(slice(None), room)
        order = ids.argsort(kind="stable")
        ids = ids[order]
        added = self.rings.advance_block(ids, rew[order], done[order])
        kept = np.flatnonzero(np.arange(len(ids)) >= (np.cumsum(counts) - room)[ids])  # the last ones that have room
        slots = added.slots[kept]
        plan.part(order[kept]).write(slots)
        self.on_rows_written(slots)
        back = order.argsort()
        return Added(*(column[back] for column in added))

    def cut_episodes(self, ids: Slots) -> None:
        """Let the episodes that rings are in count as truncated at their last rows, as what follows is of others.

        If it is interrupted, what is left of it is done; if the process is killed, the next call does it.
        """
        ids = ids[self.rings.length[ids] > 0]
        if len(ids):
            ids = ids[~self.done[self.rings.last[ids]]]
        if len(ids):
            cut = partial(self._cut, ids, self.rings.last[ids])
            self.change(cut, cut)

    def _cut(self, ids: Slots, last: Slots) -> None:
        rings, columns = self.rings, self.columns.__dict__
        rings.ep_return[ids] = rings.ep_len[ids] = 0
        rings.ep_start[ids] = rings.insertion[ids]
        self.on_rows_written(last[:0])  # first, as an episode that is marked as ended has no statistics
        columns["truncated"][last] = True
        columns["done"][last] = True

    def forget(self, keep_statistics: bool = False) -> None:
        """Forget every row."""
        self.rings.reset(keep_statistics=keep_statistics)
        self.announce_overwriting(self.rings.size)
        self.on_rows_written(np.zeros(0, np.intp))
        self.on_rows_forgotten(0, self.rings.size)

    # ---- changes that are done as a whole or not at all -----------------------------------------------------------

    def change(self, undo: Callable[[], None], act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something that is undone if an exception ends it, whichever."""
        guard = self.guard
        try:
            guard.unfinished.append(undo)
            out = act(*args, **kwargs)
            guard.unfinished.pop()
        except BaseException:
            guard.abandoned = True
            guard.settle()
            raise
        return out

    def undoing(self, ids: Any = None, count: Any = 1, *, structure: bool = False) -> Callable[[], None]:
        """What undoes a change that is about to begin, and may itself be called again if it is interrupted.

        On disk that is to read the folder, which is what it would be if the process had been killed.

        Args:
            ids: the rings that rows will be written to, if any; those that they overwrite are gone then.
            count: how many rows each; one number, or one for each ring.
            structure: whether there may be other columns.
        """
        owner = self.owner()
        if self.durable:
            return owner.read_again
        rings = owner.rings
        returns = rings.ep_return
        columns = same_structure(owner.columns) if structure else None
        positions = rings.counts.tobytes(), returns, returns.tobytes()
        return partial(owner.put_back, positions, columns, self.rings, ids, count)

    def put_back(self, positions: Any, columns: Tree | None, rings: Rings, ids: Any, count: Any) -> None:
        """Go back to positions and columns, without the rows that ``count`` more in rings would have overwritten."""
        counts, returns, values = positions
        self.rings.counts.ravel()[:] = np.frombuffer(counts, np.int64)
        returns.ravel()[:] = np.frombuffer(values)
        self.rings.ep_return = returns
        if ids is not None:
            rings.drop_oldest(ids, count)
        if columns is not None:
            self.columns = same_structure(columns)
        self.share_columns()
        self.on_rows_dropped()

    def make_room(self, ids: Any, count: Any = 1) -> None:
        """Called before rows are written: on disk, those that will be overwritten no longer count."""
        if self.durable:
            self.rings.drop_oldest(ids, count)
            owner = self.owner()
            owner.storage.commit(owner.numbers(), int(np.max(count)), begun=True)

    def announce_overwriting(self, count: int) -> None:
        """Called when so many slots of a ring may be written to next, whichever they are: on disk, others are told."""
        if self.durable:
            owner = self.owner()
            owner.storage.commit(owner.numbers(), count)

    # ---- what a class that keeps more than rows overrides ---------------------------------------------------------

    def on_rows_written(self, slots: Slots) -> None:
        """Called when rows have been written and counted in."""
        if self.whole is not None:
            whole, start = self.whole
            whole.on_rows_written(slots + start)
        elif self.storage.durable:
            self.storage.commit(self.numbers())

    def on_rows_forgotten(self, start: int, stop: int) -> None:
        """Called when the slots from ``start`` up to ``stop`` hold rows no longer."""
        if self.whole is not None:
            whole, first = self.whole
            whole.on_rows_forgotten(start + first, stop + first)

    def on_rows_moved(self, slots: Slots, extras: dict[str, NDArray[np.float64]]) -> None:
        """Called when rows were moved to other slots, with the numbers that belong to them."""

    def on_rows_dropped(self) -> None:
        """Called when rows no longer count that did, because a change was undone or another process overwrites them."""

    def on_reopened(self) -> None:
        """Called when the buffer was opened again, maybe after the process was killed."""

    def numbers(self) -> NDArray[np.float64]:
        """Everything that changes with a row, beside the row."""
        return self.rings.numbers()

    def restore(self, numbers: NDArray[np.float64]) -> None:
        """Take over what ``numbers`` gave, for the columns that are there.

        Raises:
            SizeError: they do not fit.
        """
        columns = self.columns.__dict__
        self.rings.restore(numbers, np.shape(columns["rew"])[1:] if columns else ())

    def arguments(self) -> dict[str, Any]:
        """What the constructor is to be called with for such a buffer, as JSON takes it."""
        if self.many:
            return {"total_size": self.rings.size, "buffer_num": len(self.rings.capacity), **self.options}
        return {"size": self.rings.size, **self.options}

    # ---- as data --------------------------------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """What it takes to make such a buffer, as JSON takes it."""
        return {"class": library_class(self.hint).__name__, "arguments": self.arguments()}

    def read_again(self) -> None:
        """Make a buffer on disk what its folder says, as after a kill."""
        disk: Any = self.storage
        layout: Layout = disk.read()
        self.columns = layout.columns
        self.restore(layout.numbers)
        self.share_columns()
        self.on_rows_dropped()
        self.on_reopened()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("parts", "guard")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.guard = Guard()
        self.parts = []
        self.share_columns()
