"""Equality and closeness of batches. No data makes either raise, unless memory or Python's stack runs out."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from typedbatch._tree.leaves import (
    ARRAY,
    BATCH,
    DISTRIBUTION,
    KINDS,
    RAGGED,
    SCALAR,
    TENSOR,
    Tree,
    is_masked,
    is_objects,
    mask_of,
)
from typedbatch._tree.meta import meta_of


class _Close(NamedTuple):
    """How far numbers may be apart; None in its place asks for equal ones."""

    rtol: float
    atol: float
    equal_nan: bool


def equal(one: Tree, two: Tree) -> bool:
    """Same names (in any order), shapes, dtypes, values and meta; a tensor equals the array that it shares them with.

    NaN differs from NaN, as everywhere in numpy and torch; :func:`allclose` can see it otherwise. Masked arrays have to
    have the same mask; what lies under it does not count.
    """
    left, right = one.__dict__, two.__dict__
    if len(left) != len(right):
        return False
    if (type(left) is not dict or type(right) is not dict) and not same_meta(one, two):
        return False
    for name, a in left.items():
        if name not in right:
            return False
        b = right[name]
        if type(a) is np.ndarray and type(b) is np.ndarray and a.dtype.kind != "O":
            if a.dtype != b.dtype or a.shape != b.shape or not (a == b).all():
                return False
        elif not _same(a, b, None):
            return False
    return True


def allclose(one: Tree, two: Tree, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """As :func:`equal`, but dtypes may differ and numbers may be apart by ``atol + rtol * abs(two)``.

    Among Python objects that goes for floats; everything else there has to be equal.
    """
    return _same_trees(one, two, _Close(rtol, atol, equal_nan))


def _same_trees(one: Tree, two: Tree, how: _Close | None) -> bool:
    if how is None:
        return equal(one, two)
    left, right = one.__dict__, two.__dict__
    return left.keys() == right.keys() and same_meta(one, two) and all(_same(left[k], right[k], how) for k in left)


def same_meta(one: Tree, two: Tree) -> bool:
    """Whether two batches have equal meta; arrays in it are compared by value."""
    left, right = meta_of(one), meta_of(two)
    return left.keys() == right.keys() and all(_same(left[key], right[key], None) for key in left)


def _same(a: Any, b: Any, how: _Close | None) -> bool:
    try:
        return _compare(a, b, how)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  # a sparse or meta tensor, a foreign class: what does not compare is not equal
        return a is b


def _compare(a: Any, b: Any, how: _Close | None) -> bool:
    kind, other = KINDS[type(a)], KINDS[type(b)]
    arrays = (ARRAY, TENSOR, SCALAR)
    if kind in arrays and other in arrays:
        if how is None and TENSOR in (kind, other):
            return _equal_tensors(a, b) if kind is other else _equal_across(a, b)
        return _same_arrays(as_array(a), as_array(b), how)
    if kind is not other:
        return False
    if kind is BATCH:
        return _same_trees(a, b, how)
    if kind is DISTRIBUTION:
        from typedbatch._tree.distributions import dists_equal

        return dists_equal(a, b, lambda x, y: _same(x, y, how))
    if kind is RAGGED:
        return np.array_equal(a.sizes, b.sizes) and _same_trees(a.values, b.values, how)
    return _same_objects(a, b, how)


def same_leaf(one: Any, two: Any) -> bool:
    """Whether two leaves, or nested batches, are equal as fields of equal batches are."""
    return _same(one, two, None)


def as_array(leaf: Any) -> Any:
    """An array of the same values: itself, with its mask, or that of a tensor."""
    if KINDS[type(leaf)] is not TENSOR:
        return leaf if is_masked(leaf) else np.asarray(leaf)
    from typedbatch._tree.tensors import to_array

    return to_array(leaf)


def _same_masks(a: Any, b: Any) -> bool:
    return np.ma.getmaskarray(a).tobytes() == np.ma.getmaskarray(b).tobytes()


def _unmasked(a: Any, b: Any) -> tuple[Any, Any]:
    """The values of two arrays with the same masks, without those that are masked."""
    there = ~(mask_of(a) | mask_of(b))
    return np.ma.getdata(a)[there], np.ma.getdata(b)[there]


def _equal_tensors(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool((a.to(b.device) == b).all())


def _equal_across(a: Any, b: Any) -> bool:
    from typedbatch._tree.tensors import in_numpy

    known = in_numpy(a if KINDS[type(a)] is TENSOR else b)  # the others are widened on the way to numpy
    return known and _same_arrays(as_array(a), as_array(b), None)


def _same_arrays(a: Any, b: Any, how: _Close | None) -> bool:
    if a.shape != b.shape or (how is None and a.dtype != b.dtype):
        return False
    if is_masked(a) or is_masked(b):
        return _same_masks(a, b) and _same_arrays(*_unmasked(a, b), how)
    if is_objects(a) and is_objects(b):
        return all(_same_objects(x, y, how) for x, y in zip(a.ravel(), b.ravel(), strict=True))
    if how is None or a.dtype.kind not in "biufc" or b.dtype.kind not in "biufc":
        return a.dtype == b.dtype and bool(np.all(a == b))
    return np.allclose(a, b, *how)


_LEAVES: Final = frozenset({ARRAY, TENSOR, BATCH, DISTRIBUTION, RAGGED})


def _same_objects(a: Any, b: Any, how: _Close | None) -> bool:
    # An object may compare badly: raise, or answer with an array. The same object is equal, as in a list.
    if a is b:
        return True
    if KINDS[type(a)] in _LEAVES or KINDS[type(b)] in _LEAVES:
        return _same(a, b, how)
    try:
        if isinstance(result := a == b, (bool, np.bool_)) and (result or how is None):
            return bool(result)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  # an array of bools has no truth value; whatever else raises is compared inside
        pass
    return _same_inside(a, b, how)


def _same_inside(a: Any, b: Any, how: _Close | None) -> bool:
    """Whether containers, or floats, are the same though ``==`` says no, or nothing."""
    if type(a) is dict and type(b) is dict:
        return a.keys() == b.keys() and all(_same_objects(a[k], b[k], how) for k in a)
    if type(a) is type(b) and type(a) in (list, tuple):
        return len(a) == len(b) and all(_same_objects(x, y, how) for x, y in zip(a, b, strict=True))
    floats: Any = (float, np.floating, complex, np.complexfloating)
    if how is None or not isinstance(a, floats) or not isinstance(b, floats):
        return False
    return bool(abs(a - b) <= how.atol + how.rtol * abs(b)) or (how.equal_nan and bool(a != a and b != b))
