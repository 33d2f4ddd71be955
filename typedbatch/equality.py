"""Equality and closeness of batches. Neither ever raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from typedbatch.leaves import ARRAY, BATCH, DISTRIBUTION, KINDS, NUMBER, SCALAR, TENSOR, Tree, is_objects

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
        if a.shape == b.shape and is_objects(a) and is_objects(b):
            pairs = zip(a.ravel(), b.ravel(), strict=True)
            return all(_same_objects(x, y, close, close_arrays) for x, y in pairs)
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
        if same_arrays is _equal_arrays and TENSOR in (kind, other):
            return _equal_tensors(a, b) if kind is other else _equal_across(a, b)
        return same_arrays(as_array(a), as_array(b))
    if kind is not other:
        return False
    if kind is BATCH:
        return same_trees(a, b)
    if kind is DISTRIBUTION:
        from typedbatch.distributions import dists_equal

        return dists_equal(a, b, lambda x, y: _same(x, y, same_trees, same_arrays))
    return _same_objects(a, b, same_trees, same_arrays)


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


def _equal_across(a: Any, b: Any) -> bool:
    from typedbatch.tensors import in_numpy

    known = in_numpy(a if KINDS[type(a)] is TENSOR else b)  # the others are widened on the way to numpy
    return known and _equal_arrays(as_array(a), as_array(b))


def _equal_arrays(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "O":
        pairs = zip(a.ravel(), b.ravel(), strict=True)
        return all(_same_objects(x, y, _equal, _equal_arrays) for x, y in pairs)
    return bool(np.all(a == b))


def _same_objects(a: Any, b: Any, same_trees: Compare, same_arrays: Compare) -> bool:
    # An object may compare badly: raise, or answer with an array. The same object is equal, as in a list.
    if a is b:
        return True
    kinds = {KINDS[type(a)], KINDS[type(b)]}
    if not kinds.isdisjoint({ARRAY, TENSOR, BATCH}):
        return _same(a, b, same_trees, same_arrays)
    if kinds == {NUMBER} and same_arrays is not _equal_arrays:
        return same_arrays(np.asarray(a), np.asarray(b))
    try:  # what holds others may hold arrays, so Python's == is not asked
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(_same_objects(a[k], b[k], same_trees, same_arrays) for k in a)
        if any(isinstance(a, cls) and isinstance(b, cls) for cls in (list, tuple)):
            pairs = zip(a, b, strict=False)
            return len(a) == len(b) and all(_same_objects(x, y, same_trees, same_arrays) for x, y in pairs)
        return bool(a == b)
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001  # whatever a foreign __eq__ raises, the answer is "not equal"
        return False
