"""Transfer of batches between the processes of ``torch.distributed``: ``broadcast`` and ``all_gather``.

All fields of one dtype are sent as one buffer, including the values of a Ragged. Field names, lengths, and values that
are not plain tensors or numeric arrays (objects, text, distributions) go through the object collectives of
``torch.distributed``, which pickle them. So use these functions only between processes that trust each other, such as
those of one job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, Sequences, Tree, is_masked, new_sequences
from typedbatch._core.lengths import require_bounded
from typedbatch._ops.conversion import leaf_to_numpy, torch_side
from typedbatch._ops.copying import shallow
from typedbatch._ops.joined_meta import MetaRule
from typedbatch._ops.widths import Widths
from typedbatch.batch import Batch
from typedbatch.errors import SettingError, under
from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound=BatchProtocol)


class _Buffer(NamedTuple):
    """Key of a buffer: tensors of one dtype, on one kind of device."""

    dtype: torch.dtype
    device: str


class _Place(NamedTuple):
    """Placeholder for a tensor or array that is sent in a buffer."""

    buffer: _Buffer
    start: int
    shape: tuple[int, ...]
    is_array: bool


class _Sequences(NamedTuple):
    """Placeholder for a Ragged."""

    cls: type[Sequences]
    values: Any
    sizes: NDArray[np.intp]


_Buffers: TypeAlias = dict[_Buffer, Tensor]


class _Packed(NamedTuple):
    """A batch with placeholders instead of its numbers, and the size of each buffer."""

    tree: Any
    sizes: dict[_Buffer, int]


def broadcast(batch: B | None, src: int = 0, group: dist.ProcessGroup | None = None) -> B:
    """Send the batch of one process to every process of the group. All processes must call it.

    Args:
        batch: The batch. Other processes than ``src`` may pass None; their argument is not used.
        src: Rank of the process that has the batch, counted in the whole job as in ``torch.distributed.broadcast``.
        group: The processes, or None for all.

    Returns:
        The batch itself in ``src``, and a new one of its class elsewhere. A tensor has the type of device that it has
        in ``src``; for a GPU it is the current one. It has no gradient and shares one memory with others of its dtype.

    Raises:
        LeafError: ``batch`` is not a Batch in ``src``. Only ``src`` raises the error, and the other processes wait.
        SettingError: ``torch.distributed`` is not initialized.
    """
    _require_group()
    is_source = dist.get_rank() == src
    packed, buffers = _pack(batch) if is_source else (None, {})
    sent: list[Any] = [packed]
    dist.broadcast_object_list(sent, src, group)
    found: _Packed = sent[0]
    for buffer, size in found.sizes.items():
        if not is_source:
            buffers[buffer] = torch.empty(size, dtype=buffer.dtype, device=buffer.device)
        if size:
            dist.broadcast(buffers[buffer].view(torch.uint8), src, group)  # which every backend supports
    received: Any = batch if is_source else _unpack(found, buffers)
    result: B = received
    return result


def all_gather(
    batch: B,
    group: dist.ProcessGroup | None = None,
    *,
    meta: MetaRule = "error",
    widths: Widths = "error",
    pad_token_id: int | None = None,
) -> B:
    """Return the rows of all processes of the group, in the order of their ranks. All processes must call it.

    Args:
        batch: The rows of this process. The number of rows may differ between processes; fields, dtypes and kinds may
            not.
        group: The processes, or None for all.
        meta: Rule for keys of the meta that differ between batches, as in :meth:`typedbatch.Batch.cat`: ``"error"``,
            ``"first"``, ``"drop"``, or functions by key.
        widths: Treatment of fields whose second dimension differs, as in :meth:`typedbatch.Batch.cat`: ``"pad"`` pads
            them to the widest, as rollouts of several processes need it.
        pad_token_id: Id for padded positions.

    Returns:
        A new batch of the same class. Tensors are on the device of ``batch``, without gradients.

    Raises:
        LeafError: ``batch`` is not a Batch. Only this process raises the error, and the other processes wait.
        StructureError: the batches, or their meta, cannot be concatenated. All processes raise the same error.
        SettingError: ``torch.distributed`` is not initialized, or ids are padded without ``pad_token_id``.
    """
    _require_group()
    packed, buffers = _pack(batch)
    parts: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, packed, group)
    gathered: list[_Buffers] = [{} for _ in parts]
    for buffer in sorted({buffer for part in parts for buffer in part.sizes}, key=str):  # the same order everywhere
        longest = max(part.sizes.get(buffer, 0) for part in parts)
        own = torch.zeros(longest, dtype=buffer.dtype, device=buffer.device)
        if buffer in buffers:
            own[: len(buffers[buffer])] = buffers[buffer]
        received = [torch.empty_like(own) for _ in parts]
        if longest:
            dist.all_gather([tensor.view(torch.uint8) for tensor in received], own.view(torch.uint8), group)
        for number, tensor in enumerate(received):
            gathered[number][buffer] = tensor
    batches: list[Any] = [_unpack(part, own) for part, own in zip(parts, gathered, strict=True)]
    joined: B = Batch.cat(batches, meta=meta, widths=widths, pad_token_id=pad_token_id)
    return joined


def _require_group() -> None:
    if not (dist.is_available() and dist.is_initialized()):
        raise SettingError("torch.distributed is not initialized; call torch.distributed.init_process_group() first")


def _pack(batch: Any) -> tuple[_Packed, _Buffers]:
    """Return the numbers end to end, one buffer for each dtype, and the batch without them."""
    flat: dict[_Buffer, list[Tensor]] = {}
    sizes: dict[_Buffer, int] = {}

    def put_into_buffer(leaf: Any) -> Any:
        if isinstance(leaf, Sequences):
            return _Sequences(type(leaf), _map_leaves(leaf.values, put_into_buffer), leaf.sizes)
        # Only numbers in one strided memory are sent as such.
        kind, is_array = KINDS[type(leaf)], KINDS[type(leaf)] is ARRAY
        is_plain = is_array and leaf.dtype.kind in "biufc" and leaf.dtype not in (np.longdouble, np.clongdouble)
        if kind is TENSOR:
            is_plain = type(leaf) is Tensor and leaf.layout is torch.strided
        if not is_plain or (is_masked(leaf) if is_array else leaf.is_quantized or leaf.is_nested):
            return leaf
        tensor = torch_side().to_tensor(leaf) if is_array else leaf.detach()
        buffer = _Buffer(tensor.dtype, tensor.device.type)
        place = _Place(buffer, sizes.get(buffer, 0), tuple(tensor.shape), is_array)
        flat.setdefault(buffer, []).append(tensor.reshape(-1))
        sizes[buffer] = place.start + tensor.numel()
        return place

    tree = _map_leaves(require_bounded(batch, "torch_distributed"), put_into_buffer)
    return _Packed(tree, sizes), {buffer: torch.cat(parts) for buffer, parts in flat.items()}


def _unpack(packed: _Packed, buffers: Mapping[_Buffer, Tensor]) -> Any:
    def take_from_buffer(leaf: Any) -> Any:
        if isinstance(leaf, _Sequences):
            return new_sequences(leaf.cls, _map_leaves(leaf.values, take_from_buffer), leaf.sizes)
        if not isinstance(leaf, _Place):
            return leaf
        size = torch.Size(leaf.shape).numel()
        tensor = buffers[leaf.buffer][leaf.start : leaf.start + size].view(leaf.shape)
        return leaf_to_numpy(tensor) if leaf.is_array else tensor

    return _map_leaves(packed.tree, take_from_buffer)


def _map_leaves(tree: Any, function: Callable[[Any], Any]) -> Any:
    """Return a new tree with ``function`` applied to every leaf; a Ragged is one, as placeholders have no rows."""
    out = shallow(tree)
    for name, value in out.__dict__.items():
        with under(name):
            out.__dict__[name] = _map_leaves(value, function) if isinstance(value, Tree) else function(value)
    return out
