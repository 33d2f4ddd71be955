"""numpy functions on batches, as ``np.mean(batch)`` and ``np.concatenate([a, b])``; others refuse a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import cache
from typing import Any

import numpy as np

from typedbatch._core.kinds import BATCH, TENSOR, Tree, kind_of
from typedbatch._core.lengths import shared_dims
from typedbatch._ops.arithmetic import apply, apply_ufunc
from typedbatch._ops.combine import cat_trees, stack_trees
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.equality import allclose, equal
from typedbatch.errors import LeafError

Function = Callable[..., Any]


def _cat(batches: Any, axis: int = 0, *more: Any, **options: Any) -> Any:
    if axis != 0 or more or options:
        raise LeafError("np.concatenate joins batches along axis 0 only, and takes no other arguments")
    return cat_trees(batches, "error", to_leaf)


def _stack(batches: Any, axis: int = 0, *more: Any, **options: Any) -> Any:
    if more or options:
        raise LeafError("np.stack of batches takes axis= and no other arguments")
    return stack_trees(batches, axis, "error", to_leaf)


_WHOLE: dict[Function, Function] = {
    np.concatenate: _cat,
    np.stack: _stack,
    np.array_equal: lambda a1, a2, equal_nan=False: (
        kind_of(a1) is kind_of(a2) is BATCH and (allclose(a1, a2, 0, 0, equal_nan) if equal_nan else equal(a1, a2))
    ),
    np.allclose: lambda a, b, *args, **kwargs: kind_of(a) is kind_of(b) is BATCH and allclose(a, b, *args, **kwargs),
    np.shape: lambda a: tuple(a.shape),
}
"""numpy functions that apply to a batch as a whole."""

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
"""Functions that are applied to every leaf; the leaves of several batches are paired by name."""


def apply_function(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a numpy function, as ``__array_function__`` does; return ``NotImplemented`` for one without support."""
    if function in _WHOLE:
        return _WHOLE[function](*args, **kwargs)
    if function not in _REDUCTIONS and function not in _LEAFWISE:
        return NotImplemented
    given = _signature(function).bind(*args, **kwargs)
    if given.arguments.get("out") is not None:
        raise LeafError(f"np.{function.__name__}(out=) would write every field into one array; call it without out=")
    batches = [kind_of(value) is BATCH for value in given.args]
    if not any(batches) or BATCH in map(kind_of, given.kwargs.values()):
        return NotImplemented
    if function in (np.atleast_1d, np.atleast_2d) and len(batches) > 1:  # They would return a tuple for each leaf.
        return NotImplemented
    if function in _LEAFWISE:
        return apply(_on_leaf(function, given.kwargs), *given.args)
    if batches != [True] + [False] * (len(batches) - 1):
        return NotImplemented
    tree, *_ = given.args
    options = {name: value for name, value in given.arguments.items() if value is not tree}
    axis = options.pop("axis", None)
    if axis is None:
        axis = tuple(range(shared_dims(tree.__dict__)))
        if function in (np.argmin, np.argmax):
            if len(axis) != 1:
                raise LeafError(f"np.{function.__name__} of fields that share {len(axis)} dimensions needs axis=")
            axis = axis[0]
    return apply(_on_leaf(function, {"axis": axis, **options}), tree)


@cache
def _signature(function: Function) -> Any:
    from inspect import signature  # imported here because it is slow to import

    return signature(function)


def _on_leaf(function: Function, kwargs: Mapping[str, Any]) -> Function:
    def call(*values: Any) -> Any:
        if TENSOR not in map(kind_of, values):
            return function(*values, **kwargs)
        from typedbatch._core import tensors

        if function in tensors.REDUCTIONS:
            return tensors.REDUCTIONS[function](*values, **kwargs)
        # Other functions run in numpy, on the same memory; numpy() refuses tensors with a gradient or on a GPU.
        arrays = (value.numpy() if kind_of(value) is TENSOR else value for value in values)
        return tensors.to_tensor(np.asanyarray(function(*arrays, **kwargs)))

    call.__name__ = f"np.{function.__name__}"
    return call


class NumpyProtocols(Tree):
    """The protocols by which numpy handles a Batch."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply a ufunc to every leaf, as in ``np.exp(batch)``, ``np.maximum(batch, 0)`` and ``array * batch``."""
        if method != "__call__" or "out" in kwargs:
            return NotImplemented
        return apply_ufunc(ufunc, inputs, kwargs)

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Apply a function of numpy, as in ``np.mean(batch)`` and ``np.concatenate([a, b])``."""
        return apply_function(func, args, dict(kwargs))
