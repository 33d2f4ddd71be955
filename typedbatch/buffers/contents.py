"""The rows of a buffer all together: moved, replaced, cleaned, opened again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from typedbatch.assignment import fitted, set_rows
from typedbatch.batch import Batch
from typedbatch.buffers.columns import Plan, new_column, rows_at, slice_of
from typedbatch.buffers.incoming import to_store
from typedbatch.buffers.rings import Slots
from typedbatch.construct import to_leaf
from typedbatch.conversion import leaf_to_numpy
from typedbatch.copying import deep_leaf
from typedbatch.errors import LeafError, SizeError, StructureError
from typedbatch.leaves import Tree, describe, leading_shape, new_tree
from typedbatch.missing import complete_rows
from typedbatch.missing import drop_null as without_null
from typedbatch.rows import leaves

if TYPE_CHECKING:
    from typedbatch.buffers.replay import ReplayBuffer

    Buffer = ReplayBuffer[Any, Any]

F = TypeVar("F", bound="ReplayBuffer[Any, Any]")


def stored_rows(buffer: Buffer, slots: Slots | None = None) -> Batch:
    """The rows as they are stored, without frames and without what is computed, in the order of time."""
    slots = buffer._rings.chronological() if slots is None else slots
    rows: Batch = new_tree(Batch, {name: rows_at(column, slots) for name, column in buffer._columns.__dict__.items()})
    return rows


def update(buffer: Buffer, other: Buffer) -> Slots:
    """Add the rows of another buffer; see :meth:`ReplayBuffer.update`."""
    if not hasattr(other, "_rings"):
        raise LeafError(f"update() takes a buffer, got {describe(other)}")
    mine, theirs = len(buffer._rings.capacity), len(other._rings.capacity)
    if mine == 1:
        return move(buffer, 0, other, other._rings.chronological())
    if mine != theirs:
        raise StructureError(f"the other buffer has {theirs} rings, this one {mine}: whose rows go where?")
    slots = other._rings.chronological()
    _planned(buffer, other, slots)  # all fit, or none is moved
    ring = other._rings.ring_of(slots)
    return np.concatenate([move(buffer, one, other, slots[ring == one]) for one in range(mine)])


def move(buffer: Buffer, ring: int, other: Buffer, slots: Slots, emptied: int | None = None) -> Slots:
    """Add the rows in some slots of a buffer to a ring of this one, and give their new slots.

    Args:
        buffer: what they are added to.
        ring: which ring of it.
        other: where they are.
        slots: which, oldest first.
        emptied: a ring of ``buffer`` that is empty from the moment on in which the rows count.
    """
    capacity = buffer._rings.capacity.item(ring)
    if not len(slots) or not capacity:
        return np.zeros(0, np.intp)
    kept = min(len(slots), capacity)
    plan = _planned(buffer, other, slots[-kept:])
    buffer._make_room(slice(ring, ring + 1), kept)
    moved = buffer._rings.push(ring, len(slots))
    plan.write(moved[-kept:])
    _go_on(buffer, ring, moved[-kept:])
    if emptied is not None:
        buffer._rings.reset(slice(emptied, emptied + 1))
    buffer._written(moved)
    return moved


def _planned(buffer: Buffer, other: Buffer, slots: Slots) -> Plan:
    """The rows in some slots of another buffer, as this one stores them."""
    fields = stored_rows(other, slots).__dict__
    if not buffer._save_obs_next:
        fields.pop("obs_next", None)
    elif "obs_next" not in fields:
        fields["obs_next"] = rows_at(other.obs, other._rings.next(slots, other.done))
    return buffer._plan(new_tree(Batch, fields), fields, (len(slots),))


def _go_on(buffer: Buffer, ring: int, slots: Slots) -> None:
    """Take rows, which follow each other, into the statistics of the episode that a ring is in."""
    rings = buffer._rings
    ends = np.flatnonzero(buffer.done[slots])
    if len(ends):
        slots = slots[ends[-1] + 1 :]
        rings.ep_return[ring] = rings.ep_len[ring] = 0
        rings.ep_start[ring] = (rings.insertion[ring] - len(slots)) % rings.capacity[ring]
    rings.ep_len[ring] += len(slots)
    rings.ep_return[ring] += leaf_to_numpy(rows_at(buffer._columns.__dict__["rew"], slots)).sum(0)


def set_batch(buffer: Buffer, batch: Any) -> None:
    """Replace everything; see :meth:`ReplayBuffer.set_batch`."""
    buffer._require_whole("set_batch()")
    if not isinstance(batch, Tree):
        raise LeafError(f"set_batch() takes a Batch, got {describe(batch)}")
    for path, leaf in leaves(batch.__dict__):
        if leading_shape(leaf) and leading_shape(leaf)[0] != buffer.maxsize:
            rows = leading_shape(leaf)[0]
            raise SizeError(f"{rows} rows, but the buffer takes exactly {buffer.maxsize}", path)
    fields, _, _ = to_store(buffer, batch, (buffer.maxsize,))
    if "done" in batch.__dict__:
        fields["done"] = np.asarray(leaf_to_numpy(batch.__dict__["done"]), bool)
    _replace(buffer, batch, fields, np.arange(buffer.maxsize), buffer._rings.capacity)
    for ring, start in enumerate(buffer._rings.offset.tolist()):
        _go_on(buffer, ring, np.arange(start, start + buffer._rings.capacity[ring]))
    buffer._written(np.zeros(0, np.intp))


def _replace(buffer: Buffer, batch: Tree, fields: dict[str, Any], slots: Slots, lengths: Slots) -> None:
    """Lay out the columns anew, with these rows and no others."""
    rings, nothing = buffer._rings, np.zeros(0, np.intp)
    before = buffer._columns, rings.counts.copy(), rings.ep_return.copy()
    rings.reset()
    buffer._written(nothing)  # on disk, there are no rows from here on
    buffer._columns = new_tree(Batch, {})
    buffer._shared()
    try:
        plan = buffer._plan(batch, fields, (len(slots),))
    except Exception:
        buffer._columns, rings.counts[...], rings.ep_return = before
        buffer._shared()
        buffer._written(nothing)
        raise
    buffer._forgotten(np.arange(buffer.maxsize))
    plan.write(slots)
    rings.length[:] = lengths
    rings.insertion[:] = lengths % np.maximum(rings.capacity, 1)
    buffer._written(slots)


def set_array_at_key(buffer: Buffer, seq: Any, key: str, index: Any, default: float | None) -> None:
    """Set a field, or some slots of it; see :meth:`ReplayBuffer.set_array_at_key`."""
    if not buffer._columns.__dict__:
        raise buffer._empty()
    values = to_leaf(seq)
    if not leading_shape(values):
        raise StructureError(f"takes one value for each row, got {describe(values)}", key)
    if index is None and leading_shape(values)[0] != buffer.maxsize:
        raise StructureError(
            f"got {len(values)} values for {buffer.maxsize} slots; index= says which they are for", key
        )
    columns = buffer._columns.__dict__
    column = columns.get(key)
    if column is None:
        buffer._require_whole(f"a new field, as {key!r}")
        column = new_column(values, buffer.maxsize, (len(values),), buffer._storage, (key,))
        if default is not None:
            column[...] = fitted(column, np.asarray(default))
    alone = new_tree(Batch, {key: column})
    set_rows(alone, ... if index is None else index, new_tree(Batch, {key: deep_leaf(values, {})}), strict=True)
    if key not in columns:
        columns[key] = column
        buffer._laid_out()


def drop_null(buffer: Buffer) -> None:
    """Drop the rows with a missing value; see :meth:`ReplayBuffer.dropnull`."""
    buffer._require_whole("dropnull()")
    rows = stored_rows(buffer)
    rings = buffer._rings
    keep = complete_rows(rows)
    if keep.all():
        return
    ring = np.broadcast_to(rings.ring_of(rings.chronological()), keep.shape)[keep]
    lengths = np.bincount(ring, minlength=len(rings.capacity))
    slots = np.arange(len(ring)) - (np.cumsum(lengths) - lengths)[ring] + rings.offset[ring]
    statistics = rings.ep_return.copy(), rings.ep_len.copy()
    extras = {name: values[rings.chronological()[keep]] for name, values in buffer._storage.extras.items()}
    kept = without_null(rows)
    _replace(buffer, kept, kept.__dict__, slots, lengths)
    rings.ep_return[...], rings.ep_len[...] = statistics
    for one in range(len(lengths)):
        ends = np.flatnonzero(buffer.done[slots[ring == one]])
        rings.ep_start[one] = (ends[-1] + 1) % rings.capacity[one] if len(ends) else 0
    buffer._written(slots)
    buffer._carried(slots, extras)


def from_data(cls: type[F], given: dict[str, Any]) -> F:
    """A full buffer; see :meth:`ReplayBuffer.from_data`."""
    fields = {name: to_leaf(value[:]) if hasattr(value, "id") else to_leaf(value) for name, value in given.items()}
    size = len(fields["obs"])
    buffer = cls(size)
    if size:
        set_batch(buffer, Batch(fields))
    return buffer


def share(buffer: Buffer, ring: int, part: Buffer) -> None:
    """Make the rows and the positions of one ring those of ``part``."""
    start, stop = buffer._rings.edges[ring : ring + 2].tolist()
    part._columns = slice_of(buffer._columns, start, stop)
    part._rings = buffer._rings.part(ring)
    part._whole = (buffer, start)
    part._shared()
