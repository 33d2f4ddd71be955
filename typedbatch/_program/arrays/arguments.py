"""Arguments of operations, by kind; one that is not understood makes the result unknown, never wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, wraps
from typing import Final

from typedbatch._program.arrays.dtypes import FLOATS, SIGNED, Dtypes
from typedbatch._program.arrays.sizes import Size, differ, named, number
from typedbatch._program.arrays.values import (
    ASKED,
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    DType,
    Literal,
    MismatchError,
    Operation,
    Several,
    Value,
    axis_at,
    is_none,
    shown,
)

Axes = tuple[Axis, ...]

INT64: Final = frozenset({"int64"})
FLOAT64: Final = frozenset({"float64"})
MOST: Final = 64
"""Most arrays in a result that are told apart."""

_ARRAY = ("input", "a", "x")
_HARMLESS = frozenset({*_ARRAY, "device", "requires_grad", "generator", "pin_memory", "copy", "name"})


class UnsureError(Exception):
    """An argument that is not understood."""


def understood(most: int, *names: str, array: bool = True) -> Callable[[Operation], Operation]:
    """Return a decorator of operations, whose results are unknown if an argument is not understood.

    Args:
        most: Largest number of arguments by position.
        names: Names of arguments that it understands, beside the array itself.
        array: Whether an unknown result is certainly an array.
    """

    def wrap(operation: Operation) -> Operation:
        @wraps(operation)
        def call(arguments: Arguments) -> Value:
            unknown = Array(None, None, arguments.torch) if array else None
            if len(arguments.given) > most or not _HARMLESS.issuperset(set(arguments.named) - set(names)):
                return unknown
            try:
                return operation(arguments)
            except UnsureError:
                return unknown

        return call

    return wrap


def of_torch(operation: Operation) -> Operation:
    """Return an operation that is known for torch only."""

    @wraps(operation)
    def call(arguments: Arguments) -> Value:
        return operation(arguments) if arguments.torch else None

    return call


def array_of(arguments: Arguments, place: int = 0, *names: str) -> Array:
    """Return an argument that is an array of the same library."""
    found = arguments.array(place, *(names or _ARRAY))
    if found is None or found.torch != arguments.torch:
        raise UnsureError
    return found


def axes_of(array: Array) -> Axes:
    """Return the axes of an array."""
    if array.axes is None:
        raise UnsureError
    return array.axes


def array_and_axes(arguments: Arguments, place: int = 0, *names: str) -> tuple[Array, Axes]:
    """Return an argument that is an array of the same library, with its axes."""
    array = array_of(arguments, place, *names)
    return array, axes_of(array)


def flag_of(arguments: Arguments, place: int, *names: str) -> bool:
    """Return a flag, False if it is not given."""
    found = arguments.flag(place, *names)
    if found is None:
        raise UnsureError
    return found


def whole_of(arguments: Arguments, default: int, place: int, *names: str) -> int:
    """Return a whole number that has a default."""
    return whole(arguments.get(place, *names)) if arguments.has(place, *names) else default


def whole(value: Value) -> int:
    """Return a whole number."""
    if not isinstance(value, Size) or value.number is None:
        raise UnsureError
    return value.number


def dtype_of(arguments: Arguments, default: Dtypes | None, place: int = -1) -> Dtypes | None:
    """Return the dtypes that ``dtype=`` sets."""
    if not arguments.has(place, "dtype") or is_none(arguments.get(place, "dtype")):
        return default
    found = arguments.get(place, "dtype")
    return found.dtypes if isinstance(found, DType) else None


def integers(arguments: Arguments) -> Dtypes:
    """Return the default dtypes of whole numbers."""
    return INT64 if arguments.torch else SIGNED


def floats(arguments: Arguments) -> Dtypes:
    """Return the default dtypes of floats, which torch has a setting for."""
    return FLOATS if arguments.torch else FLOAT64


def of_numbers(values: Sequence[Value], arguments: Arguments) -> Dtypes | None:
    """Return the dtypes of an array of numbers of Python."""
    if values and all(isinstance(value, Size) for value in values):
        return integers(arguments)
    kinds = {type(value.value) for value in values if isinstance(value, Literal)}
    if any(not isinstance(value, Literal) for value in values) or len(kinds) != 1:
        return None
    return {bool: frozenset({"bool"}), float: floats(arguments)}.get(kinds.pop())


def place_in(axes: Axes, at: int, what: str) -> int:
    """Return the index of an axis counted from the front.

    Raises:
        MismatchError: It is out of range.
        UnsureError: The array has no axes, where many operations accept 0 and -1.
    """
    found = axis_at(axes, at)
    if found is None:
        if not axes and at in (0, -1):
            raise UnsureError
        raise MismatchError(f"{what}: no axis {at} in {shown(axes)}")
    return found


def places_in(axes: Axes, value: Value, what: str) -> list[int]:
    """Return the indices of axes counted from the front: of one axis, of a tuple of them, or of all for None."""
    if is_none(value):
        return list(range(len(axes)))
    if isinstance(value, Several):
        if not value.items:
            raise UnsureError
        return [place_in(axes, whole(item), what) for item in value.items]
    return [place_in(axes, whole(value), what)]


def sizes_from(arguments: Arguments, first: int, *names: str) -> Axes:
    """Return the axes of a shape, which is given as one tuple, or size by size in torch and methods."""
    values = arguments.given[first:] or tuple(arguments.named[name] for name in names if name in arguments.named)
    if len(values) == 1 and isinstance(values[0], Several):
        values = values[0].items
    elif len(values) == 1 and not isinstance(values[0], Size):
        raise UnsureError
    if not all(value is None or isinstance(value, Size) for value in values):
        raise UnsureError
    return tuple(axis_of(value) for value in values)


def axis_of(value: Value) -> Axis:
    """Return an axis of a size that is written in the code."""
    if not isinstance(value, Size):
        return UNKNOWN
    return ASKED if value.number == 1 else Axis(value)


def sized(value: Value) -> Axis:
    """Return an axis of a size that a layer is constructed with, where a 1 is a size like any other."""
    return Axis(value if isinstance(value, Size) else None)


def product(axes: Sequence[Axis]) -> Size | None:
    """Return the product of the sizes, or None if one of them is not known."""
    out = number(1)
    for axis in axes:
        if axis.size is None:
            return None
        out = out * axis.size
    return out


def apart(one: Axis, other: Axis) -> bool:
    """Return whether two axes certainly differ in size."""
    return one.size is not None and other.size is not None and differ(one.size, other.size)


def same_axis(one: Axis, other: Axis) -> Axis:
    """Return an axis that combines what is known of two axes of equal size."""
    return one if one == other else Axis(one.size if one.size is not None else other.size)


def same_dtypes(arrays: Sequence[Array], of: Callable[[Dtypes | None, Dtypes | None], Dtypes | None]) -> Dtypes | None:
    """Combine the dtypes of all arrays."""
    return reduce(of, [array.dtypes for array in arrays])


def nonzero(size: Size) -> bool:
    """Return whether a size is certainly not 0."""
    return differ(size, number(0))


def not_negative(size: Size) -> bool:
    """Return whether a size is certainly 0 or more; an opaque name counts as 0 or more."""
    least = size.replaced({name: named(name) + number(0 if name.opaque else 1) for name in size.names()})
    return least is not None and all(times > 0 for _, times in least.terms)


def greater(one: Size, other: Size) -> bool:
    """Return whether the first size is certainly greater."""
    return one != other and differ(one, other) and not_negative(one - other)


def require(axes: Axes, at: int, expected: Value, what: str, array: Array) -> None:
    """Refuse an axis whose size is not that of the layer, or an axis of steps in place of features."""
    size = axes[at].size
    if not isinstance(expected, Size) or size is None:
        return
    if differ(size, expected) or (axes[at].step and expected.number is not None):
        raise MismatchError(f"{what} takes {expected} features, got {array}: {size} against {expected}")
