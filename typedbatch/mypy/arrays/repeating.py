"""The same again and again: arrays that are repeated, and arrays that only seem so."""

from __future__ import annotations

from typedbatch.mypy.arrays.asking import (
    Axes,
    UnsureError,
    apart,
    array_of,
    axes_of,
    of_torch,
    place_in,
    product,
    sizes_from,
    understood,
    whole_of,
)
from typedbatch.mypy.arrays.elementwise import broadcast
from typedbatch.mypy.arrays.sizes import Size
from typedbatch.mypy.arrays.values import (
    ASKED,
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    MisfitError,
    Operation,
    Several,
    Value,
    is_none,
    shown,
)


def _times(axis: Axis, times: Axis) -> Axis:
    size = product([axis, times])
    return axis if times.one else Axis(size)


@understood(64, "repeats", "axis", "sizes")
def repeat(arguments: Arguments) -> Value:
    """``x.repeat(2, 3)`` in torch, ``repeat(x, n, axis)`` in numpy."""
    if not arguments.torch:
        return _each_again(arguments, "axis")
    array = array_of(arguments)
    axes, times = axes_of(array), sizes_from(arguments, 1, "repeats", "sizes")
    if len(times) < len(axes):
        raise MisfitError(f"repeat: {len(times)} numbers for the axes of {shown(axes)}")
    new = len(times) - len(axes)
    kept = [_times(axis, count) for axis, count in zip(axes, times[new:], strict=True)]
    return array.shaped([*times[:new], *kept])


@understood(64, "A", "reps", "dims")
def tile(arguments: Arguments) -> Value:
    """``tile(x, numbers)``."""
    array = array_of(arguments, 0, "input", "A")
    axes, times = axes_of(array), sizes_from(arguments, 1, "reps", "dims")
    new = len(times) - len(axes)
    if new < 0:
        times = (*(ASKED,) * -new, *times)
    old = (*(ASKED,) * new, *axes)
    return array.shaped([_times(axis, count) for axis, count in zip(old, times, strict=True)])


@understood(3, "repeats", "dim")
def repeat_interleave(arguments: Arguments) -> Value:
    """``repeat_interleave(x, n, dim)``; with one array, places that are so many times there."""
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
    """To a shape; -1 leaves an axis as it is."""
    axes = axes_of(array)
    front = len(new) - len(axes)
    if front < 0:
        raise MisfitError(f"{what}: {shown(axes)} has more axes than {shown(new)}")
    out = list(new[:front])
    for one, other in zip(axes, new[front:], strict=True):
        as_it_is = other.size is not None and other.size.number == -1
        if not as_it_is and not one.one and apart(one, other):
            raise MisfitError(f"{what}: {shown(axes)} does not fit {shown(new)}: {one.size} against {other.size}")
        out.append(one if as_it_is else other)
    if any(axis.size is not None and axis.size.number == -1 for axis in out):
        raise UnsureError
    return array.shaped(out)


@understood(64, "size", "sizes", "shape")
def expand(arguments: Arguments) -> Value:
    """``x.expand(3, -1)``."""
    return _stretched(array_of(arguments), sizes_from(arguments, 1, "size", "sizes", "shape"), "expand")


@understood(2, "array", "size", "shape")
def broadcast_to(arguments: Arguments) -> Value:
    """``broadcast_to(x, shape)``."""
    array = array_of(arguments, 0, "input", "array")
    return _stretched(array, sizes_from(arguments, 1, "size", "shape"), "broadcast_to")


@understood(2, "other")
def expand_as(arguments: Arguments) -> Value:
    """``x.expand_as(other)``."""
    return _stretched(array_of(arguments), axes_of(array_of(arguments, 1, "other")), "expand_as")


@understood(64, array=False)
def broadcast_tensors(arguments: Arguments) -> Value:
    """``broadcast_tensors(x, y)``: on purpose, so ``(N, 1)`` and ``(N,)`` are as good as any."""
    arrays = [array_of(arguments, at) for at in range(len(arguments.given))]
    shapes = [tuple(ASKED if axis.one else axis for axis in axes_of(array)) for array in arrays]
    axes = broadcast(shapes, "broadcast_tensors")
    return Several(tuple(array.shaped(axes) for array in arrays))


FUNCTIONS: dict[str, Operation] = {
    "repeat": repeat,
    "tile": tile,
    "repeat_interleave": of_torch(repeat_interleave),
    "broadcast_to": broadcast_to,
    "broadcast_tensors": of_torch(broadcast_tensors),
}
METHODS: dict[str, Operation] = {
    "repeat": repeat,
    "tile": of_torch(tile),
    "repeat_interleave": of_torch(repeat_interleave),
    "expand": of_torch(expand),
    "expand_as": of_torch(expand_as),
    "broadcast_to": of_torch(broadcast_to),
}
