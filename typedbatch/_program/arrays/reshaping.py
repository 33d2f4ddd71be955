"""Operations that keep the elements and change the shape: reshape, squeeze and unsqueeze, permute and transpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from typedbatch._program.arrays.arguments import (
    Axes,
    UnsureError,
    array_and_axes,
    array_of,
    axes_of,
    nonzero,
    of_torch,
    place_in,
    places_in,
    product,
    sizes_from,
    understood,
    whole,
    whole_of,
)
from typedbatch._program.arrays.sizes import Size, differ, number
from typedbatch._program.arrays.values import (
    ASKED,
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    MismatchError,
    Operation,
    Several,
    Value,
    is_none,
    shown,
)

_MINUS = number(-1)

# ---- reshape --------------------------------------------------------------------------------------------------------


def _reshaped(axes: Axes, new: Axes, what: str) -> Axes:
    """Return the new shape, with its -1 computed; refuse another number of elements, and names in another order."""
    rest = [axis for axis in new if axis.size != _MINUS]
    old_sizes, new_sizes = _uncommon(axes, rest, empty=len(rest) == len(new))
    before, after = product(old_sizes), product(new_sizes)
    if len(rest) == len(new):
        if before is not None and after is not None and differ(before, after):
            raise MismatchError(
                f"{what}: {shown(axes)} to {shown(new)}: {product(axes)} elements, {product(new)} asked"
            )
        _require_no_renaming(axes, new, what)
        return new
    if len(rest) < len(new) - 1:
        raise UnsureError
    missing = None
    if before is not None and after is not None and after.number != 0:  # An empty array leaves -1 undetermined.
        missing = before.divided(after)
        if missing is None and before.number is not None and after.number is not None:
            raise MismatchError(f"{what}: {shown(axes)} to {shown(new)}: {before} is not a multiple of {after}")
        if missing is None and len(before.terms) == 1 and (after.name is not None or after.number is not None):
            missing = before.over(after)
    made = tuple(Axis(missing) if axis.size == _MINUS else axis for axis in new)
    _require_no_renaming(axes, made, what)
    return made


def _uncommon(old: Sequence[Axis], new: Sequence[Axis], *, empty: bool) -> tuple[list[Axis], list[Axis]]:
    """Return the axes that differ between two shapes; sizes that may be 0 remain if the arrays may be empty."""
    left, right = list(old), []
    for axis in new:
        goes = axis.size is not None and (not empty or nonzero(axis.size))
        alike = [other for other in left if goes and other.size == axis.size]
        if alike:
            left.remove(alike[0])
        else:
            right.append(axis)
    return left, right


def _require_no_renaming(old: Axes, new: Axes, what: str) -> None:
    sizes = [[axis.size for axis in axes if not axis.one] for axes in (old, new)]
    if any(size is not None and len(size.terms) > 1 for size in sizes[0]):
        return  # (T, T+1) to (T+1, T) shifts each row by one, as relative positions require.
    known = [size for size in sizes[0] if size is not None and _is_plain(size)]
    symbolic = {size for size in known if size.number is None}
    if sizes[0] == sizes[1]:
        return
    if len(known) == len(sizes[0]) and len(symbolic) > 1 and Counter(sizes[0]) == Counter(sizes[1]):
        raise MismatchError(
            f"{what} of {shown(old)} to {shown(new)} moves no data: it renames the axes; transpose swaps them"
        )
    moved = _moved(old, new)
    if moved is not None:
        raise MismatchError(
            f"{what} of {shown(old)} to {shown(new)} moves no data: the numbers along {moved} are mixed with others; "
            "permute or transpose bring the axes that are joined side by side"
        )


def _is_plain(size: Size) -> bool:
    return size.number is not None or (size.name is not None and not size.name.opaque)


def _moved(old: Axes, new: Axes) -> Size | None:
    """Return a named axis whose stride differs between two shapes, as ``T`` does in ``(h, T, d)`` to ``(T, h*d)``."""
    if product(old) != product(new):
        return None
    steps = [_steps(axes) for axes in (old, new)]
    for size, step in steps[0].items():
        other = steps[1].get(size)
        if step is not None and other is not None and step != other:
            return size
    return None


def _steps(axes: Axes) -> dict[Size, Size | None]:
    """Return the stride of each named axis, in elements; None if it is not known, or if two axes have one name."""
    out: dict[Size, Size | None] = {}
    for at, axis in enumerate(axes):
        size = axis.size
        if size is None or size.name is None or size.name.opaque or not size.name.declared:
            continue
        step = product(axes[at + 1 :])
        out[size] = step if size not in out else None
    return out


@understood(64, "shape", "newshape", "size")
def reshape(arguments: Arguments) -> Value:
    """Return the result of ``reshape(x, shape)``, ``x.view(2, -1)``."""
    array = array_of(arguments)
    return array.shaped(_reshaped(axes_of(array), sizes_from(arguments, 1, "shape", "newshape", "size"), "reshape"))


@understood(2, "other")
def reshape_as(arguments: Arguments) -> Value:
    """Return the result of ``x.view_as(other)``."""
    array = array_of(arguments)
    return array.shaped(_reshaped(axes_of(array), axes_of(array_of(arguments, 1, "other")), "reshape"))


@understood(3, "start_dim", "end_dim")
def flatten(arguments: Arguments) -> Value:
    """Return the result of ``flatten(x, start, end)``."""
    array, axes = array_and_axes(arguments)
    if not arguments.torch and len(arguments.given) > 1:
        raise UnsureError
    if not axes:
        return array.shaped((ASKED,))
    first = place_in(axes, whole_of(arguments, 0, 1, "start_dim"), "flatten")
    last = place_in(axes, whole_of(arguments, -1, 2, "end_dim"), "flatten")
    if first > last:
        raise MismatchError(f"flatten: from axis {first} to axis {last}")
    return array.shaped([*axes[:first], _flat(axes[first : last + 1]), *axes[last + 1 :]])


def _flat(axes: Axes) -> Axis:
    return axes[0] if len(axes) == 1 else Axis(product(axes))


@understood(1)
def ravel(arguments: Arguments) -> Value:
    """Return the result of ``ravel(x)``."""
    array = array_of(arguments)
    return array.shaped((_flat(axes_of(array)),))


@understood(3, "dim", "sizes")
def unflatten(arguments: Arguments) -> Value:
    """Return the result of ``unflatten(x, dim, sizes)``."""
    array, axes = array_and_axes(arguments)
    at = place_in(axes, whole_of(arguments, 0, 1, "dim"), "unflatten")
    made = _reshaped(axes[at : at + 1], sizes_from(arguments, 2, "sizes"), "unflatten")
    return array.shaped([*axes[:at], *made, *axes[at + 1 :]])


# ---- axes of size 1 -------------------------------------------------------------------------------------------------


@understood(2, "dim", "axis")
def squeeze(arguments: Arguments) -> Value:
    """Return the result of ``squeeze(x, dim)``; torch keeps an axis whose size is not 1, numpy refuses it."""
    array, axes = array_and_axes(arguments)
    asked = arguments.get(1, "dim", "axis")
    if not arguments.has(1, "dim", "axis") or (is_none(asked) and not arguments.torch):
        if any(axis.size is None or axis.size.number is None for axis in axes):
            return array.shaped(None)
        return array.shaped([axis for axis in axes if not axis.one])
    gone = {at for at in places_in(axes, asked, "squeeze") if _goes(axes, at, arguments.torch)}
    return array.shaped([axis for at, axis in enumerate(axes) if at not in gone])


def _goes(axes: Axes, at: int, torch: bool) -> bool:
    size = axes[at].size
    other = size is not None and differ(size, number(1))
    if other and not torch:
        raise MismatchError(f"squeeze: axis {at} of {shown(axes)} is not 1")
    if torch and not other and not axes[at].one:
        raise UnsureError
    return not other


@understood(2, "dim", "axis")
def unsqueeze(arguments: Arguments) -> Value:
    """Return the result of ``unsqueeze(x, dim)``, ``expand_dims(x, axis)``."""
    array = array_of(arguments)
    axes, asked = axes_of(array), arguments.get(1, "dim", "axis")
    new = len(asked.items) if isinstance(asked, Several) else 1
    places = places_in((UNKNOWN,) * (len(axes) + new), asked, "unsqueeze")
    if len(set(places)) < new or is_none(asked):
        raise UnsureError
    rest = iter(axes)
    return array.shaped([ASKED if at in places else next(rest) for at in range(len(axes) + new)])


# ---- order ----------------------------------------------------------------------------------------------------------


def _ordered(array: Array, order: Sequence[int]) -> Array:
    axes = axes_of(array)
    return array.shaped([axes[at] for at in order])


@understood(64, "dims", "axes")
def permute(arguments: Arguments) -> Value:
    """Return the result of ``permute(x, dims)``, numpy's ``transpose(x, axes)``, which reverses all axes by default."""
    array, axes = array_and_axes(arguments)
    if not arguments.has(1, "dims", "axes") or is_none(arguments.get(1, "dims", "axes")):
        if arguments.torch:
            raise UnsureError
        return array.shaped(axes[::-1])
    asked = [whole(axis.size) for axis in sizes_from(arguments, 1, "dims", "axes")]
    if len(asked) != len(axes):
        raise MismatchError(f"permute: {len(asked)} places for the axes of {shown(axes)}")
    order = [place_in(axes, at, "permute") for at in asked]
    if len(set(order)) < len(order):
        raise MismatchError(f"permute: an axis of {shown(axes)} is there twice")
    return _ordered(array, order)


