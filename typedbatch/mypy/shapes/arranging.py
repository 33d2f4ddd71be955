"""Operations that give the same numbers another shape: reshape, squeeze, transpose."""

from __future__ import annotations

from collections.abc import Sequence

from typedbatch.mypy.shapes.asking import (
    UnsureError,
    array_of,
    axes_of,
    place_in,
    places_in,
    product,
    sizes_from,
    understood,
    whole,
    whole_of,
)
from typedbatch.mypy.shapes.sizes import differ
from typedbatch.mypy.shapes.values import (
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


@understood(9, "shape", "newshape", "size", "order")
def _reshape(arguments: Arguments) -> Value:
    array = array_of(arguments)
    if arguments.has(-1, "order"):
        raise UnsureError
    return array.shaped(_as(axes_of(array), sizes_from(arguments, 1, "shape", "newshape", "size"), array))


def _as(old: tuple[Axis, ...], new: tuple[Axis, ...], array: Array) -> Sequence[Axis]:
    """A shape with as many numbers; the size that is left for -1."""
    left = [place for place, axis in enumerate(new) if axis.size is not None and axis.size.number == -1]
    total, given = product(old), product([axis for place, axis in enumerate(new) if place not in left])
    if len(left) > 1:
        raise UnsureError
    if left:
        rest = total.divided(given) if total is not None and given is not None else None
        return [(UNKNOWN if rest is None else Axis(rest)) if place in left else axis for place, axis in enumerate(new)]
    if total is not None and given is not None and differ(total, given):
        raise MisfitError(f"reshape: {array} to {shown(new)} has not as many elements: {total} against {given}")
    _require_order(old, new)
    return new


def _require_order(old: tuple[Axis, ...], new: tuple[Axis, ...]) -> None:
    """``(T, B)`` to ``(B, T)`` has as many elements, in another order than is meant."""
    sizes, others = [axis.size for axis in old], [axis.size for axis in new]
    if sizes == others or None in sizes or None in others or sorted(map(str, sizes)) != sorted(map(str, others)):
        return
    named = {size for size in sizes if size is not None and size.name is not None and not size.name.opaque}
    moved = [size for size, other in zip(sizes, others, strict=True) if size != other]
    if len(named.intersection(moved)) > 1 and set(sizes) == set(others):
        text = f"reshape of {shown(old)} to {shown(new)} moves no data: it renames the axes; transpose swaps them"
        raise MisfitError(text)


@understood(2, "dim", "axis")
def _squeeze(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = axes_of(array)
    if not arguments.has(1, "dim", "axis") or is_none(arguments.get(1, "dim", "axis")):
        if any(axis.size is None or axis.size.number is None for axis in axes):
            raise UnsureError
        return array.shaped([axis for axis in axes if not axis.one])
    places = places_in(axes, arguments.get(1, "dim", "axis"), "squeeze", arguments.torch)
    if any(axes[place].size is None for place in places):
        raise UnsureError
    if arguments.torch and any(not axes[place].one and _may_be_one(axes[place]) for place in places):
        raise UnsureError
    gone = [place for place in places if axes[place].one]
    if len(gone) < len(places) and not arguments.torch:
        raise UnsureError
    return array.shaped([axis for place, axis in enumerate(axes) if place not in gone])


def _may_be_one(axis: Axis) -> bool:
    """A name may stand for 1; then torch leaves the axis out."""
    return axis.size is None or axis.size.number is None


@understood(2, "dim", "axis")
def _unsqueeze(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = axes_of(array)
    at = place_in((*axes, UNKNOWN), whole(arguments.get(1, "dim", "axis")), "unsqueeze", arguments.torch)
    return array.shaped([*axes[:at], ASKED, *axes[at:]])


@understood(3, "start_dim", "end_dim")
def _flatten(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = axes_of(array)
    if not axes:
        raise UnsureError
    first = place_in(axes, whole_of(arguments, 0, 1, "start_dim"), "flatten", arguments.torch)
    last = place_in(axes, whole_of(arguments, -1, 2, "end_dim"), "flatten", arguments.torch)
    if first > last:
        raise UnsureError
    if first == last:
        return array
    return array.shaped([*axes[:first], Axis(product(axes[first : last + 1])), *axes[last + 1 :]])


@understood(1)
def _ravel(arguments: Arguments) -> Value:
    array = array_of(arguments)
    return array.shaped([Axis(product(axes_of(array)))])


@understood(9, "dims", "axes")
def _permute(arguments: Arguments) -> Value:
    """Torch's ``permute``; numpy's ``transpose`` with axes or without."""
    array = array_of(arguments)
    axes = axes_of(array)
    rest = arguments.given[1:] or tuple(arguments.named[name] for name in ("dims", "axes") if name in arguments.named)
    if not rest or (len(rest) == 1 and is_none(rest[0])):
        if arguments.torch:
            raise UnsureError
        return array.shaped(axes[::-1])
    order = rest[0] if len(rest) == 1 and isinstance(rest[0], Several) else Several(rest)
    places = places_in(axes, order, "permute", arguments.torch)
    if sorted(places) != list(range(len(axes))):
        raise MisfitError(f"permute: {array} has {len(axes)} axes, and {len(places)} are named")
    return array.shaped([axes[place] for place in places])


@understood(3, "dim0", "dim1", "axis1", "axis2")
def _swap(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = list(axes_of(array))
    one = place_in(axes_of(array), whole(arguments.get(1, "dim0", "axis1")), "transpose", arguments.torch)
    two = place_in(axes_of(array), whole(arguments.get(2, "dim1", "axis2")), "transpose", arguments.torch)
    axes[one], axes[two] = axes[two], axes[one]
    return array.shaped(axes)


def _transpose(arguments: Arguments) -> Value:
    return _swap(arguments) if arguments.torch else _permute(arguments)


@understood(3, "source", "destination")
def _move(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = list(axes_of(array))
    one = place_in(axes_of(array), whole(arguments.get(1, "source")), "moveaxis", arguments.torch)
    two = place_in(axes_of(array), whole(arguments.get(2, "destination")), "moveaxis", arguments.torch)
    axes.insert(two, axes.pop(one))
    return array.shaped(axes)


@understood(1)
def _t(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = axes_of(array)
    if arguments.torch and len(axes) > 2:
        raise MisfitError(f"t() is for two axes at most, got {array}")
    return array.shaped(axes[::-1])


@understood(1)
def _reversed(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = axes_of(array)
    if arguments.torch and len(axes) != 2:
        raise UnsureError
    return array.shaped(axes[::-1])


@understood(1)
def _matrix(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = axes_of(array)
    if len(axes) < 2:
        raise MisfitError(f"mT is for two axes or more, got {array}")
    return array.shaped([*axes[:-2], axes[-1], axes[-2]])


@understood(2, "other")
def _view_as(arguments: Arguments) -> Value:
    array, other = array_of(arguments), array_of(arguments, 1, "other")
    return array.shaped(_as(axes_of(array), tuple(Axis(axis.size) for axis in axes_of(other)), array))


@understood(3, "dim", "sizes")
def _unflatten(arguments: Arguments) -> Value:
    array, sizes = array_of(arguments), arguments.get(2, "sizes")
    axes = axes_of(array)
    at = place_in(axes, whole(arguments.get(1, "dim")), "unflatten", torch=True)
    if not isinstance(sizes, Several):
        raise UnsureError
    return array.shaped([*axes[:at], *_as((axes[at],), sizes_from(Arguments((sizes,)), 0), array), *axes[at + 1 :]])


@understood(1)
def _diagonal(arguments: Arguments) -> Value:
    """``diag`` of one axis is a matrix, of two the diagonal."""
    array = array_of(arguments)
    axes = axes_of(array)
    if len(axes) == 1:
        return array.shaped([Axis(axes[0].size), Axis(axes[0].size)])
    if len(axes) == 2 and axes[0].size == axes[1].size:
        return array.shaped([Axis(axes[0].size)])
    return array.shaped([UNKNOWN]) if len(axes) == 2 else array.shaped(None)


FUNCTIONS: dict[str, Operation] = {
    "reshape": _reshape,
    "squeeze": _squeeze,
    **dict.fromkeys(("unsqueeze", "expand_dims"), _unsqueeze),
    "flatten": _flatten,
    "ravel": _ravel,
    "permute": _permute,
    "transpose": _transpose,
    **dict.fromkeys(("swapaxes", "swapdims"), _swap),
    **dict.fromkeys(("moveaxis", "movedim"), _move),
    "t": _t,
    "unflatten": _unflatten,
    "diag": _diagonal,
}
METHODS: dict[str, Operation] = {
    **{name: call for name, call in FUNCTIONS.items() if name != "expand_dims"},
    "view": _reshape,
    **dict.fromkeys(("view_as", "reshape_as"), _view_as),
}
ATTRIBUTES: dict[str, Operation] = {"T": _reversed, "mT": _matrix}
