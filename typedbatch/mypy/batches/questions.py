"""Errors of mypy's own about a batch, which are left to the engine: whether the batch is what is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mypy.errorcodes import ErrorCode
from mypy.nodes import Expression
from mypy.types import Instance

from typedbatch.mypy.messages import own_code


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
_has_own_codes = False


def use_own_codes(on: bool) -> None:
    """Answer with codes of ours, or with those that mypy has for its own errors."""
    global _has_own_codes
    _has_own_codes = on


def ask(value: Expression, question: Question) -> None:
    """Leave an error about a value to the engine."""
    _open[value] = replace(question, code=own_code(question.code)) if _has_own_codes else question


def taken(value: Expression) -> Question | None:
    """Return the question about a value, if there is one, which is answered from now on."""
    return _open.pop(value, None) if _open else None


def unanswered() -> list[Question]:
    """Return the questions that nothing has answered, and forget them."""
    found = list(_open.values())
    _open.clear()
    return found
