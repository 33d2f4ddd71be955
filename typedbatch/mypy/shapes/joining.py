"""Operations that join arrays, and those that take them apart or repeat them."""

from __future__ import annotations

from collections.abc import Sequence

from typedbatch.mypy.shapes.asking import (
    MOST,
    UnsureError,
    array_of,
    axes_of,
    place_in,
    same_axis,
    same_dtypes,
    sizes_from,
    understood,
    whole_of,
)
from typedbatch.mypy.shapes.dtypes import of_arithmetic
from typedbatch.mypy.shapes.elementwise import broadcast
from typedbatch.mypy.shapes.sizes import Size, differ, number
from typedbatch.mypy.shapes.values import (
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Many,
    MisfitError,
    Operation,
    Several,
    Value,
    shown,
)

_LIST = ("tensors", "arrays", "tup")


def _arrays(arguments: Arguments) -> list[Array] | Array:
    """The arrays that are joined; one, if it is not known how many there are like it."""
    value = arguments.get(0, *_LIST)
    if isinstance(value, Many) and isinstance(value.item, Array):
        return value.item
    if not isinstance(value, Several) or not value.items or len(value.items) > MOST:
        raise UnsureError
    arrays = [item for item in value.items if isinstance(item, Array)]
    if len(arrays) != len(value.items) or any(array.torch != arguments.torch for array in arrays):
        raise UnsureError
    return arrays


@understood(2, "dim", "axis", *_LIST)
def _stack(arguments: Arguments) -> Value:
    found, at = _arrays(arguments), whole_of(arguments, 0, 1, "dim", "axis")
    arrays = [found] if isinstance(found, Array) else found
    axes = _alike(arrays, None, "stack")
    place = place_in((*axes, UNKNOWN), at, "stack", arguments.torch)
    count = UNKNOWN if isinstance(found, Array) else Axis(number(len(arrays)))
    dtypes = same_dtypes(arrays, of_arithmetic)
    return Array((*axes[:place], count, *axes[place:]), dtypes, arguments.torch)


@understood(2, "dim", "axis", *_LIST)
def _cat(arguments: Arguments) -> Value:
    found, at = _arrays(arguments), whole_of(arguments, 0, 1, "dim", "axis")
    arrays = [found] if isinstance(found, Array) else found
    if arguments.torch and any(array.rank == 1 for array in arrays) and any(array.rank != 1 for array in arrays):
        raise UnsureError  # torch passes over an empty one
    place = place_in(axes_of(arrays[0]), at, "cat", arguments.torch)
    axes = _alike(arrays, place, "cat")
    total = UNKNOWN if isinstance(found, Array) else _total([axes_of(array)[place] for array in arrays])
    return Array((*axes[:place], total, *axes[place + 1 :]), same_dtypes(arrays, of_arithmetic), arguments.torch)


def _alike(arrays: Sequence[Array], but: int | None, what: str) -> tuple[Axis, ...]:
    """The axes of arrays that have to be the same, but for one."""
    first = axes_of(arrays[0])
    out = list(first)
    for array in arrays[1:]:
        axes = axes_of(array)
        if len(axes) != len(first):
            raise MisfitError(f"{what}: {shown(first)} and {shown(axes)} have not the same number of axes")
        for place, (mine, its) in enumerate(zip(out, axes, strict=True)):
            if place == but:
                continue
            if mine.size is not None and its.size is not None and differ(mine.size, its.size):
                raise MisfitError(
                    f"{what}: {shown(first)} and {shown(axes)} do not fit: {mine.size} against {its.size}"
                )
            out[place] = Axis(same_axis(mine, its).size) if mine.size == its.size else UNKNOWN
    return tuple(out)


def _total(axes: Sequence[Axis]) -> Axis:
    total = number(0)
    for axis in axes:
        if axis.size is None:
            return UNKNOWN
        total = total + axis.size
    return Axis(total)


@understood(3, "split_size_or_sections", "split_size", "dim", "axis", "indices_or_sections")
def _split(arguments: Arguments) -> Value:
    """torch's: into parts of a size, or of these sizes."""
    if not arguments.torch:
        raise UnsureError
    array = array_of(arguments, 0, "tensor", "input")
    axes, sections = axes_of(array), arguments.get(1, "split_size_or_sections", "split_size")
    place = place_in(axes, whole_of(arguments, 0, 2, "dim"), "split", torch=True)
    if isinstance(sections, Several):
        sizes = [item if isinstance(item, Size) else None for item in sections.items]
        _require_whole(axes[place], sizes, array)
        return Several(tuple(_with(array, axes, place, Axis(size)) for size in sizes))
    return Many(_with(array, axes, place, UNKNOWN))


def _require_whole(axis: Axis, sizes: Sequence[Size | None], array: Array) -> None:
    total = _total([Axis(size) for size in sizes]).size
    if axis.size is not None and total is not None and differ(axis.size, total):
        raise MisfitError(f"split: parts of {total} together, of an axis of {axis.size}, in {array}")


