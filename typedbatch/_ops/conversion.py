"""Conversion between numpy and torch, of whole batches and of single values of any kind, and moves to other devices."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy import ndarray

from typedbatch._core import kinds
from typedbatch._core.kinds import KINDS, Kind, Tree, describe, is_objects, kind_of, new_sequences, object_array
from typedbatch._core.lengths import require_rows
from typedbatch._core.meta import keep_meta
from typedbatch._ops.construct import to_leaf
from typedbatch.errors import LeafError, MissingDependencyError, SettingError, TypedBatchError

if TYPE_CHECKING:
    import torch

    Device = torch.device | str | int
    Dtype = torch.dtype

T = TypeVar("T", bound=Tree)
_WITHOUT_TENSORS: Final = frozenset({kinds.NONE, kinds.NUMBER, kinds.OBJECT, kinds.SCALAR})
_torch_side: list[Any] = []


def to_numpy(x: Any) -> Any:
    """Replace every tensor in ``x`` by an array.

    Args:
        x: Tensor, array, number, ``None``, a dict or a Batch of these, or a list of them.

    Returns:
        An array for a tensor, a number or a list; a Batch for a dict or a Batch; anything else unchanged. CPU memory is
        shared. Gradients are cut. bfloat16 and float8, which numpy lacks, become float32.
    """
    leaf = to_leaf(x)
    return _all_to_numpy(leaf) if kind_of(leaf) is not kinds.BATCH else map_leaves(leaf, _all_to_numpy)


def to_torch(x: Any, dtype: Dtype | None = None, device: Device = "cpu") -> Any:
    """Replace every numeric array and number in ``x`` by a tensor.

    Args:
        x: Array, tensor, number, ``None``, a dict or a Batch of these, or a list of them.
        dtype: Dtype of the result; bool stays bool. In a batch it applies to the floating leaves only.
        device: Device of the result.

    Returns:
        A tensor, or a Batch for a dict or a Batch. ``None``, text, object arrays and distributions stay unchanged, but
        tensors in them move.
        Memory is shared where torch can use it: native byte order, forward strides, writable, same dtype and device.

    Raises:
        LeafError: Torch lacks a numeric dtype, as ``longdouble``.
        SettingError: Torch has no such dtype or device, or the dtype is not a floating one and ``x`` is a batch.
    """
    leaf = to_leaf(x)
    if kind_of(leaf) is kinds.BATCH:
        return map_leaves(leaf, leaf_to_torch(float_dtype(dtype), device, only_floats=True))
    return leaf_to_torch(torch_dtype(dtype), device)(leaf)


def to_torch_as(x: Any, y: torch.Tensor) -> Any:
    """Convert ``x`` to torch, with the dtype and the device of the tensor ``y``; see :func:`to_torch`."""
    return to_torch(x, dtype=y.dtype, device=y.device)


class no_grad:  # noqa: N801  # The name is torch's; torch.no_grad itself does more and is slower.
    """Context in which gradients are off, if torch is imported; afterwards the previous state is restored."""

    __slots__ = ("_switch",)

    def __enter__(self) -> None:
        torch: Any = sys.modules.get("torch")
        # torch.set_grad_enabled makes an object around this function
        self._switch = torch._C._set_grad_enabled if torch is not None and torch.is_grad_enabled() else None  # noqa: SLF001
        if self._switch is not None:
            self._switch(False)

    def __exit__(self, *_: object) -> None:
        if self._switch is not None:
            self._switch(True)


def torch_side() -> Any:
    """Import ``typedbatch._core.tensors``, and with it torch, at the first tensor, and return that module."""
    if not _torch_side:  # a list and no functools.cache, of which torch.compile warns
        try:
            from typedbatch._core import tensors
        except ModuleNotFoundError as error:
            raise MissingDependencyError("tensors need torch; pip install 'typedbatch[torch]'") from error
        _torch_side.append(tensors)
    return _torch_side[0]


def require_device(device: Any) -> None:
    """Raise an error if torch has no such device; None is allowed."""
    if device is None:
        return
    try:
        torch_side().torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise SettingError(f"torch has no device {device!r}: {error}") from error


def leaf_to_numpy(leaf: Any) -> Any:
    """Return a leaf with tensors replaced by arrays; other leaves are returned unchanged."""
    if type(leaf) is ndarray:
        return leaf
    kind = KINDS[type(leaf)]
    if kind is kinds.RAGGED:
        return map_values(leaf, leaf_to_numpy)
    return torch_side().to_array(leaf) if kind is kinds.TENSOR else leaf


def tree_to_numpy(tree: T) -> T:
    """Return a new tree with arrays in place of tensors."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return map_leaves(tree, _all_to_numpy, tensor, getattr(tensor, "numpy", None))


def _all_to_numpy(leaf: Any) -> Any:
    if type(leaf) is ndarray and leaf.dtype != object:
        return leaf
    return map_objects(leaf, leaf_to_numpy) if KINDS[type(leaf)] is not kinds.RAGGED else leaf_to_numpy(leaf)


