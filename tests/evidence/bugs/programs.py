"""The programs, and the error of each."""

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
    """Return the error of the program with typedbatch, or that it is right; empty if nothing catches it."""
    if not program.CAUGHT_BY:
        return ""
    try:
        program.typed()
    except (TypedBatchError, TypeError) as error:
        return f"`{code_of(error)}`"
    return "none, as it is right"


def code_of(error: Exception) -> str:
    """Return the code of the first problem of an error, or its class if it has none."""
    problems = getattr(error, "problems", None)
    return problems[0].code if problems else type(error).__name__
