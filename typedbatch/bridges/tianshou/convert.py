"""Conversion of Tianshou's batches and replay buffers. Needs the extra ``tianshou``."""

from __future__ import annotations

from typing import Any

import numpy as np
import tianshou.data as ts
from tianshou.data.batch import BatchProtocol
from tianshou.data.buffer.manager import ReplayBufferManager

from typedbatch._core.depth import require_depth
from typedbatch._core.kinds import Tree, describe, is_objects, new_tree
from typedbatch._core.lengths import require_bounded
from typedbatch._ops.construct import to_leaf
from typedbatch.batch import Batch
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer
from typedbatch.buffers.declared import library_class
from typedbatch.buffers.restore import restored
from typedbatch.buffers.state import state_of
from typedbatch.buffers.storage import Memory
from typedbatch.errors import LeafError, StructureError, for_each

_OPTIONS = ("stack_num", "ignore_obs_next", "save_only_last_obs", "sample_avail")


def from_tianshou(batch: ts.Batch | BatchProtocol) -> Batch:
    """Convert a Tianshou Batch to a typedbatch Batch with the same leaves, which are not copied.

    Raises:
        LeafError: ``batch`` is not a Tianshou Batch.
        StructureError: batches are nested more than 100 deep.
    """
    if not isinstance(batch, ts.Batch):
        raise LeafError(f"from_tianshou() takes a Tianshou Batch, got {describe(batch)}")
    require_depth(batch, lambda value: value.__dict__ if isinstance(value, ts.Batch) else None)
    converted: Batch = _to_typedbatch(batch)
    return converted


def _to_typedbatch(value: Any) -> Any:
    if isinstance(value, ts.Batch):
        return new_tree(Batch, for_each(value.__dict__, _to_typedbatch))
    return value if is_objects(value) else to_leaf(value)  # which would turn dicts in an array into nested batches


def to_tianshou(batch: Any) -> ts.Batch:
    """Convert a Batch to a Tianshou Batch with the same leaves, which are not copied.

    Raises:
        LeafError: ``batch`` is not a Batch.
        StructureError: batches are nested more than 100 deep.
    """
    return _to_tianshou(require_bounded(batch, "to_tianshou()"))


def _to_tianshou(batch: Tree) -> ts.Batch:
    out = ts.Batch()
    for name, value in batch.__dict__.items():
        out.__dict__[name] = _to_tianshou(value) if isinstance(value, Tree) else value
    return out


def buffer_from_tianshou(buffer: ts.ReplayBuffer) -> ReplayBuffer[Any, Any]:
    """Convert a Tianshou replay buffer to a ReplayBuffer, or a vector of them to a VectorReplayBuffer.

    The arrays are shared: afterwards, use only one of the buffers, or pass a copy. Rows, positions, running episodes
    and options are those of ``buffer``. Priorities, hindsight goals and the random state are not taken over.

    Raises:
        LeafError: ``buffer`` is not a Tianshou buffer.
        StructureError: rings have different sizes, as in a CachedReplayBuffer, or the rows are not those of a buffer.
    """
    if not isinstance(buffer, ts.ReplayBuffer):
        raise LeafError(f"buffer_from_tianshou() takes a Tianshou buffer, got {describe(buffer)}")
    many = isinstance(buffer, ReplayBufferManager)
    rings = buffer.buffers if many else [buffer]
    options = {name: buffer.options[name] for name in _OPTIONS if name in buffer.options}
    if many and (isinstance(buffer, ts.CachedReplayBuffer) or len({ring.maxsize for ring in rings}) > 1):
        raise StructureError("buffers with rings of different sizes, such as CachedReplayBuffer, cannot be converted")
    kind: type[ReplayBuffer[Any, Any]] = VectorReplayBuffer if many else ReplayBuffer
    sizes = {"total_size": buffer.maxsize, "buffer_num": len(rings)} if many else {"size": buffer.maxsize}
    described = {"class": kind.__name__, "arguments": {**sizes, **options}}
    meta: Any = buffer._meta
    columns = from_tianshou(meta)
    if "rew" in columns and columns["rew"].dtype.kind != "f":
        columns["rew"] = columns["rew"].astype(float)
    counts = [[ring._insertion_idx, ring._size, ring._ep_len, ring._ep_start_idx] for ring in rings]
    returns = [np.asarray(ring._ep_return, float) for ring in rings]
    numbers = np.concatenate([np.asarray(counts, float).T.ravel(), np.stack(np.broadcast_arrays(*returns)).ravel()])
    return restored(kind, described, lambda _: columns, numbers, Memory(), "the Tianshou buffer", {})


def buffer_to_tianshou(buffer: ReplayBuffer[Any, Any]) -> ts.ReplayBuffer:
    """Convert a ReplayBuffer or VectorReplayBuffer to a Tianshou buffer.

    As with :func:`buffer_from_tianshou`, the arrays are shared and the random state is not taken over.

    Raises:
        LeafError: ``buffer`` is not a buffer, or is of a class whose priorities or goals would be lost.
        StructureError: it has columns that Tianshou's buffers do not support.
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
            raise StructureError(f"Tianshou's buffers support only their own columns, got {names}") from None
    for ring, target in enumerate(out.buffers if many else [out]):
        target._insertion_idx, target._size, target._ep_len, target._ep_start_idx = map(int, rings.counts[:, ring])
        target._ep_return = rings.ep_return[ring][()]
        target.last_index = rings.part(ring).last
    out.last_index = rings.last
    if many:
        out._lengths = rings.length.copy()
    converted: ts.ReplayBuffer = out
    return converted
