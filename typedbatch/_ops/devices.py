"""Devices: batches of tensors moved to a device, cast, and pinned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from typedbatch._ops.conversion import float_dtype, map_leaves, map_objects, require_device, torch_side
from typedbatch._tree.kinds import ARRAY, DISTRIBUTION, KINDS, SCALAR, TENSOR, Tree, describe
from typedbatch.errors import LeafError

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device, Dtype

T = TypeVar("T", bound=Tree)


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
        if kind is TENSOR:
            return on_leaf(leaf)
        if kind is DISTRIBUTION:
            from typedbatch._tree.distributions import map_dist

            return map_dist(leaf, on_parameter)
        if (kind is ARRAY or kind is SCALAR) and leaf.dtype.kind in "biufc":
            raise LeafError(f"{who} takes tensors, got {describe(leaf)}; to_torch() makes it one")
        return map_objects(leaf, apply)

    return map_leaves(tree, apply)
