"""Between numpy and torch: whole batches, and single values of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from typedbatch.construct import to_leaf
from typedbatch.errors import TypedBatchError
from typedbatch.leaves import ARRAY, BATCH, DISTRIBUTION, KINDS, NONE, OBJECT, SCALAR, TENSOR, Tree, kind_of

if TYPE_CHECKING:
    import torch

    Device = torch.device | str | int
    Dtype = torch.dtype

T = TypeVar("T", bound=Tree)


def to_numpy(x: Any) -> Any:
    """``x`` with every tensor replaced by an array.

    Args:
        x: tensor, array, number, ``None``, a dict or a Batch of these, or a list of them.

    Returns:
        An array for a tensor, a number or a list; a Batch for a dict or a Batch; anything else as it is. CPU memory is
        shared. Gradients are cut. bfloat16 and float8, which numpy lacks, become float32.
    """
    leaf = to_leaf(x)
    return leaf_to_numpy(leaf) if kind_of(leaf) is not BATCH else map_leaves(leaf, leaf_to_numpy)


def to_torch(x: Any, dtype: Dtype | None = None, device: Device = "cpu") -> Any:
    """``x`` with every numeric array and number replaced by a tensor.

    Args:
        x: array, tensor, number, ``None``, a dict or a Batch of these, or a list of them.
        dtype: dtype of the result; bool leaves stay bool.
        device: device of the result.

    Returns:
        A tensor, a Batch for a dict or a Batch. ``None``, text, object arrays and distributions stay what they are.
        Memory is shared where torch can use it: native byte order, forward strides, writable, same dtype and device.
    """
    leaf = to_leaf(x)
    convert = leaf_to_torch(dtype, device)
    return convert(leaf) if kind_of(leaf) is not BATCH else map_leaves(leaf, convert)


def to_torch_as(x: Any, y: torch.Tensor) -> Any:
    """``x`` as torch, with the dtype and the device of the tensor ``y``."""
    return to_torch(x, dtype=y.dtype, device=y.device)


def leaf_to_numpy(leaf: Any) -> Any:
    """One leaf as numpy; leaves that are not tensors stay."""
    if KINDS[type(leaf)] is not TENSOR:
        return leaf
    from typedbatch.tensors import to_array

    return to_array(leaf)


def leaf_to_torch(dtype: Dtype | None, device: Device | None) -> Callable[[Any], Any]:
    """A function that turns one leaf into a tensor; ``None``, text and object arrays stay."""
    import torch

    from typedbatch.tensors import cast, to_tensor

    where = torch.device(device) if device is not None else None
    # The usual arrays need no look at their flags beyond these two, and no look at dtype or device.
    plain = dtype is None and (where is None or where.type == "cpu")

    def convert(leaf: Any) -> Any:
        kind = KINDS[type(leaf)]
        if kind is ARRAY or kind is SCALAR:
            if leaf.dtype.kind not in "biufc":
                return leaf
            if plain and kind is ARRAY and leaf.flags.carray:
                return torch.from_numpy(leaf)
            return to_tensor(leaf, dtype, where)
        if kind is TENSOR:
            return cast(leaf, dtype, where)
        if kind is DISTRIBUTION:
            from typedbatch.distributions import map_dist

            return map_dist(leaf, lambda tensor: tensor.to(where))
        return leaf

    return convert


def map_leaves(tree: T, function: Callable[[Any], Any]) -> T:
    """A new tree with ``function`` applied to every leaf; results are stored as they are."""
    out = object.__new__(type(tree))
    fields = out.__dict__
    name = ""
    try:
        for name, value in tree.__dict__.items():
            fields[name] = map_leaves(value, function) if KINDS[type(value)] is BATCH else function(value)
    except TypedBatchError as error:
        raise error.under(name) from error.__cause__
    return out


def map_leaves_in_place(tree: Tree, function: Callable[[Any], Any]) -> None:
    """Replace every leaf by ``function(leaf)``, in the same nested Batches; nothing changes when one call raises."""
    adopt(tree, map_leaves(tree, function))


def adopt(tree: Tree, other: Tree) -> None:
    """Give ``tree``, and its nested Batches, the leaves of ``other``, which has the same structure."""
    for name, value in other.__dict__.items():
        mine = tree.__dict__[name]
        if KINDS[type(mine)] is BATCH and KINDS[type(value)] is BATCH:
            adopt(mine, value)
        else:
            tree.__dict__[name] = value


def at_least_2d(leaf: Any) -> Any:
    """A leaf with at least two dimensions; a distribution with at least one batch dimension. Views where possible."""
    kind = KINDS[type(leaf)]
    if kind is TENSOR:
        import torch

        return torch.atleast_2d(leaf)  # type: ignore[no-untyped-call]  # torch leaves it unannotated
    if kind is DISTRIBUTION:
        from typedbatch.distributions import dist_to_atleast_2d

        return dist_to_atleast_2d(leaf)
    return leaf if kind in (NONE, OBJECT) else np.atleast_2d(leaf)
