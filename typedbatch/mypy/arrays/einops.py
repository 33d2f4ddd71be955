"""Patterns of einops, ``"b (h d) -> b h d"``: rearrange, reduce, repeat and einsum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from typedbatch.mypy.arrays.asking import Axes, UnsureError, apart, axes_of, product, sized
from typedbatch.mypy.arrays.sizes import Size, number
from typedbatch.mypy.arrays.values import (
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Literal,
    MisfitError,
    Operation,
    Several,
    Value,
    shown,
)

HOME: Final = "einops."
Group = tuple[str, ...]
_WORD: Final = re.compile(r"\(([^()]*)\)|([^\s()]+)")


def _groups(text: str) -> list[Group]:
    """The axes of one side of a pattern, each of which may be the product of several.

    Raises:
        UnsureError: it has ``...``.
    """
    if "." in text:
        raise UnsureError
    return [tuple((inside or word).split()) for inside, word in _WORD.findall(text)]


def _text(value: Value) -> str:
    if not isinstance(value, Literal) or not isinstance(value.value, str):
        raise UnsureError
    return value.value


def _sides(pattern: str) -> tuple[str, str]:
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise UnsureError
    return left, right


def _bound(name: str, axis: Axis, found: dict[str, Axis], what: str) -> None:
    before = found.get(name)
    if before is not None and apart(before, axis):
        raise MisfitError(f"{what}: {name} is {before} and {axis}")
    if before is None or before.size is None:
        found[name] = Axis(axis.size)


def _learn(groups: list[Group], axes: Axes, found: dict[str, Axis], what: str) -> None:
    """Learn the sizes of names from an array.

    Raises:
        MisfitError: it has another number of axes, or other sizes.
    """
    if len(groups) != len(axes):
        raise MisfitError(f"{what} is for {len(groups)} axes, got {shown(axes)}")
    for group, axis in zip(groups, axes, strict=True):
        names = [name for name in group if not name.isdigit()]
        if len(names) == 1 and len(group) == 1:
            _bound(names[0], axis, found, what)
            continue
        open_ = [name for name in names if name not in found]
        inside = product([_of(name, found) for name in group if name not in open_])
        if axis.size is None or inside is None or len(open_) > 1:
            continue
        if not open_:
            if apart(axis, Axis(inside)):
                raise MisfitError(f"{what}: ({' '.join(group)}) is {inside} and {axis}")
            continue
        if inside.number == 0:
            continue
        if axis.size.number is not None and inside.number is not None and axis.size.number % inside.number:
            raise MisfitError(f"{what}: {axis} is no multiple of {inside}")
        _bound(open_[0], Axis(axis.size.over(inside)), found, what)


def _of(name: str, found: Mapping[str, Axis]) -> Axis:
    return sized(number(int(name))) if name.isdigit() else found.get(name, UNKNOWN)


def _made(groups: list[Group], found: Mapping[str, Axis]) -> Axes:
    each = ([_of(name, found) for name in group] for group in groups)
    return tuple(axes[0] if len(axes) == 1 else Axis(product(axes)) for axes in each)


def _names(groups: list[Group]) -> set[str]:
    return {name for group in groups for name in group if not name.isdigit()}


def _rearranged(name: str, pattern_at: int) -> Operation:
    """``rearrange``, ``reduce`` and ``repeat``, by a pattern and the sizes of names."""

    def call(arguments: Arguments) -> Value:
        array, pattern = arguments.array(0, "tensor"), arguments.get(pattern_at, "pattern")
        if array is None:
            return None
        try:
            left, right = map(_groups, _sides(_text(pattern)))
            what = f"{name} {_text(pattern)!r}"
            given = {word: sized(value) for word, value in arguments.named.items() if isinstance(value, Size)}
            found = dict(given)
            _require_names(name, what, _names(left), _names(right), set(arguments.named))
            _learn(left, axes_of(array), found, what)
            return Array(_made(right, found), array.dtypes if name != "reduce" else None, array.torch)
        except UnsureError:
            return Array(None, array.dtypes if name != "reduce" else None, array.torch)

    return call


def _require_names(name: str, what: str, left: set[str], right: set[str], given: set[str]) -> None:
    lost, new = sorted(left - right), sorted(right - left - given)
    if (lost and name != "reduce") or (name != "repeat" and right - left) or new:
        word = (lost if name != "reduce" else []) or sorted(right - left)
        raise MisfitError(f"{what}: {', '.join(word)} is on one side only")


def einsum(arguments: Arguments) -> Value:
    """``einsum(x, y, "b i, i j -> b j")``: the pattern comes last, and names are words."""
    *values, pattern = arguments.given or (None,)
    arrays = [value for value in values if isinstance(value, Array)]
    if not arrays or len(arrays) < len(values):
        return None
    try:
        text = _text(pattern)
        left, right = _sides(text)
        terms = [_groups(term) for term in left.split(",")]
        if len(terms) != len(arrays):
            raise MisfitError(f"einsum {text!r} is for {len(terms)} arrays, not {len(arrays)}")
        found: dict[str, Axis] = {}
        for term, array in zip(terms, arrays, strict=True):
            _learn(term, axes_of(array), found, f"einsum {text!r}")
        result = _groups(right)
        new = sorted(_names(result) - set().union(*map(_names, terms)))
        if new:
            raise MisfitError(f"einsum {text!r}: {', '.join(new)} is on one side only")
        return Array(_made(result, found), None, arrays[0].torch)
    except UnsureError:
        return Array(None, None, arrays[0].torch)


def pack(arguments: Arguments) -> Value:
    """``pack([x, y], "b *")``: arrays in one, and their shapes."""
    arrays = arguments.get(0, "tensors")
    first = arrays.items[0] if isinstance(arrays, Several) and arrays.items else None
    return Several((Array(None, None, first.torch), None)) if isinstance(first, Array) else None


FUNCTIONS: Final[dict[str, Operation]] = {
    "rearrange": _rearranged("rearrange", 1),
    "reduce": _rearranged("reduce", 1),
    "repeat": _rearranged("repeat", 1),
    "einsum": einsum,
    "pack": pack,
}
