"""Operations that join, split, repeat and expand arrays: stack, cat, split, chunk, tile, broadcast_to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typedbatch._program.arrays.arguments import (
    MOST,
    Axes,
    UnsureError,
    apart,
    array_and_axes,
    array_of,
    axes_of,
    flag_of,
    nonzero,
    of_torch,
    place_in,
    product,
    same_axis,
    same_dtypes,
    sizes_from,
    understood,
    whole_of,
)
from typedbatch._program.arrays.dtypes import of_arithmetic
from typedbatch._program.arrays.pointwise import broadcast
from typedbatch._program.arrays.sizes import Size, differ, number
from typedbatch._program.arrays.values import (
    ASKED,
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Many,
    MismatchError,
    Operation,
    Several,
    Value,
    is_none,
    shown,
)

_ITEMS = ("tensors", "arrays", "seq", "tup")


def _items(arguments: Arguments) -> tuple[list[Array], bool]:
    """Return the arrays, and whether one of them stands for any number of arrays."""
    given = arguments.get(0, *_ITEMS)
    many = isinstance(given, Many)
    values = given.items if isinstance(given, Several) else (given.item,) if isinstance(given, Many) else ()
    arrays = [value for value in values if isinstance(value, Array) and value.torch == arguments.torch]
    if not arrays or len(arrays) < len(values):
        raise UnsureError
    return arrays, many


def _count(given: Value) -> Axis:
    """Return the axis of a stack, which has one position for each array."""
    if isinstance(given, Several):
        return Axis(number(len(given.items)))
    return Axis(given.count) if isinstance(given, Many) else UNKNOWN


def _shapes(arrays: Sequence[Array]) -> list[Axes]:
    """Return the shapes that are known, of which there must be one."""
    shapes = [array.axes for array in arrays if array.axes is not None]
    if not shapes:
        raise UnsureError
    return shapes


def _of(shapes: Sequence[Axes], arrays: Sequence[Array], torch: bool) -> Array:
    """Return an array of the first shape, with the dtype of all arrays, if all shapes are known."""
    if len(shapes) < len(arrays):
        raise UnsureError
    return Array(shapes[0], same_dtypes(arrays, of_arithmetic), torch)


def _merge(shapes: Sequence[Axes], what: str, but: int | None = None) -> list[Axis]:
    """Return the axes that shapes have in common, which may differ only in the one at ``but``."""
    out = list(shapes[0])
    for axes in shapes[1:]:
        if len(axes) != len(out):
            raise MismatchError(f"{what}: {shown(shapes[0])} and {shown(axes)} have other numbers of axes")
        for at, (one, other) in enumerate(zip(out, axes, strict=True)):
            if at == but:
                continue
            if apart(one, other):
                raise MismatchError(
                    f"{what}: {shown(shapes[0])} and {shown(axes)} do not fit: {one.size} against {other.size}"
                )
            out[at] = same_axis(one, other)
    return out


@understood(2, *_ITEMS, "dim", "axis")
def stack(arguments: Arguments) -> Value:
    """Return the result of ``stack([x, y], dim)``."""
    arrays, _ = _items(arguments)
    shapes = _shapes(arrays)
    axes = _merge(shapes, "stack")
    out = _of(shapes, arrays, arguments.torch)
    at = place_in((*axes, UNKNOWN), whole_of(arguments, 0, 1, "dim", "axis"), "stack")
    axes.insert(at, _count(arguments.get(0, *_ITEMS)))
    return out.shaped(axes)


@understood(4, "sequences", "batch_first", "padding_value", "padding_side")
def pad_sequence(arguments: Arguments) -> Value:
    """Return the result of ``pad_sequence(sequences, batch_first)``, whose steps are those of the longest sequence."""
    given = arguments.get(0, "sequences")
    first = flag_of(arguments, 1, "batch_first")
    arrays = _items(Arguments((given,), torch=True))[0]
    shapes = _shapes(arrays)
    broadcasts = any(axis.one for axes in shapes for axis in axes[1:]) or len(set(map(len, shapes))) > 1
    if len(shapes) < len(arrays) or not shapes[0] or broadcasts:
        raise UnsureError
    rest = _merge([axes[1:] for axes in shapes], "pad_sequence")
    rows = _count(given)
    return Array((rows, UNKNOWN, *rest) if first else (UNKNOWN, rows, *rest), None, torch=True)


def _joined(shapes: Sequence[Axes], at: int, what: str, *, torch: bool, many: bool) -> Axes:
    """Return the shape of arrays that are concatenated along an axis."""
    if any(not axes for axes in shapes):
        raise MismatchError(f"{what}: an array without axes")
    sizes = [axes[0].size for axes in shapes if len(axes) == 1]  # Sizes of arrays that may be empty.
    if torch and len({len(axes) for axes in shapes}) > 1 and any(size is None or not nonzero(size) for size in sizes):
        raise UnsureError
    place = place_in(shapes[0], at, what)
    axes = _merge(shapes, what, place)
    axes[place] = Axis(None if many else _sum([shape[place].size for shape in shapes]))
    return tuple(axes)


@understood(2, *_ITEMS, "dim", "axis")
def cat(arguments: Arguments) -> Value:
    """Return the result of ``cat([x, y], dim)``, numpy's ``concatenate``."""
    arrays, many = _items(arguments)
    shapes = _shapes(arrays)
    at = whole_of(arguments, 0, 1, "dim", "axis")
    axes = _joined(shapes, at, "cat" if arguments.torch else "concatenate", torch=arguments.torch, many=many)
    return _of(shapes, arrays, arguments.torch).shaped(axes)


