"""The part of leaves that needs torch; imported only when there is a tensor, so that the core never imports torch."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._core.kinds import describe, mask_obstacle
from typedbatch.errors import LeafError, StorageError

# Dtypes that numpy lacks, with an integer dtype of the same size for arrays of their bits.
_BITS = {torch.bfloat16: torch.int16} | {
    getattr(torch, name): torch.uint8 for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)
}

_PICKLED = _BITS | {
    getattr(torch, name): bits
    for name, bits in [
        *[(name, torch.uint8) for name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")],
        ("complex32", torch.int32),
    ]
    if hasattr(torch, name)
}
"""Dtypes that numpy lacks, with the integer dtype for their bits in a pickle; files support only some of them."""

_IN_NUMPY = {torch.bool, torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128} | {
    getattr(torch, name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
    if hasattr(torch, name)
}
_SHARED_FROM = 1 << 20
"""Number of bytes from which shared memory takes less time than a copy through a pipe."""


def in_numpy(tensor: Tensor) -> bool:
    """Return whether numpy has the dtype of a tensor."""
    return tensor.dtype in _IN_NUMPY


def to_tensor(array: Any) -> Tensor:
    """Return an array as a tensor on the CPU, on the same memory where torch can use it.

    Torch needs native byte order, forward strides, and aligned and writable memory; anything else is copied.

    Args:
        array: Array or scalar of numpy, of a numeric or bool dtype.
    """
    if obstacle := mask_obstacle(array):
        raise LeafError(f"a masked array cannot become a tensor: {obstacle}")
    array = np.asarray(array)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16 or array.dtype == np.longdouble:
        raise LeafError(f"{describe(array)} cannot become a tensor; torch has no such dtype")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not (array.flags.writeable and array.flags.aligned) or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


def cast(tensor: Tensor, dtype: torch.dtype | None, device: torch.device | str | None) -> Tensor:
    """Return ``tensor.to(device, dtype)``, except that bool stays bool and complex is not cut to its real part."""
    keeps = tensor.dtype == torch.bool or (tensor.is_complex() and dtype is not None and not dtype.is_complex)
    return tensor.to(device=device, dtype=tensor.dtype if dtype is None or keeps else dtype)


def cast_floats(
    tensor: Tensor, dtype: torch.dtype | None, device: torch.device | str | None, non_blocking: bool = False
) -> Tensor:
    """Return ``tensor.to(device, dtype)``, except that only floating dtypes change: a token id must not be rounded."""
    if dtype is None or not (tensor.is_floating_point() or (tensor.is_complex() and dtype.is_complex)):
        return tensor.to(device=device, non_blocking=non_blocking)
    return tensor.to(device=device, dtype=dtype, non_blocking=non_blocking)


def to_array(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor as an array on the same memory; one on a GPU or of a dtype that numpy lacks is copied."""
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):
        pass  # The tensor has a gradient, is on a GPU, is lazily conjugated, or has a dtype that numpy lacks.
    try:
        raw = tensor.detach().cpu().resolve_conj().resolve_neg()
        if raw.dtype not in _IN_NUMPY and not raw.is_quantized:
            raw = raw.to(torch.complex64 if raw.is_complex() else torch.float32)
        array: NDArray[Any] = raw.numpy()
    except (TypeError, RuntimeError) as error:
        raise LeafError(f"{describe(tensor)} cannot become an array: {error}") from error
    return array


class PickledTensor:
    """Stand-in for a CPU tensor in a pickle; it is as cheap as an array, and its memory can be sent out of band."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor = tensor
        _stand_ins.by_id[id(tensor)] = self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        raw, dtype = self.tensor.detach(), self.tensor.dtype
        array = (raw.view(_PICKLED[dtype]) if dtype in _PICKLED else raw).numpy()
        return _unpickle_tensor, (array, str(dtype), self.tensor.requires_grad)


def _reduce_for_process(stand_in: PickledTensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Copy a large tensor into shared memory, in a worker of a data loader.

    Such a worker stays until its batches have arrived, which others need not: a batch in shared memory is lost if its
    process ends before.
    """
    tensor = stand_in.tensor
    data: Any = sys.modules.get("torch.utils.data")
    if tensor.nbytes < _SHARED_FROM or data is None or data.get_worker_info() is None:
        return stand_in.__reduce__()
    shared = torch.empty(tensor.shape, dtype=tensor.dtype)
    shared.share_memory_()  # type: ignore[no-untyped-call]  # torch has no types for it
    return torch.Tensor.requires_grad_, (shared.copy_(tensor.detach()), tensor.requires_grad)