def tree_to_torch(tree: T, dtype: Dtype | None, device: Device | None) -> T:
    """Return a new tree with tensors in place of numeric arrays and numpy scalars."""
    if dtype is None and (device is None or device == "cpu"):
        return map_leaves(tree, _tensor_maker(device), ndarray, torch_side().torch.from_numpy)
    return map_leaves(tree, leaf_to_torch(float_dtype(dtype), device, only_floats=True))


@cache
def _tensor_maker(device: Device | None) -> Callable[[Any], Any]:
    return leaf_to_torch(None, device)


def leaf_to_device(device: Device | None, dtype: Dtype | None = None) -> Callable[[Any], Any]:
    """Return a function that turns a leaf into a tensor; integers and flags keep their dtype."""
    floating = float_dtype(dtype)
    if device is None or device == "cpu":
        return _cpu_maker(device, floating)
    return leaf_to_torch(floating, device, only_floats=True)


@cache
def _cpu_maker(device: Device | None, floating: Any) -> Callable[[Any], Any]:
    """Return the function of :func:`leaf_to_torch` for tensors on the CPU, faster for plain arrays."""
    make, from_numpy = leaf_to_torch(floating, device, only_floats=True), torch_side().torch.from_numpy
    casts = frozenset[str]() if floating is None else frozenset("fc") if floating.is_complex else frozenset("f")

    def share(leaf: Any) -> Any:
        if type(leaf) is ndarray and leaf.flags.writeable and leaf.flags.aligned:
            try:
                tensor = from_numpy(leaf)
            except (TypeError, ValueError):  # torch cannot use this memory, or the array has no numbers
                return make(leaf)
            return tensor.to(floating) if leaf.dtype.kind in casts else tensor
        return make(leaf)

    return share


def torch_dtype(dtype: Any) -> Any:
    """Return a dtype of torch; None stays None, and Python's ``float`` becomes torch's default dtype."""
    torch = torch_side().torch
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    try:
        return torch.empty(0, dtype=dtype).dtype  # It accepts Python's float and int too.
    except TypeError as error:
        raise SettingError(f"dtype= must be a dtype of torch, as torch.float32, got {dtype!r}") from error


def float_dtype(dtype: Any) -> Any:
    """Return a dtype of torch as :func:`torch_dtype` does, for the floating leaves of a batch."""
    dtype = torch_dtype(dtype)
    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        return dtype
    raise SettingError(f"dtype= must be a floating one, as torch.bfloat16, got {dtype}; other fields keep their dtype")


def leaf_to_torch(dtype: Dtype | None, device: Device | None, only_floats: bool = False) -> Callable[[Any], Any]:
    """Return a function that turns a leaf into a tensor, and moves those in objects; others are returned unchanged.

    Args:
        dtype: Dtype of the tensors, as :func:`torch_dtype` returns it.
        device: Device of the tensors.
        only_floats: Whether ``dtype`` is for floating leaves only, so that integers keep their dtype.
    """
    side = torch_side()
    require_device(device)
    cast = side.cast_floats if only_floats else side.cast

    def convert(leaf: Any) -> Any:
        kind = KINDS[type(leaf)]
        if kind is kinds.ARRAY or kind is kinds.SCALAR:
            if leaf.dtype.kind in "biufc":
                return cast(side.to_tensor(leaf), dtype, device)
            return map_objects(leaf, convert)
        if kind is kinds.TENSOR:
            return cast(leaf, dtype, device)
        if kind is kinds.DISTRIBUTION:
            from typedbatch._core.distributions import map_dist

            return leaf if device is None else map_dist(leaf, lambda tensor: tensor.to(device))
        return map_values(leaf, convert) if kind is kinds.RAGGED else map_objects(leaf, convert)

    return convert


def map_objects(column: Any, function: Callable[[Any], Any]) -> Any:
    """Return a column of objects with ``function`` applied to every tensor and distribution in them.

    They are found in lists, tuples, dicts, Batches and columns, which are copied if they hold one. A column without
    any, or another leaf, is returned itself. One object of a column is treated alike, as a row holds it.
    """
    done: dict[int, Any] = {}

    def convert(value: Any) -> Any:
        kind = KINDS[type(value)]
        if kind in _WITHOUT_TENSORS:
            return value
        if id(value) not in done:
            done[id(value)] = value  # It may contain itself.
            done[id(value)] = convert_inside(value, kind)
        return done[id(value)]

    def convert_inside(value: Any, kind: Kind) -> Any:
        if kind is kinds.TENSOR or kind is kinds.DISTRIBUTION:
            return function(value)
        if kind is kinds.BATCH or kind is kinds.RAGGED:
            return map_leaves(value, convert) if kind is kinds.BATCH else map_values(value, convert)
        if is_objects(value):
            old = np.ma.getdata(value).ravel().tolist()
        elif isinstance(value, (dict, list, tuple)):
            old = list(value.values() if isinstance(value, dict) else value)
        else:
            return value
        if {KINDS[cls] for cls in set(map(type, old))} <= _WITHOUT_TENSORS:
            return value
        new = [convert(item) for item in old]
        if all(item is other for item, other in zip(new, old, strict=True)):
            return value
        if isinstance(value, tuple):
            return getattr(value, "_make", tuple)(new)
        out = copy.copy(value)
        if isinstance(out, dict):
            out.update(zip(value, new, strict=True))
        elif isinstance(out, list):
            out[:] = new
        else:
            np.ma.getdata(out)[...] = object_array(new).reshape(out.shape)
        return out

    return convert(column)