def _stacked(what: str, to: Callable[[Axes], Axes], along: Callable[[Axes], int]) -> Operation:
    @understood(1, *_ITEMS)
    def call(arguments: Arguments) -> Value:
        arrays, many = _items(arguments)
        shapes = [to(axes) for axes in _shapes(arrays)]
        out = _of(shapes, arrays, arguments.torch)
        return out.shaped(_joined(shapes, along(shapes[0]), what, torch=arguments.torch, many=many))

    return call


def _row(axes: Axes) -> Axes:
    return axes or (ASKED,)


def _rows(axes: Axes) -> Axes:
    return axes if len(axes) > 1 else (ASKED, *_row(axes))


def _columns(axes: Axes) -> Axes:
    return axes if len(axes) > 1 else (*_row(axes), ASKED)


def _along(arguments: Arguments, what: str, place: int) -> tuple[Array, Axes, int, Size | None]:
    """Return the array, its axes, the index of the axis that an argument names, and the size of this axis."""
    array, axes = array_and_axes(arguments, 0, "input", "tensor", "ary")
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
    """Return the result of ``split``: by size or sizes in torch, by number of parts or positions in numpy."""
    array, _, at, size = _along(arguments, "split", 2)
    asked = arguments.get(1, *_BY)
    if not arguments.torch:
        return _sections(array, at, size, asked, exact=True)
    if isinstance(asked, Several):
        sizes = [item if isinstance(item, Size) else None for item in asked.items]
        total = _sum(sizes)
        if size is not None and total is not None and differ(size, total):
            raise MismatchError(f"split: sizes that are {total} together, of {size}")
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
    """Return parts of equal size for a number, or parts that begin at the given positions."""
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
            raise MismatchError(f"split: {size} into {count} equal parts")
        return _pieces(array, at, [number(each + (part < rest)) for part in range(count)])
    each_size = size.divided(asked) if size is not None else None
    if count is None or count > MOST:
        return _alike(array, at, each_size)
    return _pieces(array, at, [each_size] * count)


