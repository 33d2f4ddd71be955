"""Equality and closeness of batches. Neither ever raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from typedbatch.leaves import ARRAY, BATCH, DISTRIBUTION, KINDS, SCALAR, TENSOR, Tree

Compare = Callable[[Any, Any], bool]


def equal(one: Tree, two: Tree) -> bool:
    """Same names (in any order), shapes, dtypes and values; a tensor equals the array that it shares them with.

    NaN differs from NaN, as everywhere in numpy and torch; :func:`allclose` can see it otherwise.
    """
    try:
        return _equal(one, two)
    except RecursionError:  # a batch that holds itself
        return one is two


def _equal(one: Tree, two: Tree) -> bool:
    left, right = one.__dict__, two.__dict__
    if len(left) != len(right):
        return False
    for name, a in left.items():
        if name not in right:
            return False
        b = right[name]
        if type(a) is np.ndarray and type(b) is np.ndarray and a.dtype.kind != "O":
            if a.dtype != b.dtype or a.shape != b.shape or not (a == b).all():
                return False
        elif not _same(a, b, _equal, _equal_arrays):
            return False
    return True


def allclose(one: Tree, two: Tree, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """As :func:`equal`, but dtypes may differ and numbers may be apart by ``atol + rtol * abs(two)``."""

    def close_arrays(a: Any, b: Any) -> bool:
        if a.dtype.kind not in "biufc" or b.dtype.kind not in "biufc":
            return _equal_arrays(a, b)
        return bool(a.shape == b.shape and np.allclose(a, b, rtol, atol, equal_nan))

    def close(a: Tree, b: Tree) -> bool:
        left, right = a.__dict__, b.__dict__
        return left.keys() == right.keys() and all(_same(left[k], right[k], close, close_arrays) for k in left)

    try:
        return close(one, two)
    except RecursionError:
        return one is two


def _same(a: Any, b: Any, same_trees: Compare, same_arrays: Compare) -> bool:
    try:
        return _compare(a, b, same_trees, same_arrays)
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001  # a sparse or meta tensor, a foreign class: what does not compare is not equal
        return a is b


def _compare(a: Any, b: Any, same_trees: Compare, same_arrays: Compare) -> bool:
    kind, other = KINDS[type(a)], KINDS[type(b)]
    arrays = (ARRAY, TENSOR, SCALAR)
    if kind in arrays and other in arrays:
        if kind is TENSOR and other is TENSOR and same_arrays is _equal_arrays:
            return _equal_tensors(a, b)
        return same_arrays(as_array(a), as_array(b))
    if kind is not other:
        return False
    if kind is BATCH:
        return same_trees(a, b)
    if kind is DISTRIBUTION:
        from typedbatch.distributions import dists_equal

        return dists_equal(a, b)
    return _equal_objects(a, b)


def same_leaf(one: Any, two: Any) -> bool:
    """Whether two leaves, or nested batches, are equal as fields of equal batches are."""
    return _same(one, two, _equal, _equal_arrays)


def as_array(leaf: Any) -> Any:
    """An array of the same values: itself, or that of a tensor."""
    if KINDS[type(leaf)] is not TENSOR:
        return np.asarray(leaf)
    from typedbatch.tensors import to_array

    return to_array(leaf)


def _equal_tensors(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool((a.to(b.device) == b).all())


def _equal_arrays(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "O":
        return all(_equal_objects(x, y) for x, y in zip(a.ravel(), b.ravel(), strict=True))
    return bool(np.all(a == b))


def _equal_objects(a: Any, b: Any) -> bool:
    # An object may compare badly: raise, or answer with an array. The same object is equal, as in a list.
    if a is b:
        return True
    if KINDS[type(a)] in (ARRAY, TENSOR, BATCH) or KINDS[type(b)] in (ARRAY, TENSOR, BATCH):
        return _same(a, b, _equal, _equal_arrays)
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001  # whatever a foreign __eq__ raises, the answer is "not equal"
        return False
