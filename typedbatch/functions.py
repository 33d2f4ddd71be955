"""numpy functions on a batch: ``np.mean(batch)``, ``np.concatenate([a, b])``, ``np.where`` stays numpy's."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import numpy as np

from typedbatch.arithmetic import apply
from typedbatch.combine import cat_trees, stack_trees
from typedbatch.construct import to_leaf
from typedbatch.equality import allclose, equal
from typedbatch.errors import LeafError
from typedbatch.leaves import BATCH, TENSOR, Tree, kind_of
from typedbatch.rows import shared_dims

Function = Callable[..., Any]


def _cat(batches: Any, axis: int = 0) -> Any:
    if axis != 0:
        raise LeafError(f"np.concatenate joins batches along axis 0, got axis={axis}")
    return cat_trees(batches, "error", to_leaf)


def _stack(batches: Any, axis: int = 0) -> Any:
    return stack_trees(batches, axis, "error", to_leaf)


def _both(one: object, two: object) -> bool:
    return kind_of(one) is kind_of(two) is BATCH


_WHOLE: dict[Function, Function] = {
    np.concatenate: _cat,
    np.stack: _stack,
    np.array_equal: lambda one, two, equal_nan=False: (
        _both(one, two) and (allclose(one, two, 0, 0, equal_nan) if equal_nan else equal(one, two))
    ),
    np.allclose: lambda one, two, *args, **kwargs: _both(one, two) and allclose(one, two, *args, **kwargs),
    np.shape: lambda batch: tuple(batch.shape),
}
"""numpy functions that mean something for a batch as a whole."""

_REDUCTIONS: Set[Function] = {
    *(np.mean, np.sum, np.prod, np.std, np.var, np.min, np.max, np.any, np.all, np.median),
    *(np.nanmean, np.nansum, np.nanstd, np.nanvar, np.nanmin, np.nanmax, np.argmin, np.argmax),
}
"""Functions that reduce, by default, over the dimensions that the fields share."""

_LEAFWISE: Set[Function] = {
    *(np.copy, np.clip, np.round, np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.nan_to_num, np.real),
    *(np.cumsum, np.cumprod, np.diff, np.flip, np.roll, np.repeat, np.take, np.squeeze, np.expand_dims, np.sort),
    *(np.moveaxis, np.swapaxes, np.atleast_1d, np.atleast_2d, np.isclose, np.argsort, np.delete, np.tile),
}
"""Functions of one array that are applied to every leaf."""


def apply_function(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``__array_function__`` does; ``NotImplemented`` for functions that make no sense on a batch."""
    if function in _WHOLE:
        return _WHOLE[function](*args, **kwargs)
    if not args or kind_of(args[0]) is not BATCH:
        return NotImplemented
    if function in _REDUCTIONS:
        return _reduce(function, args[0], *args[1:], **kwargs)
    if function in _LEAFWISE:
        return apply(_on_leaf(function, args[1:], kwargs), args[0])
    return NotImplemented


def _reduce(function: Function, tree: Tree, axis: Any = None, **kwargs: Any) -> Any:
    if axis is None:
        axis = tuple(range(shared_dims(tree.__dict__)))
        if function in (np.argmin, np.argmax):
            if len(axis) != 1:
                raise LeafError(f"np.{function.__name__} of fields that share {len(axis)} dimensions; say which axis=")
            axis = axis[0]
    return apply(_on_leaf(function, (), {"axis": axis, **kwargs}), tree)


def _on_leaf(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Function:
    def call(leaf: Any) -> Any:
        if kind_of(leaf) is not TENSOR:
            return function(leaf, *args, **kwargs)
        from typedbatch import tensors

        if function in tensors.REDUCTIONS:
            return tensors.REDUCTIONS[function](leaf, **kwargs)
        # The rest is numpy's own, on the same memory; a tensor with a gradient or on a GPU refuses, and says so.
        return tensors.to_tensor(np.asarray(function(leaf.numpy(), *args, **kwargs)))

    call.__name__ = f"np.{function.__name__}"
    return call
