"""The torch side of leaves. Imported only when a tensor is at hand or asked for; the core never imports torch."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._tree.leaves import describe, mask_obstacle
from typedbatch.errors import LeafError, StorageError

# dtypes that numpy lacks, with the integer of the same size that carries their bits through a pickle
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
"""The same for pickles, which also carry dtypes that files do not have."""

_IN_NUMPY = {torch.bool, torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128} | {
    getattr(torch, name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
    if hasattr(torch, name)
}


def in_numpy(tensor: Tensor) -> bool:
    """Whether numpy has the dtype of a tensor."""
    return tensor.dtype in _IN_NUMPY


def to_tensor(array: Any) -> Tensor:
    """An array as a tensor on the CPU: the same memory where torch can use it, else a copy.

    Torch needs native byte order, forward strides and memory that it may write to; anything else is copied.

    Args:
        array: numpy array or numpy scalar of a numeric or bool dtype.

    Raises:
        LeafError: torch has no such dtype, or something in the array is masked.
    """
    if obstacle := mask_obstacle(array):
        raise LeafError(f"a masked array cannot become a tensor: {obstacle}")
    array = np.asarray(array)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16 or array.dtype == np.longdouble:
        raise LeafError(f"{describe(array)} cannot become a tensor; torch has no such dtype")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


def cast(tensor: Tensor, dtype: torch.dtype | None, device: torch.device | str | None) -> Tensor:
    """``tensor.to(device, dtype)``, but bool stays bool and complex is not cut down to its real part."""
    keeps = tensor.dtype == torch.bool or (tensor.is_complex() and dtype is not None and not dtype.is_complex)
    return tensor.to(device=device, dtype=tensor.dtype if dtype is None or keeps else dtype)


def cast_floats(
    tensor: Tensor, dtype: torch.dtype | None, device: torch.device | str | None, non_blocking: bool = False
) -> Tensor:
    """``tensor.to(device, dtype)``, but what is not floating keeps its dtype: a token id must not be rounded."""
    if dtype is None or not (tensor.is_floating_point() or (tensor.is_complex() and dtype.is_complex)):
        return tensor.to(device=device, non_blocking=non_blocking)
    return tensor.to(device=device, dtype=dtype, non_blocking=non_blocking)


def to_array(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array on the same memory; copied only from a GPU, or to widen dtypes that numpy lacks.

    Raises:
        LeafError: there is no such array: the tensor is sparse, quantized, nested, or has no memory.
    """
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):
        pass  # it has a gradient, is on a GPU, is lazily conjugated, or of a dtype that numpy lacks
    try:
        raw = tensor.detach().cpu().resolve_conj().resolve_neg()
        if raw.dtype not in _IN_NUMPY and not raw.is_quantized:
            raw = raw.to(torch.complex64 if raw.is_complex() else torch.float32)
        array: NDArray[Any] = raw.numpy()
    except (TypeError, RuntimeError) as error:
        raise LeafError(f"{describe(tensor)} cannot become an array: {error}") from error
    return array


class PickledTensor:
    """Stands for a CPU tensor inside a pickle: it costs what an array costs, and goes out of band as arrays do."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor = tensor
        _standing.by_id[id(tensor)] = self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        raw, dtype = self.tensor.detach(), self.tensor.dtype
        array = (raw.view(_PICKLED[dtype]) if dtype in _PICKLED else raw).numpy()
        return _unpickle_tensor, (array, str(dtype), self.tensor.requires_grad)


class _Standing(threading.local):
    """The ones that a pickler of this thread remembers: a tensor in several places has one, and so is one again."""

    def __init__(self) -> None:
        self.by_id: WeakValueDictionary[int, PickledTensor] = WeakValueDictionary()


_standing = _Standing()


def for_pickle(tensor: Tensor) -> object:
    """What to pickle for ``tensor``.

    What is sparse, quantized, on a GPU, in shared memory, of a subclass, or of a dtype that numpy has nothing for,
    travels as torch wants it.
    """
    plain = type(tensor) is Tensor and tensor.layout is torch.strided and tensor.device.type == "cpu"
    special = tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.grad_fn is not None
    carried = tensor.dtype in _IN_NUMPY or tensor.dtype in _PICKLED
    if not plain or special or not carried or tensor.untyped_storage().is_shared():
        return tensor
    known = _standing.by_id.get(id(tensor))
    return PickledTensor(tensor) if known is None or known.tensor is not tensor else known


def _unpickle_tensor(array: NDArray[Any], dtype: str, requires_grad: bool) -> Tensor:
    tensor = to_tensor(array)
    wanted: torch.dtype = getattr(torch, dtype.removeprefix("torch."))
    return (tensor if tensor.dtype == wanted else tensor.view(wanted)).requires_grad_(requires_grad)


def bits(dtype: torch.dtype) -> np.dtype[Any]:
    """The dtype of arrays that hold the bits of such tensors: the same one, or an integer where numpy lacks it."""
    return np.asarray(torch.zeros((), dtype=_BITS.get(dtype, dtype))).dtype


def dtype_named(name: str) -> torch.dtype:
    """The dtype that torch calls so. Nothing is imported, as reading ``torch.x`` may do.

    Raises:
        StorageError: there is none.
    """
    found = vars(torch).get(name)
    if not isinstance(found, torch.dtype):
        raise StorageError(f"a dtype that torch has not: {name!r}")
    return found


def as_bits(tensor: Tensor) -> NDArray[Any]:
    """The bits of a tensor as an array of that dtype: CPU memory is shared. Gradients are cut."""
    raw = tensor.detach().cpu().resolve_conj().resolve_neg()
    array: NDArray[Any] = (raw.view(_BITS[raw.dtype]) if raw.dtype in _BITS else raw).numpy()
    return array


def from_bits(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """A tensor on the memory of an array that ``bits`` has named the dtype of."""
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def clone(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """A deep copy; a tensor inside a graph is cloned within the graph, which torch's own deepcopy refuses."""
    return copy.deepcopy(tensor, memo) if tensor.is_leaf else tensor.clone()


def _as_float(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_floating_point() or tensor.is_complex() else tensor.double()


def _reducing(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(tensor: Tensor, axis: int | tuple[int, ...], keepdims: bool = False, **kwargs: Any) -> Tensor:
        if axis == ():  # over no dimension: for torch that would mean over all
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
"""numpy reductions as torch does them, gradients and device kept, with numpy's ``ddof`` and integer means."""
