"""Equality and closeness of batches, neither of which raises for any data, and the differences between two batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from typedbatch._core import kinds
from typedbatch._core.kinds import KINDS, Tree, describe, is_masked, is_objects, mask_of
from typedbatch._core.meta import meta_of
from typedbatch._report import cut

_LEAVES: Final = frozenset({kinds.ARRAY, kinds.TENSOR, kinds.BATCH, kinds.DISTRIBUTION, kinds.RAGGED})


class _Close(NamedTuple):
    """Tolerances between numbers; None in place of a ``_Close`` means that numbers must be equal."""

    rtol: float
    atol: float
    equal_nan: bool


_IDENTICAL: Final = _Close(0.0, 0.0, equal_nan=True)
"""Passed in place of tolerances if values must be equal, also in dtype, and NaN and NaT are equal to themselves."""


def _is_exact(how: _Close | None) -> bool:
    return how is None or how is _IDENTICAL


def equal(one: Tree, two: Tree) -> bool:
    """Return whether names (in any order), shapes, dtypes, values and meta are equal.

    A tensor equals an array of the same shape, dtype and values. NaN differs from NaN, as everywhere in numpy and
    torch; :func:`allclose` has ``equal_nan``. Masked arrays need equal masks; the values under them do not count.
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
    """Return whether two batches are equal up to dtypes, and up to ``atol + rtol * abs(two)`` in numbers.

    Among Python objects, floats may differ as much; everything else has to be equal, as in :func:`equal`.
    """
    return _same_trees(one, two, _Close(rtol, atol, equal_nan))


def _same_trees(one: Tree, two: Tree, how: _Close | None) -> bool:
    if how is None:
        return equal(one, two)
    left, right = one.__dict__, two.__dict__
    if left.keys() != right.keys() or not same_meta(one, two, _IDENTICAL if how is _IDENTICAL else None):
        return False
    return all(_same(left[name], right[name], how) for name in left)


def same_meta(one: Tree, two: Tree, how: _Close | None = None) -> bool:
    """Return whether two batches have equal meta; arrays in it are compared by value."""
    left, right = meta_of(one), meta_of(two)
    return left.keys() == right.keys() and all(_same(left[key], right[key], how) for key in left)


def _same(a: Any, b: Any, how: _Close | None) -> bool:
    try:
        kind, other = KINDS[type(a)], KINDS[type(b)]
        if kind in kinds.NUMERIC and other in kinds.NUMERIC:
            if _is_exact(how) and kinds.TENSOR in (kind, other):
                if kind is other:
                    return a.dtype == b.dtype and a.shape == b.shape and _equals(a.to(b.device), b, how)
                from typedbatch._core.tensors import in_numpy

                if not in_numpy(a if kind is kinds.TENSOR else b):  # Other dtypes become wider ones in numpy.
                    return False
            return _same_arrays(as_array(a), as_array(b), how)
        if kind is not other:
            return False
        if kind is kinds.BATCH:
            return _same_trees(a, b, how)
        if kind is kinds.DISTRIBUTION:
            from typedbatch._core.distributions import dists_equal

            return dists_equal(a, b, lambda x, y: _same(x, y, how))
        if kind is kinds.RAGGED:
            return np.array_equal(a.sizes, b.sizes) and _same_trees(a.values, b.values, how)
        return _same_objects(a, b, how)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  # Sparse and meta tensors and foreign classes may raise: they are not equal.
        return a is b


def same_leaf(one: Any, two: Any) -> bool:
    """Return whether two leaves, or nested batches, are equal in the sense of :func:`equal`."""
    return _same(one, two, None)


def same_value(one: Any, two: Any) -> bool:
    """Return whether two leaves, or nested batches, have the same value, and NaN in the same places.

    Joining two batches needs no choice between such values, although NaN differs from NaN in :func:`equal`.
    """
    return _same(one, two, _IDENTICAL)


def _equals(a: Any, b: Any, how: _Close | None) -> bool:
    """Return whether all values of two arrays or tensors of one shape and dtype are equal."""
    same = a == b
    return bool((same | ((a != a) & (b != b))).all() if how is _IDENTICAL else same.all())


def as_array(leaf: Any) -> Any:
    """Return a leaf as an array; a tensor is converted, and a masked array keeps its mask."""
    if KINDS[type(leaf)] is not kinds.TENSOR:
        return leaf if is_masked(leaf) else np.asarray(leaf)
    from typedbatch._core.tensors import to_array

    return to_array(leaf)


def _same_arrays(a: Any, b: Any, how: _Close | None) -> bool:
    if a.shape != b.shape or (_is_exact(how) and a.dtype != b.dtype):
        return False
    if is_masked(a) or is_masked(b):
        if np.ma.getmaskarray(a).tobytes() != np.ma.getmaskarray(b).tobytes():
            return False
        there = ~(mask_of(a) | mask_of(b))
        return _same_arrays(np.ma.getdata(a)[there], np.ma.getdata(b)[there], how)
    if is_objects(a) and is_objects(b):
        return all(_same_objects(x, y, how) for x, y in zip(a.ravel(), b.ravel(), strict=True))
    if how is None or how is _IDENTICAL or a.dtype.kind not in "biufc" or b.dtype.kind not in "biufc":
        return a.dtype == b.dtype and _equals(a, b, how)
    return np.allclose(a, b, *how)


