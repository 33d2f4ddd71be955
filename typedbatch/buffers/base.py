"""What every buffer is made of: columns, positions, and a place where both are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._level import current_level
from typedbatch._tree.leaves import Tree
from typedbatch.buffers import bulk, incoming, restore
from typedbatch.buffers.columns import Plan, Simple, simple_columns
from typedbatch.buffers.declared import Declared
from typedbatch.buffers.guard import Guard
from typedbatch.buffers.options import FIELDS
from typedbatch.buffers.rings import Rings, Slots
from typedbatch.buffers.storage import Memory
from typedbatch.errors import SizeError, StorageError, StructureError

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer

P = ParamSpec("P")
T = TypeVar("T")


class BufferBase:
    """A buffer without anything to call: rows on their way in, and who has to know of it."""

    _rings: Rings
    _columns: Tree
    _storage: Memory
    _simple: Simple
    _declared: Declared | None
    _save_obs_next: bool
    _guard: Guard
    _durable: bool = False
    """Whether the rows, maybe those of the buffer that this one is a ring of, are on disk."""
    _whole: tuple[ReplayBuffer[Any, Any], int] | None = None
    """The buffer that this one is a ring of, and the slot there that is the first one here."""
    _parts: Sequence[ReplayBuffer[Any, Any]] = ()
    """The rings of this buffer, if anybody asked for them."""

    def _begin(self, cls: type) -> None:
        """Called at the end of each constructor; that of ``cls`` is the last one if the buffer is of that class."""
        if self._storage.durable and restore.library_class(type(self)) is cls:
            self._on_columns_laid_out()

    if TYPE_CHECKING:

        def _rows(self, slots: Any) -> Any:
            """Some rows, as they are sampled."""

        def _arguments(self) -> dict[str, Any]:
            """What the constructor is to be called with for such a buffer, as JSON takes it."""
            ...

    def _plan(self, batch: Any, fields: dict[str, Any], lead: tuple[()] | tuple[int]) -> Plan:
        """Rows that fit, with columns for fields that are new; ``batch`` is what they are of, None if of a buffer."""
        plan = Plan(lead)
        columns = self._columns.__dict__
        plan.add(columns, fields, (), self._simple)
        if batch is not None and (plan.new or plan.fills or current_level() == "values"):
            incoming.check(self, batch, fields, plan)
        if plan.new:
            self._grow(plan)
        return plan

    def _grow(self, plan: Plan) -> None:
        self._require_whole(f"a new field, as {plan.new[0].name!r}")
        if not self._rings.size:
            raise SizeError(f"this {type(self).__name__} has room for 0 rows")
        self._change(self._undoing(structure=True), self._add_columns, plan)

    def _add_columns(self, plan: Plan) -> None:
        columns = self._columns.__dict__
        first = not columns
        plan.add_new_columns(self._rings.size, self._storage)
        in_order = [name for name in FIELDS if name in columns]
        for name in [*in_order, *(name for name in columns if name not in FIELDS)]:  # in which they are sampled
            columns[name] = columns.pop(name)
        if first:
            self._rings.ep_return = np.zeros((len(self._rings.capacity), *np.shape(columns["rew"])[1:]))
            self._declaration().check_sampled(self._rows(np.arange(0)))
        self._on_columns_laid_out()

    def _on_columns_laid_out(self) -> None:
        """Called when there are other columns than before."""
        self._share_columns()
        self._storage.lay_out(restore.description(self), self._columns, self._numbers())

    def _share_columns(self) -> None:
        """Called when columns or positions are other objects than before."""
        this: Any = self
        self._durable = (self if self._whole is None else self._whole[0])._storage.durable
        self._guard.durable = self._durable
        self._simple = simple_columns(self._columns.__dict__)
        for ring, part in enumerate(self._parts):
            bulk.share(this, ring, part)

    def _require_whole(self, what: str) -> None:
        if self._whole is not None:
            whole = type(self._whole[0]).__name__
            raise StructureError(f"this is a ring of a {whole}; {what} is for the whole of it")

    def _declaration(self) -> Declared:
        if self._declared is None:
            own = Declared(self)
            self._declared = own if own.says or self._whole is None else self._whole[0]._part_declaration()
        return self._declared

    def _part_declaration(self) -> Declared:
        """What a ring of this buffer is declared to hold."""
        return self._declaration()

    # ---- changes that are done as a whole or not at all -------------------------------------------------------------

    def _change(self, undo: Callable[[], None], act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something that is undone if an exception ends it, whichever."""
        guard = self._guard
        try:
            guard.unfinished.append(undo)
            out = act(*args, **kwargs)
            guard.unfinished.pop()
        except BaseException:
            guard.abandoned = True
            guard.settle()
            raise
        return out

    def _undoing(self, ids: Any = None, count: int = 1, *, structure: bool = False) -> Callable[[], None]:
        """What undoes a change that is about to begin, and may itself be called again if it is interrupted.

        On disk that is to read the folder, which is what it would be if the process had been killed.

        Args:
            ids: the rings that rows will be written to, if any; those that they overwrite are gone then.
            count: how many rows each.
            structure: whether there may be other columns.
        """
        owner: Any = self if self._whole is None else self._whole[0]
        if self._durable:
            return partial(restore.read_again, owner)
        rings = owner._rings
        returns = rings.ep_return
        columns = bulk.same_structure(owner._columns) if structure else None
        positions = rings.counts.tobytes(), returns, returns.tobytes()
        return partial(owner._put_back, positions, columns, self._rings, ids, count)

    def _put_back(self, positions: Any, columns: Tree | None, rings: Rings, ids: Any, count: int) -> None:
        counts, returns, values = positions
        self._rings.counts.ravel()[:] = np.frombuffer(counts, np.int64)
        returns.ravel()[:] = np.frombuffer(values)
        self._rings.ep_return = returns
        if ids is not None:
            rings.drop_oldest(ids, count)
        if columns is not None:
            self._columns = bulk.same_structure(columns)
        self._share_columns()
        self._on_rows_dropped()

    def _on_rows_dropped(self) -> None:
        """Called when rows no longer count that did, because a change was undone or another process overwrites them."""

    def _make_room(self, ids: Any, count: int = 1) -> None:
        """Called before rows are written: on disk, those that will be overwritten no longer count."""
        if self._durable:
            self._rings.drop_oldest(ids, count)
            owner = self if self._whole is None else self._whole[0]
            owner._storage.commit(owner._numbers(), count, begun=True)

    def _announce_overwriting(self, count: int) -> None:
        """Called when so many slots of a ring may be written to next, whichever they are: on disk, others are told."""
        if self._durable:
            owner = self if self._whole is None else self._whole[0]
            owner._storage.commit(owner._numbers(), count)

    def _on_rows_written(self, slots: Slots) -> None:
        """Called when rows have been written and counted in."""
        if self._whole is not None:
            whole, start = self._whole
            whole._on_rows_written(slots + start)
        elif self._storage.durable:
            self._storage.commit(self._numbers())

    def _on_rows_forgotten(self, slots: Slots) -> None:
        """Called when slots hold rows no longer."""
        if self._whole is not None:
            whole, start = self._whole
            whole._on_rows_forgotten(slots + start)

    def _on_rows_moved(self, slots: Slots, extras: dict[str, NDArray[np.float64]]) -> None:
        """Called when rows were moved to other slots, with the numbers that belong to them."""

    def _numbers(self) -> NDArray[np.float64]:
        """Everything that changes with a row, beside the row."""
        return self._rings.numbers()

    def _restore(self, numbers: NDArray[np.float64]) -> None:
        columns = self._columns.__dict__
        self._rings.restore(numbers, np.shape(columns["rew"])[1:] if columns else ())

    def _on_reopened(self) -> None:
        """Called when the buffer was opened again, maybe after the process was killed."""

    @classmethod
    def _make_empty(cls, arguments: dict[str, Any]) -> Self:
        """An empty buffer, from what :meth:`_arguments` gave."""
        out = cls.__new__(cls)
        construct: Any = restore.library_class(cls)
        construct.__init__(out, **arguments)
        return out

    def __getstate__(self) -> dict[str, Any]:
        if self._storage.durable:
            raise StorageError("a buffer on disk is not copied or pickled; hand on its path, and open() it there")
        return {name: value for name, value in self.__dict__.items() if name not in ("_parts", "_guard")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._guard = Guard()
        self._share_columns()
