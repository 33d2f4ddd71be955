"""Errors of mypy's own about a batch, which are left to the engine: whether the batch is what is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from mypy.errorcodes import ErrorCode
from mypy.nodes import Expression
from mypy.types import Instance


@dataclass(frozen=True)
class Question:
    """An error of mypy's own that is not reported yet.

    Attributes:
        asked: the protocol that a value is not.
        place: where the error is shown.
        code: its code.
        message: what mypy says.
    """

    asked: Instance
    place: Expression
    code: ErrorCode | None
    message: str


_open: dict[Expression, Question] = {}


def ask(value: Expression, question: Question) -> None:
    """Leave an error about a value to the engine."""
    _open[value] = question


def taken(value: Expression) -> Question | None:
    """Return the question about a value, if there is one, which is answered from now on."""
    return _open.pop(value, None) if _open else None


def unanswered() -> list[Question]:
    """Return the questions that nothing has answered, and forget them."""
    found = list(_open.values())
    _open.clear()
    return found