def map_leaves(
    tree: T, function: Callable[[Any], Any], quick_class: Any = None, quick: Callable[[Any], Any] | None = None
) -> T:
    """Return a new tree with ``function`` applied to every leaf; results are stored unconverted.

    ``quick`` is a faster function for leaves of ``quick_class``; ``function`` takes those that it refuses, as torch
    refuses arrays of objects and numpy refuses tensors with gradients, and arrays that are read-only.
    """
    out = object.__new__(type(tree))
    fields = out.__dict__
    given = tree.__dict__
    if type(given) is not dict:
        fields = keep_meta(tree, out)
    name = ""
    try:
        for name, value in given.items():
            if type(value) is quick_class and (quick_class is not ndarray or value.flags.writeable):
                try:
                    fields[name] = quick(value)  # type: ignore[misc]  # It comes with its class.
                    continue
                except (TypeError, ValueError, RuntimeError):
                    pass
            if isinstance(value, Tree):
                fields[name] = map_leaves(value, function, quick_class, quick)
            else:
                fields[name] = map_values(value, function) if KINDS[type(value)] is kinds.RAGGED else function(value)
    except TypedBatchError as error:
        raise error.under(name) from error.__cause__
    return out


def map_values(ragged: Any, function: Callable[[Any], Any]) -> Any:
    """Return the same sequences with ``function`` applied to every leaf of their values."""
    values = map_leaves(ragged.values, function)
    require_rows(values, int(ragged.sizes.sum()))
    return new_sequences(type(ragged), values, ragged.sizes)


def adopt(tree: Tree, other: Tree) -> None:
    """Replace the leaves of ``tree`` and its nested Batches by those of ``other``, which has the same structure."""
    mine, given = tree.__dict__, other.__dict__
    nested = [name for name in given if KINDS[type(mine[name])] is KINDS[type(given[name])] is kinds.BATCH]
    mine.update({name: value for name, value in given.items() if name not in nested})  # the columns of a buffer refuse
    for name in nested:
        adopt(mine[name], given[name])


def at_least_2d(leaf: Any) -> Any:
    """Return a leaf with 2 or more dimensions, a distribution with 1 or more batch dimensions; a view if possible."""
    kind = KINDS[type(leaf)]
    if kind is kinds.TENSOR:
        import torch

        return torch.atleast_2d(leaf)  # type: ignore[no-untyped-call]  # torch does not annotate it.
    if kind is kinds.DISTRIBUTION:
        from typedbatch._core.distributions import dist_to_atleast_2d

        return dist_to_atleast_2d(leaf)
    return leaf if kind in (kinds.NONE, kinds.OBJECT) else np.atleast_2d(leaf)


def moved(tree: T, device: Device | None, dtype: Dtype | None, non_blocking: bool) -> T:
    """Move and cast the tensors of a batch; see :meth:`typedbatch.Batch.to`."""
    require_device(device)
    dtype, side = float_dtype(dtype), torch_side()

    def cast(tensor: Any) -> Any:
        return side.cast_floats(tensor, dtype, device, non_blocking)

    return _on_tensors(tree, cast, lambda tensor: tensor.to(device, non_blocking=non_blocking), "to()")


def pinned(tree: T) -> T:
    """Pin the memory of the tensors of a batch; see :meth:`typedbatch.Batch.pin_memory`."""

    def pin(tensor: Any) -> Any:
        try:
            return tensor.pin_memory()
        except RuntimeError as error:  # The tensor is on a GPU, or the machine has none.
            raise LeafError(f"{describe(tensor)} on {tensor.device} cannot be pinned: {error}") from error

    return _on_tensors(tree, pin, pin, "pin_memory()")


def _on_tensors(tree: T, on_leaf: Callable[[Any], Any], on_parameter: Callable[[Any], Any], who: str) -> T:
    """Return a new tree with ``on_leaf`` applied to every tensor and ``on_parameter`` to those in distributions."""

    def apply(leaf: Any) -> Any:
        kind = KINDS[type(leaf)]
        if kind is kinds.TENSOR:
            return on_leaf(leaf)
        if kind is kinds.DISTRIBUTION:
            from typedbatch._core.distributions import map_dist

            return map_dist(leaf, on_parameter)
        if (kind is kinds.ARRAY or kind is kinds.SCALAR) and leaf.dtype.kind in "biufc":
            raise LeafError(f"{who} takes tensors, got {describe(leaf)}; to_torch() makes it one")
        return map_objects(leaf, apply)

    return map_leaves(tree, apply)
