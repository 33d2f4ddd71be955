"""Conditions that are certain to hold, or not to, with what is known of names."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from mypy.nodes import CallExpr, ComparisonExpr, Expression, OpExpr, RefExpr, UnaryExpr

from typedbatch._program.arrays.asking import not_negative
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import Array, Layer, Literal, Many, Several, Value, is_none
from typedbatch.mypy.nodes import nodes_in

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading

_LONG: Final = 40
_COMPARES: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def decided(reading: Reading, node: Expression) -> bool | None:
    """Return whether a condition holds; None if that is not known, and for a long one."""
    if sum(1 for _ in islice(nodes_in(node), _LONG)) == _LONG:
        return None
    if isinstance(node, OpExpr) and node.op in ("and", "or"):
        both = decided(reading, node.left), decided(reading, node.right)
        if (node.op == "or") in both:
            return node.op == "or"
        return None if None in both else node.op == "and"
    if isinstance(node, UnaryExpr) and node.op == "not":
        inner = decided(reading, node.expr)
        return None if inner is None else not inner
    if isinstance(node, ComparisonExpr) and len(node.operands) == 2:
        return _compared(node.operators[0], *map(reading.read, node.operands))
    value = reading.read(node)
    if isinstance(value, Literal) and isinstance(value.value, (bool, type(None))):
        return bool(value.value)
    return bool(value.number) if isinstance(value, Size) and value.number is not None else None


def is_never_empty(reading: Reading, node: Expression) -> bool:
    """Return whether a loop over something is certain to run once or more."""
    if isinstance(node, CallExpr) and isinstance(node.callee, RefExpr) and node.args:
        name = node.callee.fullname
        if name == "builtins.range":
            stop = reading.read(node.args[0]) if len(node.args) == 1 else None
            return isinstance(stop, Size) and _is_positive(stop)
        if name in ("builtins.zip", "builtins.enumerate", "builtins.reversed"):
            return all(is_never_empty(reading, one) for one in node.args)
    value = reading.read(node)
    if isinstance(value, Array):
        size = value.axes[0].size if value.axes else None
        return size is not None and _is_positive(size)
    if isinstance(value, Many):
        return value.count is not None and _is_positive(value.count)
    return isinstance(value, Several) and bool(value.items)


def _is_positive(size: Size) -> bool:
    return not any(name.opaque for name in size.names()) and not_negative(size - number(1))


def _compared(sign: str, one: Value, other: Value) -> bool | None:
    if sign in ("is", "is not") and is_none(other):
        is_other = isinstance(one, (Array, Size, Layer, Several)) or (isinstance(one, Literal) and not is_none(one))
        return (sign == "is not") if is_other else (sign == "is") if is_none(one) else None
    if sign in _COMPARES and isinstance(one, Size) and isinstance(other, Size):
        a, b = one.number, other.number
        return None if a is None or b is None else _COMPARES[sign](a, b)
    if sign in ("==", "!=") and _is_text(one) and _is_text(other):
        return (one == other) == (sign == "==")
    return None


def _is_text(value: Value) -> bool:
    return isinstance(value, Literal) and isinstance(value.value, str)
