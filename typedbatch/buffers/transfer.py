"""Operations on all rows of a buffer: moving them to another buffer, replacing them, dropping nulls."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from typedbatch._core.kinds import KINDS, OBJECT, TENSOR, Tree, describe, kind_of, leading_shape, new_tree
from typedbatch._core.lengths import leaves, require_tree
from typedbatch._ops.assignment import fill, require_all, set_rows
from typedbatch._ops.casting import require_no_mask
from typedbatch._ops.combine import require_names
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.copying import deep_leaf
from typedbatch._ops.indexing import plain_index
from typedbatch._ops.nulls import complete_rows
from typedbatch._ops.nulls import drop_null as without_null
from typedbatch.batch import Batch
from typedbatch.buffers.arguments import FLAGS, require_same_rows
from typedbatch.buffers.columns import Plan, new_column, take_slots
from typedbatch.buffers.guard import prepare_change
from typedbatch.buffers.incoming import flags, normalize_rows, warn_if_truncated
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.state import State, state_of
from typedbatch.errors import FieldNameError, RowAssignmentError, SizeError, StructureError, under

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer

F = TypeVar("F", bound="ReplayBuffer[Any, Any]")


def stored_rows(state: State, slots: Slots | None = None) -> Batch:
    """Return a copy of the stored fields of some slots, without stacked frames and computed fields.

    By default these are the slots that hold a row, ring by ring, oldest first.
    """
    rows: Batch = take_slots(state.columns, state.rings.chronological() if slots is None else slots)
    return rows


def update(state: State, other: State, ring: int | None = None) -> Slots:
    """Add the rows of another buffer, to one ring or each to its own; see :meth:`ReplayBuffer.update`."""
    rings = len(state.rings.capacity)
    with _both_locked(state, other):
        slots, other_rings = other.rings.chronological(), len(other.rings.capacity)
        if rings == 1 or ring is not None:
            return move(state, ring or 0, other, slots)
        if rings != other_rings:
            raise StructureError(
                f"this buffer has {rings} rings and takes the rows of one with as many, got one with {other_rings}; "
                "buffers[i].update() adds them to one ring"
            )
        if not len(slots):
            return slots
        _plan_rows(state, other, slots)  # raises before the first ring is changed
        ring_ids = other.rings.ring_of(slots)
        return np.concatenate([move(state, number, other, slots[ring_ids == number]) for number in range(rings)])


@contextmanager
def _both_locked(state: State, other: State) -> Generator[None]:
    """Hold the locks of two buffers, of which ``state`` will be changed."""
    # Always in the same order, so that two threads cannot deadlock.
    first, second = sorted((state.guard, other.guard), key=id)
    with first.lock, second.lock:
        for guard in (first, second):
            if guard.unfinished:
                guard.rollback_unfinished()
        prepare_change(state.guard, "update")
        if other.guard.reader is not None:
            raise StructureError(
                "the other buffer is open for reading, and its rows may be overwritten while they are moved; "
                "save it with save_hdf5(), and pass update() the buffer that load_hdf5() returns"
            )
        yield


def move(state: State, ring: int, other: State, slots: Slots, emptied: int | None = None) -> Slots:
    """Add the rows in some slots of a buffer to a ring of this one, and return their new slots.

    Of more rows than the ring has capacity for, the newest are stored. The ring ``emptied`` of this buffer is emptied
    in the same step in which the rows begin to count.
    """
    capacity = state.rings.capacity.item(ring)
    if not len(slots) or not capacity:
        return np.zeros(0, np.intp)
    count = min(len(slots), capacity)
    plan = _plan_rows(state, other, slots[-count:])

    def add() -> Slots:
        state.begin_overwrite(slice(ring, ring + 1), count)
        moved = state.rings.push(ring, len(slots))
        plan.write(moved[-count:])
        _continue_episode(state, ring, moved[-count:])
        skipped = 0
        if emptied is not None:
            skipped = (state.rings.capacity - state.rings.insertion).item(emptied)
            state.rings.reset(slice(emptied, emptied + 1))
        state.on_rows_written(moved)
        if skipped:
            # The next row of the emptied ring goes into its first slot; for readers the slots that this skips
            # count as overwritten.
            state.announce_overwriting(skipped)
        return moved

    return state.transaction(state.make_rollback(slice(ring, ring + 1), count), add)


def _plan_rows(state: State, other: State, slots: Slots) -> Plan:
    """Plan to write the rows in some slots of another buffer, with the fields that this one stores."""
    fields = stored_rows(other, slots).__dict__
    if not state.save_obs_next:
        fields.pop("obs_next", None)
        if other is not state:
            warn_if_truncated(fields["terminated"], fields["truncated"])
    elif "obs_next" not in fields:
        fields["obs_next"] = take_slots(other.columns.__dict__["obs"], other.rings.next(slots, other.done))
    ring = np.broadcast_to(other.rings.ring_of(slots), slots.shape)
    fields["done"][:-1] |= ring[1:] != ring[:-1]  # an episode does not continue in another ring
    return state.plan(None, fields, (len(slots),))


def _continue_episode(state: State, ring: int, slots: Slots) -> None:
    """Update the statistics of the current episode of a ring with rows that were appended to it."""
    rings = state.rings
    ends = np.flatnonzero(state.done[slots])
    if len(ends):
        slots = slots[ends[-1] + 1 :]
        rings.ep_return[ring] = rings.ep_len[ring] = 0
        rings.ep_start[ring] = (rings.insertion[ring] - len(slots)) % rings.capacity[ring]
    rings.ep_len[ring] += len(slots)
    rings.ep_return[ring] += leaf_to_numpy(take_slots(state.columns.__dict__["rew"], slots)).sum(0)


def set_batch(state: State, batch: Any) -> None:
    """Replace the contents; see :meth:`ReplayBuffer.set_batch`."""
    state.require_whole("set_batch()")
    require_tree(batch, "set_batch()")
    for path, leaf in leaves(batch.__dict__):
        if leading_shape(leaf) and leading_shape(leaf)[0] != state.rings.size:
            rows = leading_shape(leaf)[0]
            text = f"set_batch() takes {state.rings.size} rows, one for each slot, got {rows}; "
            text += "extend() adds any number of rows"
            raise SizeError(text, path)
    refill(state, batch, state.rings.capacity)


def refill(state: State, rows: Tree, lengths: Slots) -> None:
    """Replace all rows by others, ``lengths`` for each ring, and the statistics of episodes, or roll back."""
    slots = np.concatenate([start + np.arange(count) for start, count in zip(state.rings.offset, lengths, strict=True)])
    fields, _, _ = normalize_rows(state, rows, (len(slots),))
    if "done" in rows.__dict__:
        fields["done"] = leaf_to_numpy(flags(rows.__dict__["done"], "done", (len(slots),)))

    def replace() -> None:
        _replace(state, rows, fields, slots, lengths)
        for ring, start in enumerate(state.rings.offset.tolist()):
            _continue_episode(state, ring, np.arange(start, start + int(lengths[ring])))
        state.on_rows_written(np.zeros(0, np.intp))

    state.transaction(_full_rollback(state), replace)


def _full_rollback(state: State) -> Callable[[], None]:
    """Return the rollback of a change that replaces everything: it restores columns and extras, or reads the folder."""
    rollback, extras = state.make_rollback(structure=True), state.storage.extras
    if state.durable:
        return rollback
    before = {name: values.copy() for name, values in extras.items()}

    def rollback_all() -> None:
        for name, values in before.items():
            extras[name][...] = values
        rollback()

    return rollback_all


def _replace(state: State, batch: Tree | None, fields: dict[str, Any], slots: Slots, lengths: Slots) -> None:
    """Lay out new columns that hold these rows only; those of a batch, if it is not None, are validated."""
    rings = state.rings
    rings.reset()
    state.guard.mark = None
    state.columns = new_tree(Batch, {})
    state.share_columns()
    plan = state.plan(batch, fields, (len(slots),))  # on disk, this commits a folder without rows
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
    require_no_flag(key)
    values = to_leaf(seq)
    if kind_of(values) is TENSOR:
        values = values.detach()
    require_same_rows(state.rings, index)
    where = ... if index is None else plain_index(index)
    if not leading_shape(values):
        raise StructureError(f"one value for each row is expected, got {describe(values)}", key)
    if index is None and leading_shape(values)[0] != state.rings.size:
        text = f"{state.rings.size} values are expected, one for each slot, got {len(values)}; "
        text += "index= names the slots to set"
        raise StructureError(text, key)
    columns = state.columns.__dict__
    column = columns.get(key)
    rollback = state.make_rollback(structure=True)
    if column is None:
        state.require_whole(f"adding field {key!r}")
        column = _new_column(state, values, key, where, default)
    if tuple(values.shape[1:]) != leading_shape(column)[1:]:
        raise RowAssignmentError(f"rows like those of {describe(column)} are expected, got {describe(values)}", key)
    alone = new_tree(Batch, {key: column})
    set_rows(alone, where, new_tree(Batch, {key: deep_leaf(values, {})}), strict=True)
    if key not in columns:

        def add_column() -> None:
            columns[key] = column
            state.on_columns_laid_out()

        state.transaction(rollback, add_column)


def require_no_flag(name: str) -> None:
    """Raise a FieldNameError if a column marks where episodes end."""
    if name in FLAGS:
        raise FieldNameError(
            f"{name!r} marks where episodes end, and cannot be set by itself; truncate_episodes() ends them, and "
            "set_batch() replaces all fields"
        )


def _new_column(state: State, values: Any, key: str, where: Any, default: float | None) -> Any:
    """Return a new column that is filled with the default, or with nulls without one."""
    with under(key):
        require_no_mask(values)
        if default is None:
            require_all(values, state.rings.size, where, state.rings.chronological())
        column = new_column(values, state.rings.size, (len(values),), state.storage, (key,))
        fill(column, default)
    return column


def drop_null(state: State) -> None:
    """Drop the rows that have a null; see :meth:`ReplayBuffer.dropnull`."""
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
    remaining = without_null(rows)
    # If the row that ended an episode is dropped, the last one that remains of it ends it instead.
    done = rows.__dict__["done"]
    ends = done.copy()
    ends[:-1] |= ring_of_all[1:] != ring_of_all[:-1]
    episode: Slots = np.cumsum(ends) - ends
    last = np.append(episode[keep][1:] != episode[keep][:-1], True)[: len(ring)]
    remaining.__dict__["done"] |= last & np.isin(episode[keep], episode[done])

    def replace() -> None:
        _replace(state, None, remaining.__dict__, slots, lengths)
        rings.ep_return[...], rings.ep_len[...] = statistics
        for number in range(len(lengths)):
            ended = np.flatnonzero(state.done[slots[ring == number]])
            rings.ep_start[number] = (ended[-1] + 1) % rings.capacity[number] if len(ended) else 0
        state.on_rows_written(slots)
        state.on_rows_moved(slots, extras)

    state.transaction(_full_rollback(state), replace)


def from_data(cls: type[F], given: dict[str, Any]) -> F:
    """Return a full buffer of the given fields; see :meth:`ReplayBuffer.from_data`."""
    is_dataset = {name: KINDS[type(value)] is OBJECT and hasattr(value, "__getitem__") for name, value in given.items()}
    fields = {name: to_leaf(value[:] if is_dataset[name] else value) for name, value in given.items()}
    if not (rows := [leading_shape(leaf)[:1] for _, leaf in leaves(fields)]) or () in rows:
        raise SizeError("from_data() takes fields with one row for each slot, got one without rows")
    size = rows[0][0]
    buffer = cls(size)
    if size:
        set_batch(state_of(buffer), Batch(fields))
    return buffer
