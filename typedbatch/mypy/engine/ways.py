"""The ways through a function: conditions around a line, and lines behind which not every run goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from mypy.nodes import (
    AssertStmt,
    CallExpr,
    Expression,
    IfStmt,
    IntExpr,
    MatchStmt,
    NameExpr,
    Node,
    TryStmt,
    TupleExpr,
    WhileStmt,
)
from mypy.patterns import AsPattern, Pattern

from typedbatch.mypy.batches.content import Choice
from typedbatch.mypy.nodes import last_name, nodes_in

_HANDLERS = ("suppress", "raises", "assertRaises", "assertRaisesRegex")
_MISSING_ERRORS = {"AttributeError", "KeyError", "LookupError", "Exception", "BaseException", "MissingFieldError"}


class Ways:
    """The place on the way through a function, as far as it decides what every run comes to."""

    def __init__(self) -> None:
        self._contexts = [0]
        self._made = 0
        self._exits = 0

    @contextmanager
    def inside(self) -> Generator[None]:
        """Lines that only some runs come to."""
        self._made += 1
        self._contexts.append(self._made)
        try:
            yield
        finally:
            self._contexts.pop()

    def leave(self) -> None:
        """Note that some runs do not come to what follows."""
        self._exits += 1

    def here(self) -> tuple[int, int]:
        """Return the context of this line, and the number of exits before it."""
        return self._contexts[-1], self._exits

    def decider(self, *, implicit: bool) -> Callable[[int], Choice | None]:
        """Return what makes the choice of a field that a branch sets or removes."""
        context, exits = self._contexts[-1], self._exits
        return lambda line: Choice(line, context, exits, implicit)

    def always_follows(self, choice: Choice) -> bool:
        """Return whether every run that has passed a branch comes to this line."""
        return choice.context == self._contexts[-1] and choice.exits == self._exits


def is_missing_error(item: Expression | None) -> bool:
    """Return whether an ``except`` clause catches what the read of a missing field raises."""
    items = item.items if isinstance(item, TupleExpr) else [item]
    return any(one is None or last_name(one) in _MISSING_ERRORS for one in items)


def suppresses(expression: Expression) -> bool:
    """Return whether a context manager goes on behind its block after an error in it."""
    return isinstance(expression, CallExpr) and last_name(expression.callee) in _HANDLERS


def catches_missing(expression: Expression) -> bool:
    """Return whether such a context manager does so for a missing field."""
    return isinstance(expression, CallExpr) and any(map(is_missing_error, expression.args))


def is_true(condition: Expression) -> bool:
    """Return whether a condition is ``True`` or ``1``."""
    return (isinstance(condition, NameExpr) and condition.fullname == "builtins.True") or (
        isinstance(condition, IntExpr) and condition.value != 0
    )


def takes_anything(pattern: Pattern, guard: Expression | None) -> bool:
    """Return whether a ``case`` takes every value."""
    return guard is None and isinstance(pattern, AsPattern) and pattern.pattern is None


def words_of(statement: Node) -> set[str]:
    """Return the names in what a statement tests."""
    tests: list[Any] = []
    if isinstance(statement, IfStmt):
        tests = list(statement.expr)
    elif isinstance(statement, (WhileStmt, AssertStmt)):
        tests = [statement.expr]
    elif isinstance(statement, MatchStmt):
        tests = [statement.subject]
    return {last_name(one) for test in tests for one in nodes_in(test)} - {"", "self"}


__all__ = ["TryStmt", "Ways", "catches_missing", "is_missing_error", "suppresses", "words_of"]
