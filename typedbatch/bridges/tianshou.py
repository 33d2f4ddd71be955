"""Tianshou's batches and replay buffers. Needs the extra ``tianshou``."""

from __future__ import annotations

from typing import Any

import numpy as np
import tianshou.data as ts
from tianshou.data.buffer.manager import ReplayBufferManager

from typedbatch._ops.construct import to_leaf
from typedbatch._tree.depth import require_depth
from typedbatch._tree.leaves import Tree, describe, is_objects, new_tree
from typedbatch._tree.rows import require_bounded
from typedbatch.batch import Batch
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer
from typedbatch.buffers.declared import library_class
from typedbatch.buffers.restore import restored
from typedbatch.buffers.state import state_of
from typedbatch.buffers.storage import Memory
from typedbatch.errors import LeafError, StructureError, under


def from_tianshou(batch: ts.Batch) -> Batch:
    """A Batch of Tianshou as one of ours, with the very same leaves.

    Raises:
        LeafError: ``batch`` is something else.
        StructureError: batches are nested more than 100 deep.
    """
    if not isinstance(batch, ts.Batch):
        raise LeafError(f"from_tianshou() takes a Batch of Tianshou, got {describe(batch)}")
    require_depth(batch, lambda value: value.__dict__ if isinstance(value, ts.Batch) else None)
    return _ours(batch)


def _ours(batch: ts.Batch) -> Batch:
    fields: dict[str, Any] = {}
    for name, value in batch.__dict__.items():
        with under(name):
            fields[name] = _from_leaf(value)
    ours: Batch = new_tree(Batch, fields)
    return ours


def to_tianshou(batch: Any) -> ts.Batch:
    """A Batch as one of Tianshou, with the very same leaves.

    Raises:
        LeafError: ``batch`` is not a Batch.
        StructureError: batches are nested more than 100 deep.
    """
    return _theirs(require_bounded(batch, "to_tianshou()"))


def _theirs(batch: Tree) -> ts.Batch:
    out = ts.Batch()
    for name, value in batch.__dict__.items():
        out.__dict__[name] = _theirs(value) if isinstance(value, Tree) else value
    return out


def buffer_from_tianshou(buffer: ts.ReplayBuffer) -> ReplayBuffer[Any, Any]:
    """A replay buffer of Tianshou as one of ours: a VectorReplayBuffer for a vector of them.

    The arrays are shared: use one buffer from then on, or give a copy. Rows, slots, running episodes and options are
    those of the other. Priorities, hindsight goals and the random state are not taken over.

    Raises:
        LeafError: ``buffer`` is not a buffer of Tianshou.
        StructureError: rings of different sizes, a CachedReplayBuffer, or rows that no buffer has.
    """
    if not isinstance(buffer, ts.ReplayBuffer):
        raise LeafError(f"buffer_from_tianshou() takes a buffer of Tianshou, got {describe(buffer)}")
    many = isinstance(buffer, ReplayBufferManager)
    rings = buffer.buffers if many else [buffer]
    options = {name: buffer.options[name] for name in _OPTIONS if name in buffer.options}
    if many and (isinstance(buffer, ts.CachedReplayBuffer) or len({ring.maxsize for ring in rings}) > 1):
        raise StructureError("a vector of rings of different sizes, as CachedReplayBuffer has them, is not taken over")
    kind: type[ReplayBuffer[Any, Any]] = VectorReplayBuffer if many else ReplayBuffer
    sizes = {"total_size": buffer.maxsize, "buffer_num": len(rings)} if many else {"size": buffer.maxsize}
    described = {"class": kind.__name__, "arguments": {**sizes, **options}}
    meta: Any = buffer._meta
    columns = from_tianshou(meta)
    if "rew" in columns and columns["rew"].dtype.kind != "f":
        columns["rew"] = columns["rew"].astype(float)
    return restored(kind, described, lambda _: columns, _numbers(rings), Memory(), "the buffer of Tianshou", {})


def buffer_to_tianshou(buffer: ReplayBuffer[Any, Any]) -> ts.ReplayBuffer:
    """A ReplayBuffer or VectorReplayBuffer as one of Tianshou; shared and left out is what the other way is.

    Raises:
        LeafError: ``buffer`` is not a buffer, or of another class, whose priorities or goals would be lost.
        StructureError: it has columns that Tianshou's buffers do not take.
    """
    if not isinstance(buffer, ReplayBuffer):
        raise LeafError(f"buffer_to_tianshou() takes a ReplayBuffer, got {describe(buffer)}")
    if (kind := library_class(type(buffer))) not in (ReplayBuffer, VectorReplayBuffer):
        raise LeafError(f"buffer_to_tianshou() takes a ReplayBuffer or a VectorReplayBuffer, got {describe(buffer)}")
    options: dict[str, Any] = {name: value for name, value in buffer.options.items() if name in _OPTIONS}
    state = state_of(buffer)
    rings = state.rings
    many = kind is VectorReplayBuffer
    count = len(rings.capacity)
    out = (
        ts.VectorReplayBuffer(buffer.maxsize, count, **options) if many else ts.ReplayBuffer(buffer.maxsize, **options)
    )
    if state.columns.__dict__:
        try:
            columns: Any = to_tianshou(state.columns)
            out.set_batch(columns)
        except AssertionError:
            names = ", ".join(state.columns.__dict__)
            raise StructureError(f"Tianshou's buffers take no other columns than their own, got {names}") from None
    for ring, one in enumerate(out.buffers if many else [out]):
        one._insertion_idx, one._size, one._ep_len, one._ep_start_idx = map(int, rings.counts[:, ring])
        one._ep_return = rings.ep_return[ring][()]
        one.last_index = rings.part(ring).last
    out.last_index = rings.last
    if many:
        out._lengths = rings.length.copy()
    made: ts.ReplayBuffer = out
    return made


_OPTIONS = ("stack_num", "ignore_obs_next", "save_only_last_obs", "sample_avail")


def _numbers(rings: Any) -> Any:
    counts = [[ring._insertion_idx, ring._size, ring._ep_len, ring._ep_start_idx] for ring in rings]
    returns = [np.asarray(ring._ep_return, float) for ring in rings]
    return np.concatenate([np.asarray(counts, float).T.ravel(), np.stack(np.broadcast_arrays(*returns)).ravel()])


def _from_leaf(value: Any) -> Any:
    if isinstance(value, ts.Batch):
        return _ours(value)
    return value if is_objects(value) else to_leaf(value)  # which would make dicts in them nested batches
