"""Shapes in jaxtyping's language: ``"N 4"``, ``"N *obs"``, ``"#N"``, ``"_"``, ``"..."``, ``"2*n"``.

Read from the text, so that jaxtyping itself need not be there, and so that what makes no sense in a batch is refused.
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

import numpy as np

from typedbatch.errors import DeclarationError

ROWS = "N"
"""The dimension that every array and tensor without declared dimensions begins with."""


class Sort(Enum):
    """What one element of a shape stands for."""

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
        sort: what it stands for.
        text: as it was written, without the marks: ``"N"``, ``"4"``, ``"2*n"``.
        broadcasts: written with ``#``: a size of 1 passes too.
        implied: not written: the rows that an array without declared dimensions has. It is the same size all the same.
    """

    sort: Sort
    text: str
    broadcasts: bool = False
    implied: bool = field(default=False, compare=False)

    @property
    def size(self) -> int:
        """The number, of a FIXED one."""
        return int(self.text)

    @property
    def key(self) -> str:
        """What tells a name from all others; one for several sizes is another than one for a single size."""
        return f"*{self.text}" if self.sort is Sort.SOME else self.text

    @property
    def names(self) -> tuple[str, ...]:
        """The names in a COMPUTED one."""
        tree = ast.parse(self.text, mode="eval")
        return tuple(
            dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in FUNCTIONS)
        )

    def __str__(self) -> str:
        star = {Sort.SOME: "*", Sort.REST: "..."}.get(self.sort, "")
        return ("#" if self.broadcasts else "") + star + ("" if self.sort is Sort.REST else self.text)


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions that an array must have.

    Attributes:
        dims: one element each.
        variadic: the position of the one that stands for any number of dimensions; None if there is none.
        before: the elements in front of the variadic one; all of them if there is none.
        after: the elements behind the variadic one.
    """

    dims: tuple[Dim, ...]
    variadic: int | None = None
    before: tuple[Dim, ...] = field(init=False, repr=False, compare=False)
    after: tuple[Dim, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", self.dims[: self.variadic])
        object.__setattr__(self, "after", () if self.variadic is None else self.dims[self.variadic + 1 :])

    def has_rank(self, rank: int) -> bool:
        """True if an array of that many dimensions can have this shape."""
        if self.variadic is None:
            return rank == len(self.dims)
        return rank >= len(self.dims) - 1

    def is_of_rows(self) -> bool:
        """True if the first dimension is that of the rows."""
        return bool(self.before) and self.before[0].text == ROWS

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.dims))
        return f"({inside},)" if len(self.dims) == 1 and self.variadic is None else f"({inside})"


def shape_of_text(text: str) -> Shape:
    """Read a shape.

    Raises:
        DeclarationError: it cannot be read, or makes no sense in a batch.
    """
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
    if rest.count("=") == 1:  # rows=3 is 3, with a name for people
        rest = rest.split("=")[1]
    if "?" in marks:
        raise DeclarationError(f"the shape {text!r} has {word!r}, which is for trees of arrays and not for a field")
    if "{" in rest:
        raise DeclarationError(
            f"the shape {text!r} has {word!r}, which is for arguments of functions; a batch has none"
        )
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


FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}
"""What an expression may call."""
_ALLOWED = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.UAdd, ast.USub),
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.Call,
)


def _require_expression(expression: str, text: str) -> None:
    try:
        nodes = list(ast.walk(ast.parse(expression, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two where it is too deep
        nodes = []
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    known = all(isinstance(call.func, ast.Name) and _takes(call.func.id, len(call.args)) for call in calls)
    known &= not any(call.keywords for call in calls)
    numbers = all(type(node.value) is int for node in nodes if isinstance(node, ast.Constant))
    if not nodes or not known or not numbers or not all(isinstance(node, _ALLOWED) for node in nodes):
        raise DeclarationError(
            f"the shape {text!r} has {expression!r}, which is neither a name nor a number nor an expression of them; "
            "dimensions are separated by blanks"
        )
    _require_size(expression, text)


def _require_size(expression: str, text: str) -> None:
    """Refuse an expression that can be no size, whatever its names stand for.

    Raises:
        DeclarationError: it has a power that nobody can compute, or is a number that no array has as a size.
    """
    parsed = _parsed(expression)
    names = [node.id for node in ast.walk(parsed) if isinstance(node, ast.Name) and node.id not in FUNCTIONS]
    is_size = True
    try:
        _value(parsed, dict.fromkeys(names, 1))
    except _TooLargeError:
        is_size = False
    except Exception:  # noqa: BLE001  # arithmetic fails in many ways, as 1 // (n - 1) does for 1
        pass
    if not is_size or (not names and compute(expression, {}) == -1):
        raise DeclarationError(
            f"the shape {text!r} has {expression!r}, which is no size: sizes are whole numbers from 0 to 2**63 - 1"
        )


def _takes(function: str, arguments: int) -> bool:
    return arguments == 1 if function == "abs" else function in FUNCTIONS and arguments > 1


MOST: Final = 2**63 - 1
"""The largest size that an array can have."""
_MOST_BITS: Final = 4096
_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


class _TooLargeError(OverflowError):
    """A power that would take long to compute, or all memory."""


def compute(expression: str, sizes: Mapping[str, int]) -> float | None:
    """The value of a COMPUTED element; None if a name in it has no size yet, -1 if it has no value, as 1 // 0.

    A value beyond any size counts as none.
    """
    # The declaration was checked when it was read: names, whole numbers, arithmetic, min, max, abs.
    try:
        if "**" in expression:
            value: Any = _value(_parsed(expression), sizes)
        else:  # without powers nothing can grow beyond reach, and compiled code takes a third of the time
            value = eval(_compiled(expression), {"__builtins__": {}, **FUNCTIONS}, dict(sizes))
    except (KeyError, NameError):
        return None
    except Exception:  # noqa: BLE001  # arithmetic fails in many ways
        return -1
    is_too_large = isinstance(value, (int, float)) and not value <= MOST  # so is what is not a number
    return -1 if is_too_large else value


def _value(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    """The value of an expression.

    Raises:
        KeyError: a name in it has no size.
        _TooLargeError: a power in it is beyond all that sizes are computed from.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, sizes))
    if isinstance(node, ast.Call):
        return FUNCTIONS[ast.unparse(node.func)](*[_value(argument, sizes) for argument in node.args])
    if not isinstance(node, ast.BinOp):
        raise TypeError(f"{ast.unparse(node)} is no arithmetic")
    left, right = _value(node.left, sizes), _value(node.right, sizes)
    return _power(left, right) if isinstance(node.op, ast.Pow) else _OPERATORS[type(node.op)](left, right)


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1
    if whole and base.bit_length() * abs(exponent) > _MOST_BITS:
        raise _TooLargeError
    return base**exponent


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<shape>", "eval")


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


Several = tuple[bool, tuple[int, ...]]
"""What a name for any number of sizes stands for: the sizes, and whether they may be broadcast."""


def broadcast(known: Several | None, sizes: tuple[int, ...], may: bool) -> Several | None:
    """What a name for several sizes stands for, after one more array; None if that array does not fit.

    Args:
        known: what it stood for, and whether that may be broadcast; None the first time.
        sizes: the array's.
        may: written with ``#``: the array's sizes may be broadcast.
    """
    if known is None:
        return may, sizes
    may_too, before = known
    if not may and not may_too:
        return known if sizes == before else None
    try:
        together = np.broadcast_shapes(before, sizes)
    except ValueError:
        return None
    if may_too:
        return (may, together) if may or together == sizes else None
    return known if together == before else None
