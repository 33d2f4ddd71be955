"""Operations along an axis: sums, means, the largest, cumulative ones, softmax."""

from __future__ import annotations

from collections.abc import Callable

from typedbatch.mypy.shapes.asking import (
    INT64,
    UnsureError,
    array_of,
    axes_of,
    dtype_of,
    flag_of,
    integers,
    place_in,
    places_in,
    product,
    understood,
    whole,
)
from typedbatch.mypy.shapes.dtypes import BOOL, FLOATS, INTS, Dtypes, is_in, of_mean, told
from typedbatch.mypy.shapes.elementwise import binary
from typedbatch.mypy.shapes.sizes import Size
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
)

_AXIS = ("dim", "axis")
_KEEP = ("keepdim", "keepdims")


def _reduced(arguments: Arguments, array: Array, what: str, keep: int = 2) -> tuple[Axis, ...]:
    """The axes that are left."""
    axes = axes_of(array)
    if not arguments.has(1, *_AXIS) or is_none(arguments.get(1, *_AXIS)):
        places = list(range(len(axes)))
    else:
        places = places_in(axes, arguments.get(1, *_AXIS), what, arguments.torch)
    if flag_of(arguments, keep, *_KEEP):
        return tuple(ASKED if place in places else axis for place, axis in enumerate(axes))
    return tuple(axis for place, axis in enumerate(axes) if place not in places)


def _along(name: str, dtypes: Callable[[Arguments, Array], Dtypes | None]) -> Operation:
    """A reduction that gives one array; numpy's ``keepdims`` is by name only."""

    @understood(3, *_AXIS, *_KEEP, "dtype", "correction", "unbiased", "ddof")
    def call(arguments: Arguments) -> Value:
        array = array_of(arguments)
        if len(arguments.given) > 2 and not arguments.torch:
            raise UnsureError
        return Array(_reduced(arguments, array, name), dtypes(arguments, array), arguments.torch)

    return call


def _of_sum(arguments: Arguments, array: Array) -> Dtypes | None:
    usual = array.dtypes
    if is_in(usual, BOOL):
        usual = integers(arguments)
    elif is_in(usual, INTS):
        usual = INT64 if arguments.torch else None
    return dtype_of(arguments, usual)


def _of_mean(arguments: Arguments, array: Array) -> Dtypes | None:
    if arguments.torch and is_in(array.dtypes, INTS | BOOL) and not arguments.has(-1, "dtype"):
        raise MisfitError(f"mean of {told(array.dtypes)} is an error in torch; .float() comes before it", dtype=True)
    return dtype_of(arguments, of_mean(array.dtypes))


def _kept(arguments: Arguments, array: Array) -> Dtypes | None:
    del arguments
    return array.dtypes


def _floats(arguments: Arguments, array: Array) -> Dtypes | None:
    del arguments
    return array.dtypes if is_in(array.dtypes, FLOATS) else None


def _indices(arguments: Arguments, array: Array) -> Dtypes | None:
    del array
    return integers(arguments)


def _flags(arguments: Arguments, array: Array) -> Dtypes | None:
    return BOOL if not arguments.torch or not is_in(array.dtypes, frozenset({"uint8"})) else None


def _largest(name: str) -> Operation:
    """``max`` and its kin: with an axis, torch gives values and indices; of two arrays it is element by element."""
    one = _along(name, _kept)

    @understood(3, *_AXIS, *_KEEP, "other", array=False)
    def call(arguments: Arguments) -> Value:
        second = arguments.get(1, "other")
        if isinstance(second, Array):
            return binary("+", arguments.array(0, "input"), second) if arguments.array(0, "input") else None
        out = one(arguments)
        if not arguments.torch or not arguments.has(1, *_AXIS) or not isinstance(out, Array):
            return out
        return Several((out, out.typed(INT64)))

    return call


