"""Python's own functions and operators: ``len``, ``zip``, ``x + y`` of arrays, sizes, numbers and tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy.nodes import ARG_NAMED, ARG_POS, CallExpr, NameExpr

from typedbatch._program.arrays.sizes import Name, Size, named, number
from typedbatch._program.arrays.values import Array, Many, Record, Scalar, Several, Value, item_of
from typedbatch.mypy.engine.known import is_batch, rows_name

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading


def _one(reading: Reading, node: CallExpr) -> Value:
    """The only argument."""
    values = [reading.read(argument) for argument in node.args]
    return values[0] if len(values) == 1 else None


def _length(reading: Reading, node: CallExpr) -> Value:
    value = _one(reading, node)
    if isinstance(value, Array) and value.axes:
        return value.axes[0].size
    if isinstance(value, Several):
        return number(len(value.items))
    if isinstance(value, Record) and is_batch(value.type.type):
        rows = rows_name(value)
        return value.size(rows, rows) if rows is not None else None
    return None


def _zipped(reading: Reading, node: CallExpr) -> Value:
    items = [item_of(reading.read(argument)) for argument in node.args]
    if any(kind not in (ARG_POS, ARG_NAMED) for kind in node.arg_kinds):
        return None
    return Many(Several(tuple(item for item, kind in zip(items, node.arg_kinds, strict=True) if kind == ARG_POS)))


def _enumerated(reading: Reading, node: CallExpr) -> Value:
    items = [item_of(reading.read(argument)) for argument in node.args]
    return Many(Several((_index(reading, node), *items[:1])))


def _counted(reading: Reading, node: CallExpr) -> Value:
    for argument in node.args:
        reading.read(argument)
    return Many(_index(reading, node))


def _index(reading: Reading, node: CallExpr) -> Size:
    return named(Name("i", reading.known.scope(node), opaque=True))


def _passed(reading: Reading, node: CallExpr) -> Value:
    value = _one(reading, node)
    if isinstance(value, Array) and value.axes:
        return Many(value.shaped(value.axes[1:]))
    if isinstance(value, Several):
        name = node.callee.name if isinstance(node.callee, NameExpr) else ""
        return Several(value.items[::-1] if name == "reversed" else value.items, listed=name == "list")
    return value if isinstance(value, Many) else None


def _whole(reading: Reading, node: CallExpr) -> Value:
    value = _one(reading, node)
    return value if isinstance(value, Size) else None


def _scalar(reading: Reading, node: CallExpr) -> Value:
    """``float("-inf")``, ``bool(x)``."""
    reading.arguments(node)
    return Scalar()


_MATHS = ("sqrt", "log", "log2", "log10", "exp", "sin", "cos", "tan", "tanh", "pow", "fabs", "prod")

PYTHONS: Final[dict[str, Callable[[Reading, CallExpr], Value]]] = {
    "builtins.len": _length,
    "builtins.zip": _zipped,
    "builtins.enumerate": _enumerated,
    "builtins.range": _counted,
    "builtins.list": _passed,
    "builtins.tuple": _passed,
    "builtins.reversed": _passed,
    "builtins.int": _whole,
    "builtins.float": _scalar,
    "builtins.bool": _scalar,
    **{f"math.{name}": _scalar for name in _MATHS},
}
"""What each of them gives."""
