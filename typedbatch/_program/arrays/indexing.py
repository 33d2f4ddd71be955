"""Indexing: the shape of ``x[index]``, and the indices that an array cannot take."""

from __future__ import annotations

from collections.abc import Sequence

from typedbatch._program.arrays.asking import not_negative
from typedbatch._program.arrays.dtypes import BOOL, FLOATS, is_in
from typedbatch._program.arrays.elementwise import broadcast
from typedbatch._program.arrays.sizes import Size, differ, number
from typedbatch._program.arrays.values import (
    ASKED,
    UNKNOWN,
    Array,
    Axis,
    Literal,
    MismatchError,
    Several,
    Span,
    Value,
    is_none,
    shown,
)

ONE = number(1)


def take(array: Array, index: Value) -> Array:
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
    target = take(array, index)
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
