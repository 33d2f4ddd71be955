"""Several arrays made one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typedbatch.mypy.arrays.asking import (
    Axes,
    UnsureError,
    apart,
    flag_of,
    nonzero,
    of_torch,
    place_in,
    same_axis,
    same_dtypes,
    understood,
    whole_of,
)
from typedbatch.mypy.arrays.dtypes import of_arithmetic
from typedbatch.mypy.arrays.sizes import number
from typedbatch.mypy.arrays.values import (
    ASKED,
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

_ITEMS = ("tensors", "arrays", "seq", "tup")


def _items(arguments: Arguments) -> tuple[list[Array], bool]:
    """The arrays, and whether one stands for a number of them."""
    given = arguments.get(0, *_ITEMS)
    many = isinstance(given, Many)
    values = given.items if isinstance(given, Several) else (given.item,) if isinstance(given, Many) else ()
    arrays = [value for value in values if isinstance(value, Array) and value.torch == arguments.torch]
    if not arrays or len(arrays) < len(values):
        raise UnsureError
    return arrays, many


def _count(given: Value) -> Axis:
    """Return an axis with a place for each array."""
    if isinstance(given, Several):
        return Axis(number(len(given.items)))
    return Axis(given.count) if isinstance(given, Many) else UNKNOWN


def _shapes(arrays: Sequence[Array]) -> list[Axes]:
    """Those that are known, one or more."""
    shapes = [array.axes for array in arrays if array.axes is not None]
    if not shapes:
        raise UnsureError
    return shapes


def _of(shapes: Sequence[Axes], arrays: Sequence[Array], torch: bool) -> Array:
    """What comes out, with the axes of the first one, if all shapes are known."""
    if len(shapes) < len(arrays):
        raise UnsureError
    return Array(shapes[0], same_dtypes(arrays, of_arithmetic), torch)


def _merge(shapes: Sequence[Axes], what: str, but: int | None = None) -> list[Axis]:
    """The axes of shapes which are the same, all but one of them."""
    out = list(shapes[0])
    for axes in shapes[1:]:
        if len(axes) != len(out):
            raise MisfitError(f"{what}: {shown(shapes[0])} and {shown(axes)} have other numbers of axes")
        for at, (one, other) in enumerate(zip(out, axes, strict=True)):
            if at == but:
                continue
            if apart(one, other):
                raise MisfitError(
                    f"{what}: {shown(shapes[0])} and {shown(axes)} do not fit: {one.size} against {other.size}"
                )
            out[at] = same_axis(one, other)
    return out


@understood(2, *_ITEMS, "dim", "axis")
def stack(arguments: Arguments) -> Value:
    """``stack([x, y], dim)``."""
    arrays, _ = _items(arguments)
    shapes = _shapes(arrays)
    axes = _merge(shapes, "stack")
    out = _of(shapes, arrays, arguments.torch)
    at = place_in((*axes, UNKNOWN), whole_of(arguments, 0, 1, "dim", "axis"), "stack")
    axes.insert(at, _count(arguments.get(0, *_ITEMS)))
    return out.shaped(axes)


@understood(4, "sequences", "batch_first", "padding_value", "padding_side")
def pad_sequence(arguments: Arguments) -> Value:
    """``pad_sequence(sequences, batch_first)``: sequences side by side, as long as the longest."""
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
    """Behind each other along an axis."""
    if any(not axes for axes in shapes):
        raise MisfitError(f"{what}: an array without axes")
    if torch and len({len(axes) for axes in shapes}) > 1 and any(_may_be_empty(axes) for axes in shapes):
        raise UnsureError
    place = place_in(shapes[0], at, what)
    axes = _merge(shapes, what, place)
    total = number(0)
    for shape in shapes:
        size = shape[place].size
        if size is None or many:
            axes[place] = UNKNOWN
            return tuple(axes)
        total = total + size
    axes[place] = Axis(total)
    return tuple(axes)


def _may_be_empty(axes: Axes) -> bool:
    return len(axes) == 1 and (axes[0].size is None or not nonzero(axes[0].size))


@understood(2, *_ITEMS, "dim", "axis")
def cat(arguments: Arguments) -> Value:
    """``cat([x, y], dim)``."""
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


FUNCTIONS: dict[str, Operation] = {
    "stack": stack,
    **dict.fromkeys(("cat", "concatenate", "concat"), cat),
    "hstack": _stacked("hstack", _row, lambda axes: 0 if len(axes) == 1 else 1),
    "vstack": _stacked("vstack", _rows, lambda axes: 0),
    "pad_sequence": of_torch(pad_sequence),
    "column_stack": _stacked("column_stack", _columns, lambda axes: 1),
}
METHODS: dict[str, Operation] = {}
