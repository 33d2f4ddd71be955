"""One array made several."""

from __future__ import annotations

from collections.abc import Sequence

from typedbatch.mypy.arrays.asking import (
    MOST,
    Axes,
    UnsureError,
    array_of,
    axes_of,
    nonzero,
    of_torch,
    place_in,
    understood,
    whole_of,
)
from typedbatch.mypy.arrays.sizes import Size, differ, number
from typedbatch.mypy.arrays.values import (
    Arguments,
    Array,
    Axis,
    Many,
    MisfitError,
    Operation,
    Several,
    Value,
)


def _along(arguments: Arguments, what: str, place: int) -> tuple[Array, Axes, int, Size | None]:
    """The array, its axes, the place of one, and its size."""
    array = array_of(arguments, 0, "input", "tensor", "ary")
    axes = axes_of(array)
    at = place_in(axes, whole_of(arguments, 0, place, "dim", "axis"), what)
    return array, axes, at, axes[at].size


def _pieces(array: Array, at: int, sizes: Sequence[Size | None]) -> Several:
    axes = list(axes_of(array))
    return Several(tuple(array.shaped([*axes[:at], Axis(size), *axes[at + 1 :]]) for size in sizes))


def _alike(array: Array, at: int, size: Size | None) -> Many:
    return Many(_pieces(array, at, [size]).items[0])


_BY = ("split_size_or_sections", "split_size", "indices_or_sections", "sections", "indices")
_SPLIT = ("tensor", "ary", *_BY)


@understood(3, *_SPLIT, "dim", "axis", array=False)
def split(arguments: Arguments) -> Value:
    """``split(x, size)`` and ``split(x, sizes)`` in torch; ``split(x, number)`` and ``split(x, places)`` in numpy."""
    array, _, at, size = _along(arguments, "split", 2)
    asked = arguments.get(1, *_BY)
    if not arguments.torch:
        return _sections(array, at, size, asked, exact=True)
    if isinstance(asked, Several):
        sizes = [item if isinstance(item, Size) else None for item in asked.items]
        total = _sum(sizes)
        if size is not None and total is not None and differ(size, total):
            raise MisfitError(f"split: sizes that are {total} together, of {size}")
        return _pieces(array, at, sizes)
    return _by_size(array, at, size, asked)


def _sum(sizes: Sequence[Size | None]) -> Size | None:
    total = number(0)
    for size in sizes:
        if size is None:
            return None
        total = total + size
    return total


def _by_size(array: Array, at: int, size: Size | None, each: Value) -> Value:
    if not isinstance(each, Size):
        return _alike(array, at, None) if each is None else None
    if size is None or not nonzero(size) or not nonzero(each):
        return _alike(array, at, None)
    if size.number is not None and each.number is not None and 0 < size.number <= MOST * each.number:
        steps = range(0, size.number, each.number)
        return _pieces(array, at, [number(min(each.number, size.number - start)) for start in steps])
    count = size.divided(each)
    return _alike(array, at, each if count is not None else None)


def _sections(array: Array, at: int, size: Size | None, asked: Value, *, exact: bool) -> Value:
    """So many parts, or parts that begin at some places."""
    if isinstance(asked, Several):
        return _pieces(array, at, [None] * (len(asked.items) + 1))
    if not isinstance(asked, Size):
        return None
    count = asked.number
    if count is not None and count < 1:
        raise UnsureError
    if size is not None and size.number is not None and count is not None and count <= MOST:
        each, rest = divmod(size.number, count)
        if rest and exact:
            raise MisfitError(f"split: {size} into {count} equal parts")
        return _pieces(array, at, [number(each + (part < rest)) for part in range(count)])
    each_size = size.divided(asked) if size is not None else None
    if count is None or count > MOST:
        return _alike(array, at, each_size)
    return _pieces(array, at, [each_size] * count)


@understood(3, *_SPLIT, "dim", "axis", array=False)
def array_split(arguments: Arguments) -> Value:
    """``array_split(x, number)``, ``tensor_split(x, number)``: parts may differ by one."""
    array, _, at, size = _along(arguments, "tensor_split", 2)
    asked = arguments.get(1, *_BY)
    return _sections(array, at, size, asked, exact=False)


@understood(3, "chunks", "dim", array=False)
def chunk(arguments: Arguments) -> Value:
    """``chunk(x, number)``, which may give less."""
    array, _, at, size = _along(arguments, "chunk", 2)
    count = arguments.get(1, "chunks")
    if not isinstance(count, Size):
        return None
    each = size.divided(count) if size is not None and nonzero(size) else None
    is_name = size is not None and size.name is not None and not size.name.opaque
    if each is None and is_name and size is not None and count.number is not None and count.number > 1:
        each = size.over(count)  # Parts of other sizes are never meant.
    if each is not None and count.number is not None and 0 < count.number <= MOST:
        return _pieces(array, at, [each] * count.number)
    if size is not None and size.number and count.number:
        return _by_size(array, at, size, number(-(-size.number // count.number)))
    return _alike(array, at, each)


@understood(2, "dim")
def glu(arguments: Arguments) -> Value:
    """``glu(x, dim)``: half of an axis gates the other half."""
    array = array_of(arguments)
    axes = axes_of(array)
    at = place_in(axes, whole_of(arguments, -1, 1, "dim"), "glu")
    size = axes[at].size
    if size is not None and size.number is not None and size.number % 2:
        raise MisfitError(f"glu: {size} is not even")
    half = size.divided(number(2)) if size is not None else None
    return array.shaped([*axes[:at], Axis(half), *axes[at + 1 :]])


@understood(2, "dim", array=False)
def unbind(arguments: Arguments) -> Value:
    """``unbind(x, dim)``."""
    array, axes, at, size = _along(arguments, "unbind", 1)
    item = array.shaped([*axes[:at], *axes[at + 1 :]])
    count = size.number if size is not None else None
    return Several((item,) * count) if count is not None and count <= MOST else Many(item)


FUNCTIONS: dict[str, Operation] = {
    "split": split,
    **dict.fromkeys(("array_split", "tensor_split"), array_split),
    "chunk": of_torch(chunk),
    "unbind": of_torch(unbind),
    "glu": of_torch(glu),
}
METHODS: dict[str, Operation] = {
    "split": of_torch(split),
    "tensor_split": of_torch(array_split),
    "chunk": of_torch(chunk),
    "unbind": of_torch(unbind),
}
