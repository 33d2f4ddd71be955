"""Shapes in jaxtyping's language: ``"N 4"``, ``"N *obs"``, ``"#N"``, ``"_"``, ``"..."``, ``"2*n"``.

The text is parsed here, so that jaxtyping need not be installed and shapes that make no sense in a batch are refused.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from typedbatch.errors import DeclarationError

ROWS = "N"
"""Name of the rows: the first dimension of every array and tensor without declared dimensions."""
Several = tuple[bool, tuple[int, ...]]
"""The sizes of a name such as ``*obs``: whether they may be broadcast, and the sizes."""
FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}
"""The functions that an expression may call."""
_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_ALLOWED = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Constant, ast.Call, *_OPERATORS)
MOST: Final = 2**63 - 1
"""The largest size that an array can have."""
_MOST_BITS: Final = 4096


class Sort(Enum):
    """The meaning of one element of a shape."""

    NAMED = "a name for one size"
    FIXED = "a number"
    ANY = "any size"
    COMPUTED = "an expression of named sizes"
    SOME = "a name for any number of sizes"
    REST = "any number of any sizes"


@dataclass(frozen=True, slots=True)
class Dim:
    """One element of a shape.

    Attributes:
        sort: Meaning of the element.
        text: Text of the element without its marks: ``"N"``, ``"4"``, ``"2*n"``.
        broadcasts: Whether it is written with ``#``, so that a size of 1 passes too.
        implied: Whether it is not written, as the rows of an array without declared dimensions. It is equal to a
            written dimension of the same name.
    """

    sort: Sort
    text: str
    broadcasts: bool = False
    implied: bool = field(default=False, compare=False)

    @property
    def size(self) -> int:
        """The size of a FIXED element."""
        return int(self.text)

    @property
    def key(self) -> str:
        """The key of the name. ``*obs`` and ``obs`` have different keys."""
        return f"*{self.text}" if self.sort is Sort.SOME else self.text

    @property
    def names(self) -> tuple[str, ...]:
        """The names in a COMPUTED element, without duplicates."""
        nodes = ast.walk(ast.parse(self.text, mode="eval"))
        names = dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name))
        return tuple(name for name in names if name not in FUNCTIONS)

    def __str__(self) -> str:
        star = {Sort.SOME: "*", Sort.REST: "..."}.get(self.sort, "")
        return ("#" if self.broadcasts else "") + star + ("" if self.sort is Sort.REST else self.text)


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions that an array must have.

    Attributes:
        dims: Elements of the shape, in order.
        variadic: Index of the element that stands for any number of dimensions, or None.
        before: Elements before the variadic one, or all elements in a shape without it.
        after: Elements after the variadic one.
    """

    dims: tuple[Dim, ...]
    variadic: int | None = None
    before: tuple[Dim, ...] = field(init=False, repr=False, compare=False)
    after: tuple[Dim, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", self.dims[: self.variadic])
        object.__setattr__(self, "after", () if self.variadic is None else self.dims[self.variadic + 1 :])

    def has_rank(self, rank: int) -> bool:
        """Return True if an array of ``rank`` dimensions can have this shape."""
        if self.variadic is None:
            return rank == len(self.dims)
        return rank >= len(self.dims) - 1

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.dims))
        return f"({inside},)" if len(self.dims) == 1 and self.variadic is None else f"({inside})"


def shape_of_text(text: str) -> Shape:
    """Parse a shape, or raise a DeclarationError if it makes no sense in a batch."""
    dims = tuple(_dim(word, text) for word in text.split())
    variadic = [i for i, dim in enumerate(dims) if dim.sort in (Sort.SOME, Sort.REST)]
    if len(variadic) > 1:
        raise DeclarationError(f"the shape {text!r} has two elements for any number of dimensions; one is allowed")
    return Shape(dims, variadic[0] if variadic else None)


def _dim(word: str, text: str) -> Dim:
    if word == "...":
        return Dim(Sort.REST, "")
    rest = word.lstrip("#*_?")
    marks = word[: len(word) - len(rest)]
    if rest.count("=") == 1:  # rows=3 means 3; the name is documentation
        rest = rest.split("=")[1]
    if "?" in marks:
        raise DeclarationError(f"the shape {text!r} has {word!r}, which is for trees of arrays and not for a field")
    if "{" in rest:
        reason = f"the shape {text!r} has {word!r}, which is for arguments of functions; a batch has none"
        raise DeclarationError(reason)
    broadcasts = "#" in marks
    if "_" in marks:
        return Dim(Sort.REST if "*" in marks else Sort.ANY, "" if "*" in marks else "_")
    if rest.isidentifier():
        return Dim(Sort.SOME if "*" in marks else Sort.NAMED, rest, broadcasts)
    if "*" in marks:
        raise DeclarationError(f"the shape {text!r} has {word!r}: only a name can stand for any number of dimensions")
    if re.fullmatch(r"[+-]?\d{1,4000}", rest, re.ASCII):
        return Dim(Sort.FIXED, str(int(rest)), broadcasts)
    _require_expression(rest, text)
    return Dim(Sort.COMPUTED, rest, broadcasts)


