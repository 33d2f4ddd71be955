"""The programs, and what each says."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

from typedbatch.errors import TypedBatchError

PROGRAMS: list[Any] = [
    import_module(f"{__package__}.{found.name}")
    for found in pkgutil.iter_modules([str(Path(__file__).parent)])
    if found.name.startswith("bug_")
]


def outcome(program: Any) -> str:
    """The error of the program with typedbatch, or what it gives, if that is right; empty if nothing catches it."""
    if not program.CAUGHT_BY:
        return ""
    try:
        given = program.typed()
    except (TypedBatchError, TypeError) as error:
        return summary(error)
    return f"{given}"


def summary(error: Exception) -> str:
    """The class and the problem of an error, in a line."""
    problems = getattr(error, "problems", None)
    if problems:
        first = problems[0]
        wanted = f", expected {first.expected}" if first.expected and not first.code.startswith("TB402") else ""
        return f"{first.code}: " + f"{first.path}: {first.got}{wanted}".removeprefix(": ")
    return f"{type(error).__name__}: {error}"