def _with(array: Array, axes: Sequence[Axis], place: int, axis: Axis) -> Array:
    return array.shaped([*axes[:place], axis, *axes[place + 1 :]])


@understood(3, "chunks", "dim", "axis", "indices_or_sections")
def _chunk(arguments: Arguments) -> Value:
    array = array_of(arguments, 0, "tensor", "input")
    axes, count = axes_of(array), arguments.whole(1, "chunks")
    place = place_in(axes, whole_of(arguments, 0, 2, "dim", "axis"), "chunk", arguments.torch)
    size = axes[place].size
    exact = size.divided(number(count)) if size is not None and count is not None and count > 0 else None
    if exact is None or count is None or count > MOST:
        return Many(_with(array, axes, place, UNKNOWN))
    return Several((_with(array, axes, place, Axis(exact)),) * count)


@understood(2, "dim")
def _unbind(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = axes_of(array)
    place = place_in(axes, whole_of(arguments, 0, 1, "dim"), "unbind", arguments.torch)
    part, size = array.shaped([*axes[:place], *axes[place + 1 :]]), axes[place].size
    count = size.number if size is not None else None
    return Several((part,) * count) if count is not None and count <= MOST else Many(part)


@understood(9, "size")
def _expand(arguments: Arguments) -> Value:
    """-1 leaves an axis as it is; a size that is not 1 has to be that."""
    array = array_of(arguments)
    axes, sizes = axes_of(array), sizes_from(arguments, 1, "size")
    if len(sizes) < len(axes):
        raise MisfitError(f"expand: {array} to {shown(sizes)} has fewer axes")
    new = len(sizes) - len(axes)
    out = [Axis(axis.size) for axis in sizes[:new]]
    for mine, wanted in zip(axes, sizes[new:], strict=True):
        if wanted.size is not None and wanted.size.number == -1:
            out.append(mine)
            continue
        if not mine.one and mine.size is not None and wanted.size is not None and differ(mine.size, wanted.size):
            raise MisfitError(f"expand: {array} to {shown(sizes)} does not fit: {mine.size} against {wanted.size}")
        out.append(mine if wanted.size is None and not mine.one else Axis(wanted.size))
    return array.shaped(out)


@understood(2, "other")
def _expand_as(arguments: Arguments) -> Value:
    array, other = array_of(arguments), array_of(arguments, 1, "other")
    broadcast([axes_of(array), axes_of(other)], "expand_as")
    return array.shaped([Axis(axis.size) for axis in axes_of(other)])


@understood(3, "shape", "size")
def _broadcast_to(arguments: Arguments) -> Value:
    array = array_of(arguments, 0, "input", "array")
    sizes = sizes_from(Arguments(arguments.given[:2], arguments.named), 1, "shape", "size")
    return array.shaped([Axis(axis.size) for axis in sizes])


@understood(9, "repeats", "reps", "dims")
def _repeat(arguments: Arguments) -> Value:
    """Torch's ``x.repeat(2, 1)`` and both ``tile``."""
    array = array_of(arguments)
    axes, times = list(axes_of(array)), list(sizes_from(arguments, 1, "repeats", "reps", "dims"))
    axes = [Axis(number(1))] * (len(times) - len(axes)) + axes
    times = [Axis(number(1))] * (len(axes) - len(times)) + times
    return array.shaped([_times(axis, by) for axis, by in zip(axes, times, strict=True)])


def _times(axis: Axis, by: Axis) -> Axis:
    return UNKNOWN if axis.size is None or by.size is None else Axis(axis.size * by.size)


@understood(3, "repeats", "dim", "axis", "output_size")
def _repeat_interleave(arguments: Arguments) -> Value:
    array, times = array_of(arguments, 0, "input", "a"), arguments.get(1, "repeats")
    axes = axes_of(array)
    if not arguments.has(2, "dim", "axis"):
        return array.shaped([UNKNOWN])
    place = place_in(axes, whole_of(arguments, 0, 2, "dim", "axis"), "repeat", arguments.torch)
    new = _times(axes[place], Axis(times)) if isinstance(times, Size) else UNKNOWN
    return _with(array, axes, place, new)


def _numpy_or_torch_repeat(arguments: Arguments) -> Value:
    return _repeat(arguments) if arguments.torch else _repeat_interleave(arguments)


FUNCTIONS: dict[str, Operation] = {
    "stack": _stack,
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "split": _split,
    "chunk": _chunk,
    "unbind": _unbind,
    "broadcast_to": _broadcast_to,
    "tile": _repeat,
    "repeat_interleave": _repeat_interleave,
    "repeat": _repeat_interleave,
}
METHODS: dict[str, Operation] = {
    "split": _split,
    "chunk": _chunk,
    "unbind": _unbind,
    "expand": _expand,
    "expand_as": _expand_as,
    "broadcast_to": _broadcast_to,
    "tile": _repeat,
    "repeat": _numpy_or_torch_repeat,
    "repeat_interleave": _repeat_interleave,
}
