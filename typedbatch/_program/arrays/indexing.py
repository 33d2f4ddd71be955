"""Indexing, ``x[index]``, and selection by indices, masks or diagonals: gather, scatter, take, nonzero, diagonal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typedbatch._program.arrays.arguments import (
    Axes,
    UnsureError,
    apart,
    array_and_axes,
    array_of,
    axes_of,
    flag_of,
    greater,
    integers,
    not_negative,
    of_torch,
    place_in,
    understood,
    whole_of,
)
from typedbatch._program.arrays.dtypes import BOOL, FLOATS, is_in, told
from typedbatch._program.arrays.pointwise import broadcast
from typedbatch._program.arrays.sizes import Size, differ, number
from typedbatch._program.arrays.values import (
    ASKED,
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Literal,
    MismatchError,
    Operation,
    Scalar,
    Several,
    Span,
    Value,
    is_none,
    shown,
)

ONE = number(1)


def getitem(array: Array, index: Value) -> Array:
    """Return the result of ``array[index]``.

    Raises:
        MismatchError: The index has more parts than the array has axes, or a number that is out of range.
    """
    parts = index.items if isinstance(index, Several) and not index.listed else (index,)  # A list picks rows.
    unknown = array.shaped(None)
    if any(isinstance(part, Array) and part.axes != () and is_in(part.dtypes, FLOATS) for part in parts):
        raise MismatchError("an index takes integers, got floats", dtype=True)
    if array.axes is None or any(_consumes(part) is None for part in parts):
        return unknown
    used = sum(_consumes(part) or 0 for part in parts)
    if used > len(array.axes):
        raise MismatchError(f"{used} indices for an array of {len(array.axes)} axes, {array}")
    rest = len(array.axes) - used
    dots = [place for place, part in enumerate(parts) if _is_dots(part)]
    if len(dots) > 1:
        return unknown
    whole = (Span(Literal(None), Literal(None), Literal(None)),) * rest
    at = dots[0] if dots else len(parts)
    parts = (*parts[:at], *whole, *parts[at + 1 :])
    out = _taken(array.axes, parts, torch=array.torch)
    return unknown if out is None else array.shaped(out)


def assign(array: Array, index: Value, value: Value) -> Value:
    """Return the target of ``array[index] = value``.

    Raises:
        MismatchError: The value cannot be broadcast to the target.
    """
    target = getitem(array, index)
    if not isinstance(value, Array) or value.axes is None or target.axes is None or value.torch != array.torch:
        return target
    extra = value.axes[: max(0, len(value.axes) - len(target.axes))]
    for axis in extra:
        if axis.size is not None and differ(axis.size, ONE):
            raise MismatchError(f"{value} does not go into {target}")
    for mine, its in zip(target.axes[::-1], value.axes[::-1], strict=False):
        if its.one or mine.size is None or its.size is None:
            continue
        if differ(mine.size, its.size):
            raise MismatchError(f"{value} does not go into {target}: {its.size} against {mine.size}")
    return target


def _is_dots(part: Value) -> bool:
    return isinstance(part, Literal) and part.value is ...


def _consumes(part: Value) -> int | None:
    """Return the number of axes that a part of an index takes, or None if it is not known."""
    if is_none(part) or _is_dots(part):
        return 0
    if isinstance(part, Several):
        return 1 if all(isinstance(item, Size) for item in part.items) else None
    if isinstance(part, (Size, Span)):
        return 1
    if not isinstance(part, Array) or part.axes is None:
        return None
    if part.dtypes is None or part.dtypes & BOOL:
        return len(part.axes) if is_in(part.dtypes, BOOL) and part.axes else 1 if len(part.axes) == 1 else None
    return 1


def _taken(axes: Sequence[Axis], parts: Sequence[Value], *, torch: bool) -> list[Axis] | None:
    out: list[Axis] = []
    picked: list[tuple[Axis, ...] | None] = []
    places: list[int] = []
    at, first = 0, 0
    # numpy treats a number beside arrays as an array; torch indexes by it first.
    arrays = not torch and any(isinstance(part, Several) or (isinstance(part, Array) and part.axes) for part in parts)
    for place, part in enumerate(parts):
        if is_none(part):
            out.append(ASKED)
            continue
        axis, count = axes[at] if at < len(axes) else UNKNOWN, _consumes(part) or 0
        at += count
        if isinstance(part, Span):
            out.append(cut(axis, part))
            continue
        if isinstance(part, Size):
            _require_within(part, axis, axes)
            if not arrays:
                continue
        if not places:
            first = len(out)
        places.append(place)
        picked.append(_picks(part))
    if not places:
        return out
    together = broadcast(picked, "index", columns=True)
    if together is None:
        return None
    start = first if places == list(range(places[0], places[0] + len(places))) else 0
    return [*out[:start], *together, *out[start:]]


def _require_within(part: Size, axis: Axis, axes: Sequence[Axis]) -> None:
    at, size = part.number, None if axis.size is None else axis.size.number
    if at is not None and size is not None and not -size <= at < size:
        raise MismatchError(f"index {at} of an axis of {size}, in {shown(tuple(axes))}")


def _picks(part: Value) -> tuple[Axis, ...] | None:
    """Return the shape that an array or list in an index has in the result; a number beside arrays has no axes."""
    if isinstance(part, Several):
        return (Axis(number(len(part.items))),)
    if not isinstance(part, Array) or part.axes is None:
        return ()
    if part.dtypes is None or part.dtypes & BOOL:
        return (UNKNOWN,)
    return part.axes


def cut(axis: Axis, span: Span) -> Axis:
    """Return an axis after a slice of it."""
    if is_none(span.start) and is_none(span.stop) and is_none(span.step):
        return axis
    size, start, stop, step = axis.size, _bound(span.start), _bound(span.stop), _bound(span.step)
    if size is None or start is None or stop is None or step is None:
        return _short(span) or _at_most(span)
    by = step.number if isinstance(step, Size) else 1
    if by == -1 and is_none(span.start) and is_none(span.stop):
        return Axis(size)
    if by is None or by < 1:
        return UNKNOWN
    left = _between(size, start, stop)
    if left is None:
        return _short(span) or _at_most(span)
    if by > 1:
        if left.number is not None:
            return Axis(number(-(-left.number // by)))
        exact = left.divided(number(by))
        return UNKNOWN if exact is None else Axis(exact)
    return ASKED if left.number == 1 else Axis(left)


def _short(span: Span) -> Axis | None:
    """Return the axis of ``x[:1]``, which counts as 1 whatever the size of ``x`` is; None for another slice."""
    from_front = is_none(span.start) or (isinstance(span.start, Size) and span.start.number == 0)
    return ASKED if from_front and is_none(span.step) and span.stop == ONE else None


def _at_most(span: Span) -> Axis:
    """Return the axis of ``x[:T]``, whose size is T at most."""
    is_bounded = is_none(span.start) and is_none(span.step) and isinstance(span.stop, Size) and _is_certain(span.stop)
    return Axis(None, most=span.stop) if is_bounded and isinstance(span.stop, Size) else UNKNOWN


def _bound(value: Value) -> Size | Literal | None:
    if isinstance(value, Size) or is_none(value):
        return value  # type: ignore[return-value]  # None is the only literal here
    return None


def _between(size: Size, start: Size | Literal, stop: Size | Literal) -> Size | None:
    """Return the number of positions from ``start`` to ``stop``, or None if it is not known."""
    total = size.number
    if total is not None and all(not isinstance(one, Size) or one.number is not None for one in (start, stop)):
        bounds = [one.number if isinstance(one, Size) else None for one in (start, stop)]
        return number(len(range(*slice(*bounds).indices(total))))
    low = _place(size, start) if isinstance(start, Size) else number(0)
    high = _place(size, stop, is_end=True) if isinstance(stop, Size) else size
    if low is None or high is None:
        return None
    left = high - low
    if left.number is not None:
        return number(max(0, left.number))
    is_named = any(isinstance(one, Size) and one.number is None for one in (start, stop))
    is_long_enough = not is_named and all(times > 0 for product, times in left.terms if product)
    return left if is_long_enough or _is_certain(left) else None


def _place(size: Size, bound: Size, *, is_end: bool = False) -> Size | None:
    """Return the position where a slice begins or ends, counted from the front; None if it is not known.

    A bound below 0 counts from the end. An axis is taken to be long enough for a bound that is a number.
    """
    at = bound.number
    if at is None:
        is_from_end = _is_certain(-bound - ONE)
        place = size + bound if is_from_end else bound
        return place if _is_certain(place) and _is_certain(size - place) else None
    if at < 0:
        return size + bound if is_end or at == -1 else None
    return bound if not is_end or _is_certain(size - bound) else None


def _is_certain(size: Size) -> bool:
    """Return whether a size is certainly 0 or more, if each name is 1 or more."""
    return not any(name.opaque for name in size.names()) and not_negative(size)


_INDEX = ("index", "indices")


def _index(arguments: Arguments, place: int, what: str) -> Array:
    index = array_of(arguments, place, *_INDEX)
    if is_in(index.dtypes, FLOATS):
        raise MismatchError(f"{what}: an index of {told(index.dtypes)}", dtype=True)
    return index


def _require_inside(index: Axes, axes: Axes, at: int, what: str) -> None:
    """Refuse an index of another rank than the array, or one that is larger along an axis other than its own."""
    text = f"{what}: an index of {shown(index)} for {shown(axes)}"
    if len(index) != len(axes):
        if not index or not axes:
            raise UnsureError
        raise MismatchError(f"{text}: {len(index)} axes against {len(axes)}")
    for place, (one, other) in enumerate(zip(index, axes, strict=True)):
        if place == at or one.size is None or other.size is None or not apart(one, other):
            continue
        if not greater(other.size, one.size):
            raise MismatchError(f"{text}: {one.size} against {other.size}")


@understood(3, "dim", *_INDEX, "sparse_grad")
def gather(arguments: Arguments) -> Value:
    """Return the result of ``gather(x, dim, index)``, whose shape is that of the index."""
    array, index = array_of(arguments), _index(arguments, 2, "gather")
    axes, shape = axes_of(array), axes_of(index)
    at = place_in(axes, whole_of(arguments, 0, 1, "dim"), "gather")
    _require_inside(shape, axes, at, "gather")
    return array.shaped([Axis(axis.size) for axis in shape])


def _scatter(what: str) -> Operation:
    @understood(5, "dim", *_INDEX, "src", "value", "reduce", "include_self")
    def call(arguments: Arguments) -> Value:
        array, index = array_of(arguments), _index(arguments, 2, what)
        axes, source = axes_of(array), arguments.get(3, "src", "value")
        at = place_in(axes, whole_of(arguments, 0, 1, "dim"), what)
        if index.axes is not None:
            _require_inside(index.axes, axes, at, what)
            if isinstance(source, Array) and source.axes is not None:
                _require_inside(index.axes, source.axes, -1, what)
        return array

    return call


def _put(what: str) -> Operation:
    """Return the operation ``index_add(x, dim, index, source)``, whose source is like ``x`` with one row per index."""

    @understood(4, "dim", *_INDEX, "source", "alpha")
    def call(arguments: Arguments) -> Value:
        array, index = array_of(arguments), _index(arguments, 2, what)
        axes, source = axes_of(array), arguments.get(3, "source")
        at = place_in(axes, whole_of(arguments, 0, 1, "dim"), what)
        if not isinstance(source, Array) or source.axes is None or index.axes is None or len(index.axes) != 1:
            return array
        expected = (*axes[:at], index.axes[0], *axes[at + 1 :])
        if what == "index_copy" and not source.axes and len(axes) == 1:
            return array  # A number is copied to one position.
        if len(source.axes) != len(axes) or any(map(apart, source.axes, expected)):
            raise MismatchError(f"{what}: {shown(source.axes)} is added, {shown(expected)} is expected")
        return array

    return call


@understood(3, *_INDEX, "arr", "dim", "axis")
def take_along(arguments: Arguments) -> Value:
    """Return the result of ``take_along_dim(x, index, dim)``, ``take_along_axis``; all other axes are broadcast."""
    array, index = array_of(arguments, 0, "input", "arr"), _index(arguments, 1, "take_along_dim")
    axes, shape = axes_of(array), axes_of(index)
    if not arguments.has(2, "dim", "axis") or is_none(arguments.get(2, "dim", "axis")):
        raise UnsureError
    at = place_in(axes, whole_of(arguments, 0, 2, "dim", "axis"), "take_along_dim")
    if len(axes) != len(shape):
        raise MismatchError(
            f"take_along_dim: an index of {shown(shape)} for {shown(axes)}: {len(shape)} axes against {len(axes)}"
        )
    return array.shaped(
        [
            Axis(two.size) if place == at else _together(one, two, f"{shown(shape)} for {shown(axes)}")
            for place, (one, two) in enumerate(zip(axes, shape, strict=True))
        ]
    )


def _together(one: Axis, other: Axis, what: str) -> Axis:
    if one.one or other.one:
        return Axis(other.size if one.one else one.size)
    if apart(one, other):
        raise MismatchError(f"take_along_dim: an index of {what}: {other.size} against {one.size}")
    return Axis(one.size) if one.size == other.size else UNKNOWN


@understood(3, "dim", *_INDEX)
def index_select(arguments: Arguments) -> Value:
    """Return the result of ``index_select(x, dim, index)``."""
    array, index = array_of(arguments), axes_of(_index(arguments, 2, "index_select"))
    axes = axes_of(array)
    at = place_in(axes, whole_of(arguments, 0, 1, "dim"), "index_select")
    if len(index) > 1:
        raise MismatchError(f"index_select: an index of {shown(index)}, one axis is expected")
    return array.shaped([*axes[:at], index[0] if index else Axis(number(1)), *axes[at + 1 :]])


@understood(4, "dim", "start", "length")
def narrow(arguments: Arguments) -> Value:
    """Return the result of ``narrow(x, dim, start, length)``."""
    array, length = array_of(arguments), arguments.get(3, "length")
    axes = axes_of(array)
    at = place_in(axes, whole_of(arguments, 0, 1, "dim"), "narrow")
    return array.shaped([*axes[:at], Axis(length if isinstance(length, Size) else None), *axes[at + 1 :]])


@understood(3, *_INDEX, "axis")
def take(arguments: Arguments) -> Value:
    """Return the result of ``take(x, index)``, and of ``take(x, index, axis)`` in numpy."""
    array, index = array_of(arguments), arguments.get(1, *_INDEX)
    shape = () if isinstance(index, Size) and not arguments.torch else axes_of(_index(arguments, 1, "take"))
    if not arguments.has(2, "axis") or is_none(arguments.get(2, "axis")):
        return array.shaped(shape)
    axes = axes_of(array)
    at = place_in(axes, whole_of(arguments, 0, 2, "axis"), "take")
    return array.shaped([*axes[:at], *shape, *axes[at + 1 :]])


@understood(2, "mask")
def masked_select(arguments: Arguments) -> Value:
    """Return the result of ``masked_select(x, mask)``."""
    return array_of(arguments).shaped((UNKNOWN,))


@understood(1, "as_tuple", array=False)
def nonzero(arguments: Arguments) -> Value:
    """Return the result of ``nonzero(x)``, one row per element; in numpy and with ``as_tuple``, one array per axis."""
    axes = axes_of(array_of(arguments))
    if not arguments.torch or flag_of(arguments, -1, "as_tuple"):
        if not axes:
            raise UnsureError
        return Several((Array((UNKNOWN,), integers(arguments), arguments.torch),) * len(axes))
    return argwhere(arguments)


@understood(1, "as_tuple")
def argwhere(arguments: Arguments) -> Value:
    """Return the result of ``argwhere(x)``, one row per element that is not 0."""
    rank = len(axes_of(array_of(arguments)))
    return Array((UNKNOWN, Axis(number(rank))), integers(arguments), arguments.torch)


@understood(3, "sorted_sequence", "input", "v", "right", "side", array=False)
def searchsorted(arguments: Arguments) -> Value:
    """Return the result of ``searchsorted(sorted, values)``, one index per value."""
    values = arguments.get(1, "input", "v")
    if isinstance(values, (Size, Scalar)):
        return Array((), integers(arguments), arguments.torch)
    array = array_of(arguments, 1, "input", "v")
    return Array(array.axes, integers(arguments), arguments.torch)


@understood(3, "weights", "minlength")
def bincount(arguments: Arguments) -> Value:
    """Return the result of ``bincount(x)``."""
    weighted = arguments.has(1, "weights") and not is_none(arguments.get(1, "weights"))
    return Array((UNKNOWN,), None if weighted else integers(arguments), arguments.torch)


@understood(1, "ar", "sorted", array=False)
def unique(arguments: Arguments) -> Value:
    """Return the result of ``unique(x)`` alone, without counts or inverse."""
    return array_of(arguments, 0, "input", "ar").shaped((UNKNOWN,))


@understood(4, "offset", "dim1", "dim2", "axis1", "axis2")
def diagonal(arguments: Arguments) -> Value:
    """Return the result of ``diagonal(x, offset, dim1, dim2)``, whose last axis is the diagonal."""
    array, axes = array_and_axes(arguments)
    one, other = (
        place_in(axes, whole_of(arguments, default, place, *names), "diagonal")
        for default, place, names in ((0, 2, ("dim1", "axis1")), (1, 3, ("dim2", "axis2")))
    )
    if one == other:
        raise MismatchError(f"diagonal: axis {one} twice")
    along = _diagonal(axes[one], axes[other], whole_of(arguments, 0, 1, "offset"))
    return array.shaped([*(axis for at, axis in enumerate(axes) if at not in (one, other)), along])


def _diagonal(one: Axis, other: Axis, offset: int) -> Axis:
    if one.size is None or other.size is None:
        return UNKNOWN
    if one.size.number is not None and other.size.number is not None:
        rows, columns = one.size.number + min(offset, 0), other.size.number - max(offset, 0)
        return Axis(number(max(0, min(rows, columns))))
    return Axis(one.size) if one.size == other.size and not offset else UNKNOWN


@understood(2, "v", "k", "diagonal")
def diag(arguments: Arguments) -> Value:
    """Return the result of ``diag(x, offset)``: a matrix for a vector, the diagonal for a matrix."""
    array = array_of(arguments, 0, "input", "v")
    axes, offset = axes_of(array), whole_of(arguments, 0, 1, "k", "diagonal")
    if len(axes) == 1:
        size = axes[0].size
        return array.shaped((Axis(None if size is None else size + number(abs(offset))),) * 2)
    if len(axes) != 2:
        raise MismatchError(f"diag: {shown(axes)} has {len(axes)} axes, 1 or 2 are expected")
    return array.shaped((_diagonal(*axes, offset),))


@understood(4, "offset", "dim1", "dim2")
def diag_embed(arguments: Arguments) -> Value:
    """Return the result of ``diag_embed(x)``, whose last two axes have the last axis of ``x`` as their diagonal."""
    array, axes = array_and_axes(arguments)
    if len(arguments.given) > 1 or arguments.named or not axes:
        raise UnsureError
    return array.shaped((*axes, Axis(axes[-1].size)))


@understood(4, "weight", "padding_idx", "max_norm")
def embedding(arguments: Arguments) -> Value:
    """Return the result of ``embedding(index, weight)``, one row of the weights per index."""
    index, weight = array_of(arguments), array_of(arguments, 1, "weight")
    if is_in(index.dtypes, FLOATS):
        raise MismatchError(f"embedding: an index of {told(index.dtypes)}", dtype=True)
    shape, rows = axes_of(index), axes_of(weight)
    if len(rows) != 2:
        raise MismatchError(f"embedding: weights of {shown(rows)}, two axes are expected")
    return weight.shaped((*shape, rows[1]))


_TORCH: dict[str, Callable[[Arguments], Value]] = {
    "gather": gather,
    "scatter": _scatter("scatter"),
    "scatter_add": _scatter("scatter_add"),
    "scatter_reduce": _scatter("scatter_reduce"),
    "index_add": _put("index_add"),
    "index_copy": _put("index_copy"),
    "take_along_dim": take_along,
    "index_select": index_select,
    "masked_select": masked_select,
    "narrow": narrow,
    "diag_embed": diag_embed,
}
_BOTH: dict[str, Operation] = {
    "take": take,
    "nonzero": nonzero,
    "argwhere": argwhere,
    "bincount": bincount,
    "unique": unique,
    "diagonal": diagonal,
    "diag": diag,
}
FUNCTIONS: dict[str, Operation] = {
    **{name: of_torch(call) for name, call in _TORCH.items()},
    **_BOTH,
    "take_along_axis": take_along,
    "searchsorted": searchsorted,
    "embedding": of_torch(embedding),
}
METHODS: dict[str, Operation] = {
    **{name: of_torch(call) for name, call in _TORCH.items()},
    **_BOTH,
    "searchsorted": searchsorted,
}
