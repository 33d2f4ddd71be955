"""Differences of two batches, field by field, as pytest shows them for a failed ``assert one == two``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from typedbatch._ops.equality import as_array, same_leaf
from typedbatch._report import cut
from typedbatch._tree.kinds import ARRAY, BATCH, KINDS, SCALAR, TENSOR, Tree, describe, is_masked, mask_of
from typedbatch._tree.meta import meta_of


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
            if KINDS[type(left)] is BATCH and KINDS[type(right)] is BATCH:
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
    arrays = (ARRAY, TENSOR, SCALAR)
    if KINDS[type(left)] not in arrays or KINDS[type(right)] not in arrays:
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