ForkingPickler.register(PickledTensor, _reduce_for_process)


class _StandIns(threading.local):
    """The stand-ins alive in this thread: a tensor in several fields gets one, and so is one tensor when unpickled."""

    def __init__(self) -> None:
        self.by_id: WeakValueDictionary[int, PickledTensor] = WeakValueDictionary()


_stand_ins = _StandIns()


def for_pickle(tensor: Tensor) -> object:
    """Return the object to pickle in place of ``tensor``.

    Torch itself pickles a tensor that is sparse, quantized, on a GPU, in shared memory, of a subclass, or of a dtype
    without an equivalent in numpy.
    """
    plain = type(tensor) is Tensor and tensor.layout is torch.strided and tensor.device.type == "cpu"
    special = tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.grad_fn is not None
    carried = tensor.dtype in _IN_NUMPY or tensor.dtype in _PICKLED
    if not plain or special or not carried or tensor.untyped_storage().is_shared():
        return tensor
    known = _stand_ins.by_id.get(id(tensor))
    return PickledTensor(tensor) if known is None or known.tensor is not tensor else known


def _unpickle_tensor(array: NDArray[Any], dtype: str, requires_grad: bool) -> Tensor:
    tensor = to_tensor(array)
    wanted: torch.dtype = getattr(torch, dtype.removeprefix("torch."))
    return (tensor if tensor.dtype == wanted else tensor.view(wanted)).requires_grad_(requires_grad)


def bits(dtype: torch.dtype) -> np.dtype[Any]:
    """Return the dtype of arrays that hold the bits of tensors: the same one, or an integer dtype if numpy lacks it."""
    return np.asarray(torch.zeros((), dtype=_BITS.get(dtype, dtype))).dtype


def dtype_named(name: str) -> torch.dtype:
    """Return the torch dtype called ``name``, without the imports that ``torch.<name>`` may start."""
    found = vars(torch).get(name)
    if not isinstance(found, torch.dtype):
        raise StorageError(f"torch has no dtype {name!r}")
    return found


def as_bits(tensor: Tensor) -> NDArray[Any]:
    """Return the bits of a tensor as an array of dtype ``bits(dtype)``; CPU memory is shared, gradients are cut."""
    raw = tensor.detach().cpu().resolve_conj().resolve_neg()
    array: NDArray[Any] = (raw.view(_BITS[raw.dtype]) if raw.dtype in _BITS else raw).numpy()
    return array


def from_bits(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """Return a tensor of ``dtype`` on the memory of an array whose dtype is ``bits(dtype)``."""
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def clone(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a deep copy; a tensor inside a graph, which torch's deepcopy refuses, is cloned within the graph."""
    return copy.deepcopy(tensor, memo) if tensor.is_leaf else tensor.clone()


def _as_float(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_floating_point() or tensor.is_complex() else tensor.double()


def _reducing(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(tensor: Tensor, axis: int | tuple[int, ...], keepdims: bool = False, **kwargs: Any) -> Tensor:
        if axis == ():  # numpy reduces over no dimension, but torch would reduce over all.
            return function(tensor.unsqueeze(0), dim=(0,), keepdim=False, **kwargs)
        return function(tensor, dim=axis if isinstance(axis, tuple) else (axis,), keepdim=keepdims, **kwargs)

    return reduce


REDUCTIONS: dict[Callable[..., Any], Callable[..., Tensor]] = {
    np.sum: _reducing(torch.sum),
    np.mean: _reducing(lambda t, **dims: torch.mean(_as_float(t), **dims)),
    np.var: _reducing(lambda t, ddof=0, **dims: torch.var(_as_float(t), correction=ddof, **dims)),
    np.std: _reducing(lambda t, ddof=0, **dims: torch.std(_as_float(t), correction=ddof, **dims)),
    np.min: _reducing(torch.amin),
    np.max: _reducing(torch.amax),
    np.any: _reducing(torch.any),
    np.all: _reducing(torch.all),
}
"""Torch functions for numpy reductions; they preserve gradients and device, and follow numpy in ``ddof`` and means."""
