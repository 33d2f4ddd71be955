"""Batches between the processes of ``torch.distributed``: ``broadcast`` and ``all_gather``.

All fields of one dtype go as one buffer, those of the values of a Ragged too. Which fields there are, lengths, and what
is no plain tensor or numeric array (objects, text, distributions), go through ``torch.distributed``'s own object
collectives, which pickle them: call this between processes of one job, which trust each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._ops.conversion import leaf_to_numpy, torch_side
from typedbatch._ops.copying import shallow
from typedbatch._ops.meta import MetaRule
from typedbatch._tree.leaves import ARRAY, KINDS, TENSOR, Sequences, Tree, is_masked, new_sequences
from typedbatch._tree.rows import require_bounded
from typedbatch.batch import Batch
from typedbatch.errors import SettingError, under
from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound=BatchProtocol)


class _Buffer(NamedTuple):
    """What goes into one buffer: tensors of one dtype, on one kind of device."""

    dtype: torch.dtype
    device: str


class _Place(NamedTuple):
    """Stands for a tensor or array that goes in a buffer."""

    buffer: _Buffer
    start: int
    shape: tuple[int, ...]
    is_array: bool


class _Sequences(NamedTuple):
    """Stands for a Ragged."""

    cls: type[Sequences]
    values: Any
    sizes: NDArray[np.intp]


_Buffers: TypeAlias = dict[_Buffer, Tensor]


class _Packed(NamedTuple):
    """A batch without its numbers."""

    tree: Any
    sizes: dict[_Buffer, int]


def broadcast(batch: B | None, src: int = 0, group: dist.ProcessGroup | None = None) -> B:
    """The batch of one process, in every process of the group. A collective call: each process makes it.

    Args:
        batch: the batch; in the other processes it is not looked at, and may be None.
        src: the rank that has it, counted in the whole job, as in ``torch.distributed.broadcast``.
        group: the processes; None for all.

    Returns:
        In ``src`` the batch itself; elsewhere a new one of its class. A tensor comes on the device that it is on in
        ``src``, for a GPU the current one; without its gradient, and together with others of its dtype in one memory.

    Raises:
        LeafError: ``src`` has no Batch (an error there alone: the others wait).
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
            dist.broadcast(_as_bytes(buffers[buffer]), src, group)
    given: Any = batch if is_source else _unpack(found, buffers)
    result: B = given
    return result


def all_gather(batch: B, group: dist.ProcessGroup | None = None, *, meta: MetaRule = "error") -> B:
    """The rows of all processes of the group, in the order of their ranks, in every one. A collective call.

    Args:
        batch: the rows of this process; others may have more or fewer, of the same fields, dtypes and kinds.
        group: the processes; None for all.
        meta: what becomes of the meta where the batches differ in a key, as in :meth:`typedbatch.Batch.cat`:
            ``"error"``, ``"first"``, ``"drop"``, or functions by key.

    Returns:
        A new batch of its class; tensors are on the device of ``batch``, without gradients.

    Raises:
        LeafError: ``batch`` is not a Batch (an error in this process alone: the others wait).
        StructureError: the batches, or their meta, do not fit together; the same error in every process.
        SettingError: ``torch.distributed`` is not initialized.
    """
    _require_group()
    packed, buffers = _pack(batch)
    parts: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, packed, group)
    gathered: list[_Buffers] = [{} for _ in parts]
    for buffer in _all_buffers(parts):
        longest = max(part.sizes.get(buffer, 0) for part in parts)
        own = torch.zeros(longest, dtype=buffer.dtype, device=buffer.device)
        if buffer in buffers:
            own[: len(buffers[buffer])] = buffers[buffer]
        received = [torch.empty_like(own) for _ in parts]
        if longest:
            dist.all_gather([_as_bytes(one) for one in received], _as_bytes(own), group)
        for number, tensor in enumerate(received):
            gathered[number][buffer] = tensor
    batches: list[Any] = [_unpack(part, own) for part, own in zip(parts, gathered, strict=True)]
    joined: B = Batch.cat(batches, meta=meta)
    return joined


def _require_group() -> None:
    if not (dist.is_available() and dist.is_initialized()):
        raise SettingError("torch.distributed is not initialized; call torch.distributed.init_process_group() first")


def _as_bytes(tensor: Tensor) -> Tensor:
    """The same memory in a dtype that every backend takes."""
    return tensor.view(torch.uint8)


def _all_buffers(parts: list[_Packed]) -> list[_Buffer]:
    """Those of any process, in an order that all agree on."""
    return sorted({buffer for part in parts for buffer in part.sizes}, key=str)


def _pack(batch: Any) -> tuple[_Packed, _Buffers]:
    """The numbers end to end, one buffer for each dtype, and what is left of the batch."""
    flat: dict[_Buffer, list[Tensor]] = {}
    sizes: dict[_Buffer, int] = {}

    def taken_out(leaf: Any) -> Any:
        if isinstance(leaf, Sequences):
            return _Sequences(type(leaf), _mapped(leaf.values, taken_out), leaf.sizes)
        if not _is_plain(leaf):
            return leaf
        is_array = KINDS[type(leaf)] is ARRAY
        tensor = torch_side().to_tensor(leaf) if is_array else leaf.detach()
        buffer = _Buffer(tensor.dtype, tensor.device.type)
        place = _Place(buffer, sizes.get(buffer, 0), tuple(tensor.shape), is_array)
        flat.setdefault(buffer, []).append(tensor.reshape(-1))
        sizes[buffer] = place.start + tensor.numel()
        return place

    tree = _mapped(require_bounded(batch, "torch_distributed"), taken_out)
    return _Packed(tree, sizes), {buffer: torch.cat(parts) for buffer, parts in flat.items()}


def _is_plain(leaf: Any) -> bool:
    """Whether a leaf is nothing but numbers in a row."""
    kind = KINDS[type(leaf)]
    if kind is TENSOR:
        return type(leaf) is Tensor and leaf.layout is torch.strided and not leaf.is_quantized and not leaf.is_nested
    known = kind is ARRAY and leaf.dtype.kind in "biufc" and leaf.dtype not in (np.longdouble, np.clongdouble)
    return known and not is_masked(leaf)


def _unpack(packed: _Packed, buffers: Mapping[_Buffer, Tensor]) -> Any:
    def put_back(leaf: Any) -> Any:
        if isinstance(leaf, _Sequences):
            return new_sequences(leaf.cls, _mapped(leaf.values, put_back), leaf.sizes)
        if not isinstance(leaf, _Place):
            return leaf
        size = torch.Size(leaf.shape).numel()
        tensor = buffers[leaf.buffer][leaf.start : leaf.start + size].view(leaf.shape)
        return leaf_to_numpy(tensor) if leaf.is_array else tensor

    return _mapped(packed.tree, put_back)


def _mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """A new tree with ``function`` applied to every leaf; a Ragged is one, as its values are no rows for a while."""
    out = shallow(tree)
    for name, value in out.__dict__.items():
        with under(name):
            out.__dict__[name] = _mapped(value, function) if isinstance(value, Tree) else function(value)
    return out