def _require_expression(expression: str, text: str) -> None:
    try:
        nodes = list(ast.walk(ast.parse(expression, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two are raised if it is nested too deeply
        nodes = []
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    known = all(
        isinstance(call.func, ast.Name)
        and call.func.id in FUNCTIONS
        and (len(call.args) == 1 if call.func.id == "abs" else len(call.args) > 1)
        and not call.keywords
        for call in calls
    )
    numbers = all(type(node.value) is int for node in nodes if isinstance(node, ast.Constant))
    if not nodes or not known or not numbers or not all(isinstance(node, _ALLOWED) for node in nodes):
        raise DeclarationError(
            f"the shape {text!r} has {expression!r}, which is neither a name nor a number nor an expression of them; "
            "dimensions are separated by blanks"
        )
    # Whatever the sizes of its names, it must be able to be a size: no power too large to compute, no wrong number.
    names = [node.id for node in nodes if isinstance(node, ast.Name) and node.id not in FUNCTIONS]
    is_size = True
    try:
        _value(ast.parse(expression, mode="eval").body, dict.fromkeys(names, 1))
    except _TooLargeError:
        is_size = False
    except Exception:  # noqa: BLE001  # the trial size may be one that it fails for, as 1 // (n - 1) does for 1
        pass
    if not is_size or (not names and compute(expression, {}) == -1):
        raise DeclarationError(
            f"the shape {text!r} has {expression!r}, which is not a size: sizes are whole numbers from 0 to 2**63 - 1"
        )


class _TooLargeError(OverflowError):
    """A power that would take too long to compute, or too much memory."""


def compute(expression: str, sizes: Mapping[str, int]) -> float | None:
    """Return the value of a COMPUTED element.

    The result is None if a name in the expression has no size yet. It is -1 if the expression has no value, as 1 // 0,
    or if its value is larger than any size.
    """
    # It is safe to evaluate: _require_expression has admitted only names, whole numbers, arithmetic and FUNCTIONS.
    try:
        read = _read(expression)
        names = {"__builtins__": {}, **FUNCTIONS}
        value: Any = eval(read, names, dict(sizes)) if isinstance(read, CodeType) else _value(read, sizes)
    except (KeyError, NameError):
        return None
    except Exception:  # noqa: BLE001  # arithmetic fails in many ways
        return -1
    is_too_large = isinstance(value, (int, float)) and not value <= MOST  # NaN counts as too large
    return -1 if is_too_large else value


def _value(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    """Evaluate an expression without compiling it, or raise an error if a name has no size or a power is too large."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, sizes))
    if isinstance(node, ast.Call):
        return FUNCTIONS[ast.unparse(node.func)](*[_value(argument, sizes) for argument in node.args])
    if not isinstance(node, ast.BinOp):
        raise TypeError(f"{ast.unparse(node)} is not arithmetic")
    left, right = _value(node.left, sizes), _value(node.right, sizes)
    is_power = isinstance(node.op, ast.Pow) and isinstance(left, int) and isinstance(right, int) and abs(left) > 1
    if is_power and left.bit_length() * abs(right) > _MOST_BITS:
        raise _TooLargeError
    return _OPERATORS[type(node.op)](left, right)


@lru_cache(maxsize=1024)
def _read(expression: str) -> CodeType | ast.expr:
    """Return an expression as code, or as a syntax tree if it has powers, whose values :func:`_value` limits."""
    if "**" in expression:
        return ast.parse(expression, mode="eval").body
    return compile(expression, "<shape>", "eval")  # evaluated in a third of the time


def broadcast(known: Several | None, sizes: tuple[int, ...], may: bool) -> Several | None:
    """Return the sizes of a name such as ``*obs`` after another array, or None if the array does not fit.

    The sizes in the array ``may`` be broadcast if the name is written with ``#``.
    """
    if known is None:
        return may, sizes
    may_too, before = known
    if not may and not may_too:
        return known if sizes == before else None
    import numpy as np  # The mypy plugin, which reads shapes, does without it.

    try:
        together = np.broadcast_shapes(before, sizes)
    except ValueError:
        return None
    if may_too:
        return (may, together) if may or together == sizes else None
    return known if together == before else None