@understood(4, *_AXIS, "dtype", "descending", "stable", "_stacklevel")
def _same_along(arguments: Arguments) -> Value:
    """Softmax, cumulative sums: along an axis, of the same shape."""
    array = array_of(arguments)
    axes = axes_of(array)
    if arguments.has(1, *_AXIS) and not is_none(arguments.get(1, *_AXIS)):
        place_in(axes, whole(arguments.get(1, *_AXIS)), "axis", arguments.torch)
    elif not arguments.torch:
        array = array.shaped([Axis(product(axes))])  # numpy takes them all, one after the other
    return array.typed(dtype_of(arguments, array.dtypes if is_in(array.dtypes, FLOATS) else None))


@understood(3, *_AXIS, "descending", "stable", "kind")
def _sort(arguments: Arguments) -> Value:
    """Torch's gives values and indices, numpy's values."""
    array = array_of(arguments)
    axes_of(array)
    return Several((array, array.typed(INT64))) if arguments.torch else array


@understood(3, *_AXIS, "descending", "stable", "kind")
def _argsort(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes_of(array)
    return array.typed(integers(arguments))


@understood(5, "k", "dim", "largest", "sorted", array=False)
def _topk(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes, count = axes_of(array), arguments.get(1, "k")
    at = whole(arguments.get(2, "dim")) if arguments.has(2, "dim") else -1
    place = place_in(axes, at, "topk", torch=True)
    out = array.shaped([*axes[:place], Axis(count) if isinstance(count, Size) else UNKNOWN, *axes[place + 1 :]])
    return Several((out, out.typed(INT64)))


@understood(4, "p", "dim", "keepdim", "ord", "axis", "keepdims", "eps")
def _norm(arguments: Arguments) -> Value:
    array = array_of(arguments)
    place = Arguments((array, *arguments.given[2:3]), arguments.named, arguments.torch)
    if arguments.has(3, *_KEEP) and len(arguments.given) > 3:
        raise UnsureError
    if not arguments.torch:
        raise UnsureError
    return Array(
        _reduced(place, array, "norm", keep=-1), array.dtypes if is_in(array.dtypes, FLOATS) else None, torch=True
    )


@understood(4, "p", "dim", "eps")
def _normalize(arguments: Arguments) -> Value:
    return array_of(arguments)


@understood(2, "n", *_AXIS)
def _diff(arguments: Arguments) -> Value:
    array = array_of(arguments)
    axes = axes_of(array)
    if arguments.has(1, "n") and arguments.whole(1, "n") != 1:
        raise UnsureError
    at = whole(arguments.get(-1, *_AXIS)) if arguments.has(-1, *_AXIS) else -1
    place = place_in(axes, at, "diff", arguments.torch)
    size = axes[place].size
    less = UNKNOWN if size is None else Axis(size - _ONE)
    return array.shaped([*axes[:place], less, *axes[place + 1 :]]).typed(None)


_ONE = Size((((), 1),))

FUNCTIONS: dict[str, Operation] = {
    **{name: _along(name, _of_sum) for name in ("sum", "prod", "nansum")},
    **{name: _along(name, _of_mean) for name in ("mean", "nanmean")},
    **{name: _along(name, _floats) for name in ("std", "var")},
    **{name: _along(name, _kept) for name in ("amax", "amin")},
    **{name: _along(name, _floats) for name in ("logsumexp",)},
    **{name: _along(name, _indices) for name in ("argmax", "argmin", "count_nonzero")},
    **{name: _along(name, _flags) for name in ("any", "all")},
    **{name: _largest(name) for name in ("max", "min", "median")},
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "cumsum", "cumprod", "logcumsumexp"), _same_along),
    "sort": _sort,
    "argsort": _argsort,
    "topk": _topk,
    "norm": _norm,
    "normalize": _normalize,
    "diff": _diff,
}
METHODS: dict[str, Operation] = {name: call for name, call in FUNCTIONS.items() if name not in ("normalize", "softmin")}