@understood(3, *_SPLIT, "dim", "axis", array=False)
def array_split(arguments: Arguments) -> Value:
    """Return the result of ``array_split(x, n)``, ``tensor_split(x, n)``, whose parts may differ by one in size."""
    array, _, at, size = _along(arguments, "tensor_split", 2)
    asked = arguments.get(1, *_BY)
    return _sections(array, at, size, asked, exact=False)


@understood(3, "chunks", "dim", array=False)
def chunk(arguments: Arguments) -> Value:
    """Return the result of ``chunk(x, count)``, which may have fewer parts."""
    array, _, at, size = _along(arguments, "chunk", 2)
    count = arguments.get(1, "chunks")
    if not isinstance(count, Size):
        return None
    each = size.divided(count) if size is not None and nonzero(size) else None
    is_name = size is not None and size.name is not None and not size.name.opaque
    if each is None and is_name and size is not None and count.number is not None and count.number > 1:
        each = size.over(count)  # Nobody means parts of different sizes.
    if each is not None and count.number is not None and 0 < count.number <= MOST:
        return _pieces(array, at, [each] * count.number)
    if size is not None and size.number and count.number:
        return _by_size(array, at, size, number(-(-size.number // count.number)))
    return _alike(array, at, each)


@understood(2, "dim")
def glu(arguments: Arguments) -> Value:
    """Return the result of ``glu(x, dim)``, which halves an axis."""
    array, axes = array_and_axes(arguments)
    at = place_in(axes, whole_of(arguments, -1, 1, "dim"), "glu")
    size = axes[at].size
    if size is not None and size.number is not None and size.number % 2:
        raise MismatchError(f"glu: {size} is not even")
    half = size.divided(number(2)) if size is not None else None
    return array.shaped([*axes[:at], Axis(half), *axes[at + 1 :]])


@understood(2, "dim", array=False)
def unbind(arguments: Arguments) -> Value:
    """Return the result of ``unbind(x, dim)``."""
    array, axes, at, size = _along(arguments, "unbind", 1)
    item = array.shaped([*axes[:at], *axes[at + 1 :]])
    count = size.number if size is not None else None
    return Several((item,) * count) if count is not None and count <= MOST else Many(item)


def _times(axis: Axis, times: Axis) -> Axis:
    size = product([axis, times])
    return axis if times.one else Axis(size)


@understood(64, "repeats", "axis", "sizes")
def repeat(arguments: Arguments) -> Value:
    """Return the result of ``x.repeat(2, 3)`` in torch, ``repeat(x, n, axis)`` in numpy."""
    if not arguments.torch:
        return _each_again(arguments, "axis")
    array = array_of(arguments)
    axes, times = axes_of(array), sizes_from(arguments, 1, "repeats", "sizes")
    if len(times) < len(axes):
        raise MismatchError(f"repeat: {len(times)} numbers for the axes of {shown(axes)}")
    new = len(times) - len(axes)
    kept = [_times(axis, count) for axis, count in zip(axes, times[new:], strict=True)]
    return array.shaped([*times[:new], *kept])


@understood(64, "A", "reps", "dims")
def tile(arguments: Arguments) -> Value:
    """Return the result of ``tile(x, reps)``."""
    array = array_of(arguments, 0, "input", "A")
    axes, times = axes_of(array), sizes_from(arguments, 1, "reps", "dims")
    new = len(times) - len(axes)
    if new < 0:
        times = (*(ASKED,) * -new, *times)
    old = (*(ASKED,) * new, *axes)
    return array.shaped([_times(axis, count) for axis, count in zip(old, times, strict=True)])


@understood(3, "repeats", "dim")
def repeat_interleave(arguments: Arguments) -> Value:
    """Return the result of ``repeat_interleave(x, n, dim)``; with one argument, ``x`` holds the counts."""
    if not arguments.has(1, "repeats"):
        return Array((UNKNOWN,), None, arguments.torch)
    return _each_again(arguments, "dim")


def _each_again(arguments: Arguments, name: str) -> Value:
    array = array_of(arguments)
    axes, count = axes_of(array), arguments.get(1, "repeats")
    times = Axis(count if isinstance(count, Size) else None)
    if not arguments.has(2, name) or is_none(arguments.get(2, name)):
        return array.shaped((_times(Axis(product(axes)), times),))
    at = place_in(axes, whole_of(arguments, 0, 2, name), "repeat")
    return array.shaped([*axes[:at], _times(axes[at], times), *axes[at + 1 :]])


def _stretched(array: Array, new: Axes, what: str) -> Array:
    """Return an array that is expanded to a shape, where -1 keeps the size of an axis."""
    axes = axes_of(array)
    front = len(new) - len(axes)
    if front < 0:
        raise MismatchError(f"{what}: {shown(axes)} has more axes than {shown(new)}")
    out = list(new[:front])
    for one, other in zip(axes, new[front:], strict=True):
        as_it_is = other.size is not None and other.size.number == -1
        if not as_it_is and not one.one and apart(one, other):
            raise MismatchError(f"{what}: {shown(axes)} does not fit {shown(new)}: {one.size} against {other.size}")
        out.append(one if as_it_is else other)
    if any(axis.size is not None and axis.size.number == -1 for axis in out):
        raise UnsureError
    return array.shaped(out)


@understood(64, "size", "sizes", "shape")
def expand(arguments: Arguments) -> Value:
    """Return the result of ``x.expand(3, -1)``."""
    return _stretched(array_of(arguments), sizes_from(arguments, 1, "size", "sizes", "shape"), "expand")


@understood(2, "array", "size", "shape")
def broadcast_to(arguments: Arguments) -> Value:
    """Return the result of ``broadcast_to(x, shape)``."""
    array = array_of(arguments, 0, "input", "array")
    return _stretched(array, sizes_from(arguments, 1, "size", "shape"), "broadcast_to")


@understood(2, "other")
def expand_as(arguments: Arguments) -> Value:
    """Return the result of ``x.expand_as(other)``."""
    return _stretched(array_of(arguments), axes_of(array_of(arguments, 1, "other")), "expand_as")


@understood(64, array=False)
def broadcast_tensors(arguments: Arguments) -> Value:
    """Return the result of ``broadcast_tensors(x, y)``, where ``(N, 1)`` and ``(N,)`` are meant to be broadcast."""
    arrays = [array_of(arguments, at) for at in range(len(arguments.given))]
    shapes = [tuple(ASKED if axis.one else axis for axis in axes_of(array)) for array in arrays]
    axes = broadcast(shapes, "broadcast_tensors")
    return Several(tuple(array.shaped(axes) for array in arrays))


FUNCTIONS: dict[str, Operation] = {
    "stack": stack,
    **dict.fromkeys(("cat", "concatenate", "concat"), cat),
    "hstack": _stacked("hstack", _row, lambda axes: 0 if len(axes) == 1 else 1),
    "vstack": _stacked("vstack", _rows, lambda axes: 0),
    "pad_sequence": of_torch(pad_sequence),
    "column_stack": _stacked("column_stack", _columns, lambda axes: 1),
    "split": split,
    **dict.fromkeys(("array_split", "tensor_split"), array_split),
    "chunk": of_torch(chunk),
    "unbind": of_torch(unbind),
    "glu": of_torch(glu),
    "repeat": repeat,
    "tile": tile,
    "repeat_interleave": of_torch(repeat_interleave),
    "broadcast_to": broadcast_to,
    "broadcast_tensors": of_torch(broadcast_tensors),
}
METHODS: dict[str, Operation] = {
    "split": of_torch(split),
    "tensor_split": of_torch(array_split),
    "chunk": of_torch(chunk),
    "unbind": of_torch(unbind),
    "repeat": repeat,
    "tile": of_torch(tile),
    "repeat_interleave": of_torch(repeat_interleave),
    "expand": of_torch(expand),
    "expand_as": of_torch(expand_as),
    "broadcast_to": of_torch(broadcast_to),
}
