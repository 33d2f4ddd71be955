"""The rows of a buffer all together: moved, replaced, cleaned."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.assignment import set_rows
from typedbatch._ops.casting import require_no_mask
from typedbatch._ops.column import fill, require_all
from typedbatch._ops.combine import require_names
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.copying import deep_leaf
from typedbatch._ops.indexing import plain_index
from typedbatch._ops.nulls import complete_rows
from typedbatch._ops.nulls import drop_null as without_null
from typedbatch._tree.leaves import (
    KINDS,
    OBJECT,
    TENSOR,
    Tree,
    describe,
    kind_of,
    leading_shape,
    new_tree,
)
from typedbatch._tree.rows import leaves
from typedbatch.batch import Batch
from typedbatch.buffers.columns import Plan, new_column, take_slots
from typedbatch.buffers.guard import require_writer
from typedbatch.buffers.incoming import flags, to_store
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import FieldNameError, LeafError, RowAssignmentError, SizeError, StructureError, under

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer

F = TypeVar("F", bound="ReplayBuffer[Any, Any]")


def stored_rows(state: State, slots: Slots | None = None) -> Batch:
    """The rows as they are stored, without frames and without what is computed, in the order of time."""
    slots = state.rings.chronological() if slots is None else slots
    rows: Batch = new_tree(Batch, {name: take_slots(column, slots) for name, column in state.columns.__dict__.items()})
    return rows


def update(state: State, other: State) -> Slots:
    """Add the rows of another buffer; see :meth:`ReplayBuffer.update`."""
    mine = len(state.rings.capacity)
    if mine == 1:
        return update_ring(state, 0, other)
    with _standing_still(state, other):
        slots, theirs = other.rings.chronological(), len(other.rings.capacity)
        if mine != theirs:
            raise StructureError(f"the other buffer has {theirs} rings, this one {mine}: whose rows go where?")
        if not len(slots):
            return slots
        _planned(state, other, slots)  # all fit, or none is moved
        ring = other.rings.ring_of(slots)
        return np.concatenate([move(state, one, other, slots[ring == one]) for one in range(mine)])


def update_ring(state: State, ring: int, other: State) -> Slots:
    """Add the rows of another buffer to one ring."""
    with _standing_still(state, other):
        return move(state, ring, other, other.rings.chronological())


@contextmanager
def _standing_still(state: State, other: State) -> Generator[None]:
    """No other thread's call changes one of two buffers meanwhile.

    Raises:
        StructureError: another process may change it.
        StorageError: this one is open for reading.
    """
    first, second = sorted((state.guard, other.guard), key=id)  # so that two threads never wait for each other
    with first.lock, second.lock:
        for guard in (first, second):
            if guard.unfinished:
                guard.settle()
        require_writer(state.guard, "update")
        if other.guard.reader is not None:
            raise StructureError(
                "the other buffer is open for reading, and its rows may be overwritten while they are moved; "
                "save_hdf5() it, and update() with what load_hdf5() gives"
            )
        yield


def move(state: State, ring: int, other: State, slots: Slots, emptied: int | None = None) -> Slots:
    """Add the rows in some slots of a buffer to a ring of this one, and give their new slots.

    Args:
        state: what they are added to.
        ring: which ring of it.
        other: where they are.
        slots: which, oldest first.
        emptied: a ring of ``state`` that is empty from the moment on in which the rows count.
    """
    capacity = state.rings.capacity.item(ring)
    if not len(slots) or not capacity:
        return np.zeros(0, np.intp)
    kept = min(len(slots), capacity)
    plan = _planned(state, other, slots[-kept:])

    def add() -> Slots:
        state.make_room(slice(ring, ring + 1), kept)
        moved = state.rings.push(ring, len(slots))
        plan.write(moved[-kept:])
        _go_on(state, ring, moved[-kept:])
        skipped = 0
        if emptied is not None:
            skipped = (state.rings.capacity - state.rings.insertion).item(emptied)
            state.rings.reset(slice(emptied, emptied + 1))
        state.on_rows_written(moved)
        if skipped:
            state.announce_overwriting(skipped)  # the next row goes into the first slot
        return moved

    return state.change(state.undoing(slice(ring, ring + 1), kept), add)


def _planned(state: State, other: State, slots: Slots) -> Plan:
    """The rows in some slots of another buffer, as this one stores them."""
    fields = stored_rows(other, slots).__dict__
    if not state.save_obs_next:
        fields.pop("obs_next", None)
    elif "obs_next" not in fields:
        fields["obs_next"] = take_slots(other.columns.__dict__["obs"], other.rings.next(slots, other.done))
    ring = np.broadcast_to(other.rings.ring_of(slots), slots.shape)
    fields["done"][:-1] |= ring[1:] != ring[:-1]  # an episode does not go on in another ring
    return state.plan(None, fields, (len(slots),))


def _go_on(state: State, ring: int, slots: Slots) -> None:
    """Take rows, which follow each other, into the statistics of the episode that a ring is in."""
    rings = state.rings
    ends = np.flatnonzero(state.done[slots])
    if len(ends):
        slots = slots[ends[-1] + 1 :]
        rings.ep_return[ring] = rings.ep_len[ring] = 0
        rings.ep_start[ring] = (rings.insertion[ring] - len(slots)) % rings.capacity[ring]
    rings.ep_len[ring] += len(slots)
    rings.ep_return[ring] += leaf_to_numpy(take_slots(state.columns.__dict__["rew"], slots)).sum(0)


def set_batch(state: State, batch: Any) -> None:
    """Replace everything; see :meth:`ReplayBuffer.set_batch`."""
    state.require_whole("set_batch()")
    if not isinstance(batch, Tree):
        raise LeafError(f"set_batch() takes a Batch, got {describe(batch)}")
    for path, leaf in leaves(batch.__dict__):
        if leading_shape(leaf) and leading_shape(leaf)[0] != state.rings.size:
            rows = leading_shape(leaf)[0]
            raise SizeError(
                f"{rows} rows, and set_batch() fills all {state.rings.size} slots; extend() adds any number", path
            )
    fields, _, _ = to_store(state, batch, (state.rings.size,))
    if "done" in batch.__dict__:
        fields["done"] = leaf_to_numpy(flags(batch.__dict__["done"], "done", (state.rings.size,)))

    _refill(state, batch, fields, np.arange(state.rings.size), state.rings.capacity)


def refill(state: State, rows: Batch, lengths: Slots) -> None:
    """Make rows the contents of an empty buffer: so many for each ring, in the order of time."""
    fields, _, _ = to_store(state, rows, (len(rows),))
    fields["done"] = leaf_to_numpy(flags(rows.__dict__["done"], "done", (len(rows),)))
    slots = np.concatenate([start + np.arange(count) for start, count in zip(state.rings.offset, lengths, strict=True)])

    _refill(state, rows, fields, slots, lengths)


def _refill(state: State, batch: Tree, fields: dict[str, Any], slots: Slots, lengths: Slots) -> None:
    def replace() -> None:
        _replace(state, batch, fields, slots, lengths)
        for ring, start in enumerate(state.rings.offset.tolist()):
            _go_on(state, ring, np.arange(start, start + int(lengths[ring])))
        state.on_rows_written(np.zeros(0, np.intp))

    state.change(_undoing_all(state), replace)


def _undoing_all(state: State) -> Callable[[], None]:
    """What undoes that everything is replaced: in memory all is as it was, on disk as after a kill."""
    undo, extras = state.undoing(structure=True), state.storage.extras
    if state.durable:
        return undo
    before = {name: values.copy() for name, values in extras.items()}

    def undo_all() -> None:
        for name, values in before.items():
            extras[name][...] = values
        undo()

    return undo_all


def _replace(state: State, batch: Tree | None, fields: dict[str, Any], slots: Slots, lengths: Slots) -> None:
    """Lay out the columns anew, with these rows and no others."""
    rings = state.rings
    rings.reset()
    state.columns = new_tree(Batch, {})
    state.share_columns()
    plan = state.plan(batch, fields, (len(slots),))  # on disk, there are no rows from here on
    state.on_rows_forgotten(0, state.rings.size)
    plan.write(slots)
    rings.length[:] = lengths
    rings.insertion[:] = lengths % np.maximum(rings.capacity, 1)
    state.on_rows_written(slots)


def set_array_at_key(state: State, seq: Any, key: str, index: Any, default: float | None) -> None:
    """Set a field, or some slots of it; see :meth:`ReplayBuffer.set_array_at_key`."""
    if not state.columns.__dict__:
        raise state.empty()
    require_names({key: seq})
    if key in ("terminated", "truncated", "done"):
        raise FieldNameError(
            f"{key!r} says where episodes end, so it is not set by itself; set_batch() sets everything"
        )
    values = to_leaf(seq)
    if kind_of(values) is TENSOR:
        values = values.detach()
    where = ... if index is None else plain_index(index)
    if not leading_shape(values):
        raise StructureError(f"takes one value for each row, got {describe(values)}", key)
    if index is None and leading_shape(values)[0] != state.rings.size:
        raise StructureError(
            f"got {len(values)} values for {state.rings.size} slots; index= says which they are for", key
        )
    columns = state.columns.__dict__
    column = columns.get(key)
    undo = state.undoing(structure=True)
    if column is None:
        state.require_whole(f"a new field, as {key!r}")
        column = _new_column(state, values, key, where, default)
    if tuple(values.shape[1:]) != leading_shape(column)[1:]:
        raise RowAssignmentError(f"rows like those of {describe(column)} are expected, got {describe(values)}", key)
    alone = new_tree(Batch, {key: column})
    set_rows(alone, where, new_tree(Batch, {key: deep_leaf(values, {})}), strict=True)
    if key not in columns:

        def add_column() -> None:
            columns[key] = column
            state.on_columns_laid_out()

        state.change(undo, add_column)


def _new_column(state: State, values: Any, key: str, where: Any, default: float | None) -> Any:
    """A column for values of which some slots may get none."""
    with under(key):
        require_no_mask(values)
        if default is None:
            require_all(values, state.rings.size, where, state.rings.chronological())
        column = new_column(values, state.rings.size, (len(values),), state.storage, (key,))
        fill(column, default)
    return column


def drop_null(state: State) -> None:
    """Drop the rows with a null; see :meth:`ReplayBuffer.dropnull`."""
    state.require_whole("dropnull()")
    rows = stored_rows(state)
    rings = state.rings
    keep = complete_rows(rows)
    if keep.all():
        return
    ring_of_all = np.broadcast_to(rings.ring_of(rings.chronological()), keep.shape)
    ring = ring_of_all[keep]
    lengths = np.bincount(ring, minlength=len(rings.capacity))
    slots = np.arange(len(ring)) - (np.cumsum(lengths) - lengths)[ring] + rings.offset[ring]
    statistics = rings.ep_return.copy(), rings.ep_len.copy()
    extras = {name: values[rings.chronological()[keep]] for name, values in state.storage.extras.items()}
    kept = without_null(rows)
    kept.__dict__["done"] |= _cut(rows.__dict__["done"], ring_of_all, keep)

    def replace() -> None:
        _replace(state, None, kept.__dict__, slots, lengths)
        rings.ep_return[...], rings.ep_len[...] = statistics
        for one in range(len(lengths)):
            ends = np.flatnonzero(state.done[slots[ring == one]])
            rings.ep_start[one] = (ends[-1] + 1) % rings.capacity[one] if len(ends) else 0
        state.on_rows_written(slots)
        state.on_rows_moved(slots, extras)

    state.change(_undoing_all(state), replace)


def _cut(done: NDArray[np.bool_], ring: Slots, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the rows that are kept end their episode, because it had an end, and that may be dropped."""
    ends = done.copy()
    ends[:-1] |= ring[1:] != ring[:-1]
    episode: Slots = np.cumsum(ends) - ends
    kept: Slots = episode[keep]
    last = np.append(kept[1:] != kept[:-1], True)[: len(kept)]
    return np.asarray(last & np.isin(kept, episode[done]))


def from_data(cls: type[F], given: dict[str, Any]) -> F:
    """A full buffer; see :meth:`ReplayBuffer.from_data`."""
    is_dataset = {name: KINDS[type(value)] is OBJECT and hasattr(value, "__getitem__") for name, value in given.items()}
    fields = {name: to_leaf(value[:] if is_dataset[name] else value) for name, value in given.items()}
    if not (rows := [leading_shape(leaf)[:1] for _, leaf in leaves(fields)]) or () in rows:
        raise SizeError("rows are expected, arrays of one length each")
    size = rows[0][0]
    buffer = cls(size)
    if size:
        set_batch(state_of(buffer), Batch(fields))
    return buffer
