"""Operators of Python between arrays, sizes, numbers and tuples."""

from __future__ import annotations

from collections.abc import Callable

from typedbatch._program.arrays.elementwise import binary
from typedbatch._program.arrays.products import matmul
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import Array, Literal, Many, Scalar, Several, Value


def operate(sign: str, one: Value, other: Value) -> Value:
    """Return the result of an operator between two values.

    Raises:
        MismatchError: The operation certainly fails, or nobody can have meant its result.
    """
    if sign == "@":
        return matmul(one, other)
    if isinstance(one, Array) or isinstance(other, Array):
        return binary(sign, one, other)
    if isinstance(one, Size) and isinstance(other, Size):
        return _of_sizes(sign, one, other)
    if _is_number(one) and _is_number(other):
        return Scalar()
    if sign == "+" and isinstance(one, Several) and isinstance(other, Several):
        return Several(one.items + other.items, one.listed)
    if sign == "*" and isinstance(one, Several) and isinstance(other, Size):
        return _times(one, other)
    return _times(other, one) if sign == "*" and isinstance(other, Several) and isinstance(one, Size) else None


def _of_sizes(sign: str, one: Size, other: Size) -> Value:
    if sign in ("//", "%"):
        if other.number == 0:
            return None
        return one // other if sign == "//" else one % other
    if sign == "**":
        power = other.number
        return _power(one, power) if power is not None and 0 <= power < 5 else Scalar()
    if sign == "/":
        return Scalar()
    operations: dict[str, Callable[[], Size]] = {
        "+": lambda: one + other,
        "-": lambda: one - other,
        "*": lambda: one * other,
    }
    return operations[sign]() if sign in operations else None


def _power(base: Size, times: int) -> Size:
    out = number(1)
    for _ in range(times):
        out = out * base
    return out


def _times(items: Several, times: Size) -> Value:
    count = times.number
    if count is not None and 0 <= count * len(items.items) <= 64:
        return Several(items.items * count, items.listed)
    return Many(items.items[0]) if len(items.items) == 1 else None


def _is_number(value: Value) -> bool:
    return isinstance(value, (Size, Scalar)) or (isinstance(value, Literal) and isinstance(value.value, (float, bool)))
