"""Calls of functions and modules of the same file: their bodies are read with the shapes that one call gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mypy.nodes import (
    Argument,
    CallExpr,
    Context,
    Decorator,
    Expression,
    FloatExpr,
    FuncDef,
    IntExpr,
    NameExpr,
    RefExpr,
    TypeInfo,
)

from typedbatch._program.arrays.sizes import Ranks, Size, number
from typedbatch._program.arrays.values import Array, Layer, Literal, Many, MismatchError, Several, Value
from typedbatch.mypy.batches.content import Ref
from typedbatch.mypy.batches.summaries import bound_values, home_of
from typedbatch.mypy.engine.changes import Changes

_DEEPEST: Final = 6
_MOST: Final = 24
"""The number of different calls of one function that are read, for each function that mypy checks."""
_MOST_IN_ALL: Final = 120
"""The same, of all functions."""
_KEEPS: Final = frozenset({
    "autocast", "beartype", "checked", "compile", "enable_grad", "inference_mode", "jaxtyped", "no_grad",
    "no_type_check", "override", "script", "typechecked",
})  # fmt: skip
_LIBRARIES: Final = frozenset(
    {"beartype", "jaxtyping", "torch", "typedbatch", "typeguard", "typing", "typing_extensions"}
)


class Heard(NamedTuple):
    """Mismatch in the body of a function.

    Attributes:
        error: What does not fit.
        context: Where.
    """

    error: MismatchError
    context: Context


@dataclass(frozen=True)
class Outcome:
    """Result of reading a call.

    Attributes:
        value: What it gives.
        heard: Mismatches that occur in every run of the function.
    """

    value: Value
    heard: Sequence[Heard]


Run = Callable[[FuncDef, Sequence[Value], Ranks], Outcome]


class Inside:
    """The calls of functions of one file.

    Args:
        module: Name of the file's module.
        changes: What the file changes later.
        run: Read the body of a function with what its parameters are.
    """

    def __init__(self, module: str, changes: Changes, run: Run) -> None:
        self._module = module
        self.changes = changes
        self._run = run
        self._depth = 0
        self.begin(Ranks())

    def begin(self, ranks: Ranks) -> None:
        """Forget all calls. It is called for each function that mypy checks, so that their order makes no difference.

        Args:
            ranks: The numbers of axes that runs have.
        """
        self._ranks = ranks
        self._made: dict[Any, Outcome | None] = {}
        self._calls: dict[FuncDef, int] = {}
        self._left = _MOST_IN_ALL

    def call(self, function: FuncDef, values: Sequence[Value]) -> Value:
        """Return what a call gives; None where that is not known.

        Args:
            function: The function.
            values: What each of its parameters is; None where nothing is known.

        Raises:
            MismatchError: Every run with these values has a mismatch that the function alone does not have.
        """
        if not any(map(_says_something, values)):
            return None
        outcome = self._outcome(function, values)
        if outcome is None or not outcome.heard:
            return None if outcome is None else outcome.value
        first = outcome.heard[0]
        own = self._outcome(function, [None] * len(values))
        if own is None or any(heard.context.line == first.context.line for heard in own.heard):
            return None
        text = str(first.error)
        place = f"in {_name(function)}, line {first.context.line}: "
        text = text if first.error.origin is not None else place + text
        origin = first.context.line if first.error.origin is None else first.error.origin
        raise MismatchError(text, dtype=first.error.dtype, origin=origin)

    def _outcome(self, function: FuncDef, values: Sequence[Value]) -> Outcome | None:
        key = (function, tuple(None if isinstance(value, Ref) else value for value in values))
        if key not in self._made:
            self._made[key] = None  # while it is read, as in a recursion
            calls = self._calls[function] = self._calls.get(function, 0) + 1
            self._left -= 1
            if self._depth < _DEEPEST and calls <= _MOST and self._left >= 0 and self.has(function):
                self._depth += 1
                self._made[key] = self._run(function, key[1], self._ranks)
                self._depth -= 1
        return self._made[key]

    def has(self, function: FuncDef) -> bool:
        """Return whether it is a function of this file whose body says what a call does."""
        is_here = home_of(function) == self._module and self.changes.is_defined_once(function)
        followed = not function.info or (self.changes.is_plain(function.info) and not self.changes.are_anywhere)
        return is_here and followed and not (function.is_coroutine or function.is_generator)


def values_given(
    node: CallExpr, function: FuncDef, given: Mapping[Expression, Value], first: Value
) -> list[Value] | None:
    """Return what each parameter of a function is in one call; None where that is unclear.

    Args:
        node: The call.
        function: The function.
        given: What the arguments are.
        first: The object whose method it is; None for a function.
    """
    is_method = bool(function.info)
    bound = bound_values(node, function, {one: one for one in node.args}, of_method=is_method)
    if bound is None:
        return None
    out = [
        _default(one) if value is None else given[value] for one, value in zip(function.arguments, bound, strict=True)
    ]
    return [first, *out[1:]] if is_method else out


def _default(argument: Argument) -> Value:
    default = argument.initializer
    if isinstance(default, IntExpr):
        return number(default.value)
    if isinstance(default, FloatExpr):
        return Literal(default.value)
    if isinstance(default, NameExpr) and default.fullname in _LITERALS:
        return Literal(_LITERALS[default.fullname])
    return None


_LITERALS: Final = {"builtins.None": None, "builtins.True": True, "builtins.False": False}


def function_of(owner: TypeInfo, name: str) -> FuncDef | None:
    """Return the method of a class; None for a property, and for one that a decorator makes another function of."""
    found = owner.get(name)
    return undecorated(found.node if found is not None else None)


def undecorated(node: object) -> FuncDef | None:
    """Return a function as it is written; None if a decorator makes another one of it."""
    if isinstance(node, Decorator):
        node = node.func if all(map(_keeps, node.original_decorators)) else None
    plain = isinstance(node, FuncDef) and not (node.is_property or node.is_class or node.is_static)
    return node if plain and isinstance(node, FuncDef) else None


def _keeps(decorator: Expression) -> bool:
    """Is it a decorator of a library that leaves a function what it is."""
    node = decorator.callee if isinstance(decorator, CallExpr) else decorator
    home, _, name = (node.fullname if isinstance(node, RefExpr) else "").rpartition(".")
    return name in _KEEPS and home.partition(".")[0] in _LIBRARIES


def _says_something(value: Value) -> bool:
    if isinstance(value, Several):
        return any(map(_says_something, value.items))
    if isinstance(value, Many):
        return _says_something(value.item)
    return isinstance(value, (Layer, Size)) or (isinstance(value, Array) and value.axes not in (None, ()))


def _name(function: FuncDef) -> str:
    return f"{function.name} of {function.info.name}" if function.info else function.name