@understood(3, "dim0", "dim1", "axis0", "axis1", "axis2")
def swapaxes(arguments: Arguments) -> Value:
    """Return the result of ``swapaxes(x, one, other)``, torch's ``transpose``."""
    array, axes = array_and_axes(arguments)
    if not arguments.torch and len(arguments.given) < 3:
        raise UnsureError
    one, other = (
        place_in(axes, whole(arguments.get(place, *names)), "transpose")
        for place, names in ((1, ("dim0", "axis0")), (2, ("dim1", "axis1")))
    )
    order = list(range(len(axes)))
    order[one], order[other] = other, one
    return _ordered(array, order)


def transpose(arguments: Arguments) -> Value:
    """Return the result of ``transpose``, which swaps two axes in torch and permutes all of them in numpy."""
    return swapaxes(arguments) if arguments.torch else permute(arguments)


@understood(3, "source", "destination")
def moveaxis(arguments: Arguments) -> Value:
    """Return the result of ``moveaxis(x, source, destination)``."""
    array, axes = array_and_axes(arguments)
    ends = [arguments.get(1, "source"), arguments.get(2, "destination")]
    if any(is_none(end) for end in ends):
        raise UnsureError
    source, target = (places_in(axes, end, "moveaxis") for end in ends)
    if len(source) != len(target) or len(set(source)) < len(source) or len(set(target)) < len(target):
        raise MismatchError(f"moveaxis: the places in {shown(axes)} do not go together")
    moved = dict(zip(target, source, strict=True))
    rest = iter([at for at in range(len(axes)) if at not in source])
    return _ordered(array, [moved[at] if at in moved else next(rest) for at in range(len(axes))])


