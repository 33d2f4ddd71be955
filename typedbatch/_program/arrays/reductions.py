"""Operations along axes: reductions, sort and topk, cumulative sums and softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typedbatch._program.arrays import pointwise
from typedbatch._program.arrays.arguments import (
    FLOAT64,
    INT64,
    Axes,
    UnsureError,
    array_and_axes,
    array_of,
    axes_of,
    dtype_of,
    flag_of,
    greater,
    integers,
    not_negative,
    of_torch,
    place_in,
    places_in,
    product,
    understood,
    whole,
    whole_of,
)
from typedbatch._program.arrays.dtypes import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTS,
    SIGNED,
    UNSIGNED,
    Dtypes,
    is_in,
    of_mean,
    told,
)
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import (
    ASKED,
    Arguments,
    Array,
    Axis,
    Literal,
    MismatchError,
    Operation,
    Scalar,
    Several,
    Value,
    is_none,
)

_AXIS = ("dim", "axis")
_KEEP = ("keepdim", "keepdims")
_Typed = Callable[[Arguments, Dtypes | None], Dtypes | None]


# ---- dtypes ---------------------------------------------------------------------------------------------------------


def _kept(arguments: Arguments, dtypes: Dtypes | None) -> Dtypes | None:
    del arguments
    return dtypes


def _whole(arguments: Arguments, dtypes: Dtypes | None) -> Dtypes | None:
    del dtypes
    return integers(arguments)


def _flags(arguments: Arguments, dtypes: Dtypes | None) -> Dtypes | None:
    """Return the dtypes of flags; torch returns uint8 for uint8."""
    if arguments.torch and (dtypes is None or "uint8" in dtypes):
        return BOOL | {"uint8"}
    return BOOL


def _summed(arguments: Arguments, dtypes: Dtypes | None) -> Dtypes | None:
    if dtypes is None or dtypes <= FLOATS | COMPLEX:
        return dtypes
    if arguments.torch:
        return INT64 if dtypes <= INTS | BOOL else None
    return SIGNED if dtypes <= SIGNED | BOOL else UNSIGNED if dtypes <= UNSIGNED else None


def _averaged(arguments: Arguments, dtypes: Dtypes | None) -> Dtypes | None:
    return FLOAT64 if not arguments.torch and is_in(dtypes, INTS | BOOL) else of_mean(dtypes)


def _real(arguments: Arguments, dtypes: Dtypes | None) -> Dtypes | None:
    found = _averaged(arguments, dtypes)
    return found if is_in(found, FLOATS) else None


def _middle(arguments: Arguments, dtypes: Dtypes | None) -> Dtypes | None:
    return dtypes if arguments.torch else _averaged(arguments, dtypes)


# ---- reductions -----------------------------------------------------------------------------------------------------


def _without(axes: Axes, places: Sequence[int], *, keep: bool) -> Axes:
    if keep:
        return tuple(ASKED if at in places else axis for at, axis in enumerate(axes))
    return tuple(axis for at, axis in enumerate(axes) if at not in places)


def _reduced(arguments: Arguments, what: str, place: int, keep_place: int) -> Axes:
    axes = axes_of(array_of(arguments))
    places = list(range(len(axes)))
    if arguments.has(place, *_AXIS):
        found = arguments.get(place, *_AXIS)
        if isinstance(found, Literal) and isinstance(found.value, bool):  # As in std(x, unbiased).
            raise UnsureError
        places = places_in(axes, found, what)
    return _without(axes, places, keep=flag_of(arguments, keep_place, *_KEEP))


def _reduction(what: str, typed: _Typed, *, floats: bool = False, place: int = 1, most: int = 3) -> Operation:
    """Return a reduction over some axes or all; by position, torch takes up to ``most`` arguments, numpy two."""

    @understood(max(most, place + 1), *_AXIS, *_KEEP, "dtype", "p", "ord", "ddof", "unbiased", "correction")
    def call(arguments: Arguments) -> Value:
        array = array_of(arguments)
        if not arguments.torch and len(arguments.given) > 2:
            raise UnsureError
        axes = _reduced(arguments, what, place, place + 1 if most == place + 2 else -1)
        dtypes = dtype_of(arguments, typed(arguments, array.dtypes))
        if floats and arguments.torch and "dtype" not in arguments.named and is_in(array.dtypes, INTS | BOOL):
            raise MismatchError(f"{what}: torch has it for floats only, these are {told(array.dtypes)}", dtype=True)
        return Array(axes, dtypes, arguments.torch)

    return call


def _count(arguments: Arguments) -> Value:
    if not arguments.torch and not arguments.has(1, *_AXIS):
        return None  # Python's int.
    return _reduction("count_nonzero", _whole)(arguments)


# ---- values and indices ---------------------------------------------------------------------------------------------


def _found(what: str, typed: _Typed) -> Operation:
    """Return the operation ``max``, ``min`` or ``median``, which has two results in torch if ``dim`` is given."""
    plain = _reduction(what, typed)

    @understood(3, *_AXIS, *_KEEP, "other", array=False)
    def two(arguments: Arguments) -> Value:
        array = array_of(arguments)
        other = arguments.get(1, "other", *_AXIS)
        if isinstance(other, Array) and what != "median":
            return pointwise.FUNCTIONS["maximum"](arguments)
        if not isinstance(other, Size):
            return None
        axes = axes_of(array)
        at = place_in(axes, whole(other), what)
        out = _without(axes, [at], keep=flag_of(arguments, 2, *_KEEP))
        return Several((array.shaped(out), Array(out, INT64, torch=True)))

    def call(arguments: Arguments) -> Value:
        return two(arguments) if arguments.torch and arguments.has(1, "other", *_AXIS) else plain(arguments)

    return call


def _along(arguments: Arguments, what: str, place: int, default: int) -> tuple[Array, Axes, int]:
    array, axes = array_and_axes(arguments)
    return array, axes, place_in(axes, whole_of(arguments, default, place, *_AXIS), what)


@understood(3, *_AXIS, "descending", "stable", "kind", array=False)
def sort(arguments: Arguments) -> Value:
    """Return the result of ``sort(x, dim)``, in torch with the indices."""
    if not arguments.torch and is_none(arguments.get(1, *_AXIS)):
        return None
    array, axes, _ = _along(arguments, "sort", 1, -1)
    return Several((array, Array(axes, INT64, torch=True))) if arguments.torch else array


@understood(3, *_AXIS, "descending", "stable", "kind")
def argsort(arguments: Arguments) -> Value:
    """Return the result of ``argsort(x, dim)``."""
    array, _, _ = _along(arguments, "argsort", 1, -1)
    return array.typed(integers(arguments))


@understood(5, "k", *_AXIS, "largest", "sorted", array=False)
def topk(arguments: Arguments) -> Value:
    """Return the result of ``topk(x, k, dim)``."""
    array, axes, at = _along(arguments, "topk", 2, -1)
    count, size = arguments.get(1, "k"), axes[at].size
    if isinstance(count, Size) and size is not None and greater(count, size):
        raise MismatchError(f"topk: {count} of {size}")
    out = [*axes[:at], Axis(count if isinstance(count, Size) else None), *axes[at + 1 :]]
    return Several((array.shaped(out), Array(tuple(out), INT64, torch=True)))


# ---- operations that keep the axes ----------------------------------------------------------------------------------


def _kept_axis(what: str, typed: _Typed, *, default: int | None = None, place: int = 1) -> Operation:
    """Return an operation along an axis that keeps the shape."""

    @understood(place + 1, *_AXIS, "dtype", "p", "eps")
    def call(arguments: Arguments) -> Value:
        array, axes = array_and_axes(arguments)
        given = arguments.has(place, *_AXIS) and not is_none(arguments.get(place, *_AXIS))
        if given or default is not None:
            place_in(axes, whole_of(arguments, default or 0, place, *_AXIS), what)
        return array.typed(dtype_of(arguments, typed(arguments, array.dtypes)))

    return call


def _cumulated(what: str) -> Operation:
    """Return a cumulative operation; without an axis, numpy flattens the array."""
    along = _kept_axis(what, _summed)

    @understood(2, *_AXIS, "dtype")
    def flat(arguments: Arguments) -> Value:
        array = array_of(arguments)
        dtypes = dtype_of(arguments, _summed(arguments, array.dtypes))
        return Array((Axis(product(axes_of(array))),), dtypes, torch=False)

    def call(arguments: Arguments) -> Value:
        without = not arguments.has(1, *_AXIS) or is_none(arguments.get(1, *_AXIS))
        return flat(arguments) if without and not arguments.torch else along(arguments)

    return call


def _with_places(what: str) -> Operation:
    """Return the operation ``cummax(x, dim)``, whose results are values and indices."""
    along = _kept_axis(what, _kept)

    def call(arguments: Arguments) -> Value:
        out = along(arguments)
        return Several((out, out.typed(INT64))) if isinstance(out, Array) else None

    return call


def _two(name: str) -> Operation:
    """Return the operation ``std_mean(x, dim)``, whose results are those of two reductions."""
    ways = [_reduction(one, _real, floats=True) for one in name.split("_")]
    return lambda arguments: Several(tuple(way(arguments) for way in ways))


@understood(3, "n", *_AXIS)
def diff(arguments: Arguments) -> Value:
    """Return the result of ``diff(x, n, dim)``."""
    array, axes, at = _along(arguments, "diff", 2, -1)
    count, size = arguments.get(1, "n") if arguments.has(1, "n") else number(1), axes[at].size
    rest = size - count if isinstance(count, Size) and size is not None else None
    known = rest if rest is not None and not_negative(rest) else None
    return array.shaped([*axes[:at], Axis(known), *axes[at + 1 :]])


_norm = _reduction("norm", _real, floats=True, place=2, most=4)


def norm(arguments: Arguments) -> Value:
    """Return the result of ``norm(x, p, dim)``."""
    order = arguments.get(1, "p")
    plain = not arguments.has(1, "p") or is_none(order) or isinstance(order, (Size, Scalar, Literal))
    return _norm(arguments) if plain else Array(None, None, torch=True)


_NO_METHODS = {"softmin", "normalize", "sort", "std_mean", "var_mean"}
FUNCTIONS: dict[str, Operation] = {
    "sum": _reduction("sum", _summed),
    "nansum": _reduction("nansum", _summed),
    "prod": _reduction("prod", _summed),
    "mean": _reduction("mean", _averaged, floats=True),
    "nanmean": _reduction("nanmean", _averaged, floats=True),
    "std": _reduction("std", _real, floats=True, most=2),
    "var": _reduction("var", _real, floats=True, most=2),
    "amax": _reduction("amax", _kept),
    "amin": _reduction("amin", _kept),
    "argmax": _reduction("argmax", _whole),
    "argmin": _reduction("argmin", _whole),
    "any": _reduction("any", _flags),
    "all": _reduction("all", _flags),
    "logsumexp": of_torch(_reduction("logsumexp", _averaged)),
    "count_nonzero": _count,
    "max": _found("max", _kept),
    "min": _found("min", _kept),
    "median": _found("median", _middle),
    "norm": of_torch(norm),
    "cumsum": _cumulated("cumsum"),
    "cumprod": _cumulated("cumprod"),
    "logcumsumexp": of_torch(_kept_axis("logcumsumexp", _averaged)),
    "sort": sort,
    "argsort": argsort,
    "topk": of_torch(topk),
    "softmax": of_torch(_kept_axis("softmax", _averaged)),
    "log_softmax": of_torch(_kept_axis("log_softmax", _averaged)),
    "softmin": of_torch(_kept_axis("softmin", _averaged)),
    "normalize": of_torch(_kept_axis("normalize", _averaged, default=1, place=2)),
    "diff": diff,
    **{name: of_torch(_two(name)) for name in ("std_mean", "var_mean")},
    **{name: of_torch(_with_places(name)) for name in ("cummax", "cummin")},
}
METHODS: dict[str, Operation] = {
    **{name: call for name, call in FUNCTIONS.items() if name not in _NO_METHODS},
    "sort": of_torch(sort),
}