def _same_objects(a: Any, b: Any, how: _Close | None) -> bool:
    # An object is equal to itself, as in a list. The comparison of others may raise, or return an array.
    if a is b:
        return True
    if KINDS[type(a)] in _LEAVES or KINDS[type(b)] in _LEAVES:
        return _same(a, b, how)
    try:
        if isinstance(result := a == b, (bool, np.bool_)) and (result or how is None):
            return bool(result)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  # Lists of arrays raise, since an array has no truth value: compare the elements.
        pass
    # It is False, or an error: look inside containers, and compare floats.
    if type(a) is dict and type(b) is dict:
        return a.keys() == b.keys() and all(_same_objects(a[k], b[k], how) for k in a)
    if type(a) is type(b) and type(a) in (list, tuple):
        return len(a) == len(b) and all(_same_objects(x, y, how) for x, y in zip(a, b, strict=True))
    if how is _IDENTICAL:
        return type(a) is type(b) and bool(a != a and b != b)
    floats: Any = (float, np.floating, complex, np.complexfloating)
    if how is None or not isinstance(a, floats) or not isinstance(b, floats):
        return False
    return bool(abs(a - b) <= how.atol + how.rtol * abs(b)) or (how.equal_nan and bool(a != a and b != b))


def differences(one: Tree, two: Tree) -> list[str]:
    """Return a line for each field in which ``one`` and ``two`` differ, in the order of ``one``."""
    found = list(_in_trees(one, two, ""))
    width = min(max((len(path) for path, _ in found), default=0), 30)
    return [f"{path:<{width}}  {difference}" for path, difference in found]


def _in_trees(one: Tree, two: Tree, prefix: str) -> Iterator[tuple[str, str]]:
    for name in [*one.__dict__, *(name for name in two.__dict__ if name not in one.__dict__)]:
        path = f"{prefix}{name}"
        if name not in two.__dict__:
            yield path, f"only on the left: {describe(one.__dict__[name])}"
        elif name not in one.__dict__:
            yield path, f"only on the right: {describe(two.__dict__[name])}"
        else:
            left, right = one.__dict__[name], two.__dict__[name]
            if KINDS[type(left)] is kinds.BATCH and KINDS[type(right)] is kinds.BATCH:
                yield from _in_trees(left, right, f"{path}.")
            elif not same_leaf(left, right):
                yield path, _in_leaves(left, right)
    left_meta, right_meta = meta_of(one), meta_of(two)
    for key in dict.fromkeys([*left_meta, *right_meta]):
        if key not in left_meta or key not in right_meta:
            yield f"{prefix}meta.{key}", f"only on the {'left' if key in left_meta else 'right'}"
        elif not same_leaf(left_meta[key], right_meta[key]):
            yield f"{prefix}meta.{key}", f"{_short(left_meta[key])} != {_short(right_meta[key])}"


def _in_leaves(left: Any, right: Any) -> str:
    if KINDS[type(left)] not in kinds.NUMERIC or KINDS[type(right)] not in kinds.NUMERIC:
        one, two = describe(left), describe(right)
        if isinstance(left, (str, bytes)) and isinstance(right, (str, bytes)):
            return f"{_short(left)} != {_short(right)}"
        return f"{one} != {two}" if one != two else f"{one} with other values"
    a, b = as_array(left), as_array(right)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{describe(left)} != {describe(right)}"
    if is_masked(a) or is_masked(b):
        mask, other = mask_of(a), mask_of(b)
        if (mask == other).all() and not mask.all():
            there = ~mask
            return f"{_in_leaves(np.ma.getdata(a)[there], np.ma.getdata(b)[there])} (of those that are not masked)"
        count = int((mask != other).sum())
        return f"{count} of {mask.size} values {'is' if count == 1 else 'are'} masked on one side only"
    if a.dtype.kind == "O":
        pairs = zip(a.ravel(), b.ravel(), strict=True)
        differ = np.asarray([not same_leaf(x, y) for x, y in pairs]).reshape(a.shape)
    else:
        differ = np.asarray(a != b)
    count, first = int(differ.sum()), tuple(int(index) for index in np.argwhere(differ)[0])
    where = f", the first at [{', '.join(map(str, first))}]" if first else ""
    are = "value differs" if differ.size == 1 else f"of {differ.size} values {'differs' if count == 1 else 'differ'}"
    text = f"{'the' if differ.size == 1 else count} {are}{where}: {_short(a[first])} != {_short(b[first])}"
    if a.dtype.kind in "iuf" and count > 1:
        apart = np.abs(a.astype(float) - b.astype(float))
        text += f", at most {np.nanmax(apart, initial=0):.3g} apart"
    if a.dtype.kind in "fc" and np.isnan(a[differ]).any():
        text += "; nan is not equal to nan, see allclose(equal_nan=True)"
    return text


def _short(value: Any) -> str:
    return cut(str(value) if isinstance(value, np.generic) else repr(value), 40)