@understood(1)
def turned(arguments: Arguments) -> Value:
    """Return the result of ``x.T``, whose axes are in reverse order."""
    array = array_of(arguments)
    return array.shaped(axes_of(array)[::-1])


@understood(1)
def t(arguments: Arguments) -> Value:
    """Return the result of ``t(x)``, which takes two axes at most."""
    axes = axes_of(array_of(arguments))
    if len(axes) > 2:
        raise MismatchError(f"t: {shown(axes)} has more than two axes")
    return turned(arguments)


@understood(1)
def last_two(arguments: Arguments) -> Value:
    """Return the result of ``x.mT``, ``adjoint(x)``."""
    array, axes = array_and_axes(arguments)
    if not axes:
        raise UnsureError
    if len(axes) < 2:
        raise MismatchError(f"mT: {shown(axes)} has less than two axes")
    return array.shaped([*axes[:-2], axes[-1], axes[-2]])


FUNCTIONS: dict[str, Operation] = {
    "reshape": reshape,
    "squeeze": squeeze,
    **dict.fromkeys(("unsqueeze", "expand_dims"), unsqueeze),
    "flatten": of_torch(flatten),
    "ravel": ravel,
    "unflatten": of_torch(unflatten),
    "permute": of_torch(permute),
    "transpose": transpose,
    "swapaxes": swapaxes,
    "swapdims": of_torch(swapaxes),
    **dict.fromkeys(("moveaxis", "movedim"), moveaxis),
    "t": of_torch(t),
    "adjoint": of_torch(last_two),
}
METHODS: dict[str, Operation] = {
    **{name: call for name, call in FUNCTIONS.items() if name not in {"expand_dims", "flatten"}},
    "flatten": flatten,
    "view": of_torch(reshape),
    **dict.fromkeys(("view_as", "reshape_as"), of_torch(reshape_as)),
}
ATTRIBUTES: dict[str, Operation] = {"T": turned, "mT": last_two}
