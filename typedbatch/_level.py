"""Level of checking at boundaries: nothing, the structure, or the values too."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, get_args

from typedbatch.errors import SettingError

Level = Literal["off", "structure", "values"]
"""Level of checking.

``"structure"`` checks fields, kinds, dtypes and dimensions; ``"values"`` also checks rules on values.
"""

_LEVELS: tuple[Level, ...] = get_args(Level)
_inside: ContextVar[tuple[Level, int | None] | None] = ContextVar("typedbatch level", default=None)


@contextmanager
def checking(level: Level, /, *, first: int | None = None) -> Generator[None, None, None]:
    """Set the level of checking inside a ``with`` block, or inside a function that is decorated with it.

    ::

        with checking("values", first=256):
            train(policy, buffer)

    Args:
        level: Level of checking.
        first: At the level ``"values"``, the number of rows whose values are read; None for all. A rule that answers
            for a batch as a whole, as that weights sum to 1, needs all rows and is left out if there are more.

    The level applies to ``validate``, ``extend``, ``convert`` and functions under ``checked``, unless they have a level
    of their own; ``conforms`` always checks. Like every context variable it applies to the thread or task that entered
    the block, and to tasks started inside. A function that ``checked`` decorated under ``TYPEDBATCH_CHECK=off`` is
    never checked.

    Raises:
        SettingError: The level does not exist, or ``first`` is below 1 or given for another level than ``"values"``.
    """
    token = _inside.set((level_named(level, "checking()"), _require_first(level, first)))
    try:
        yield
    finally:
        _inside.reset(token)


def current_level() -> Level:
    """Return the level of the innermost ``checking`` block, else ``TYPEDBATCH_CHECK``, else ``"structure"``."""
    return (_inside.get() or _default)[0]


def rows_to_check() -> int | None:
    """Return the number of rows whose values are read at the level ``"values"``, or None for all."""
    return (_inside.get() or _default)[1]


def set_default(level: str, who: str) -> None:
    """Set the level outside of all ``checking`` blocks, in all threads; ``who`` names its source in an error.

    ``"values:first=256"`` sets the level ``"values"`` and the number of rows whose values are read.

    Raises:
        SettingError: The level does not exist, or the number is not one.
    """
    global _default
    _default = _parsed(level, who)


def default_level() -> str:
    """Return the level outside of all ``checking`` blocks, as :func:`set_default` takes it."""
    level, first = _default
    return level if first is None else f"{level}:first={first}"


def _parsed(text: object, who: str) -> tuple[Level, int | None]:
    name, _, number = text.partition(":first=") if isinstance(text, str) else (text, "", "")
    if not number:
        return level_named(text, who), None
    level = level_named(name, who)
    if not number.isdecimal():
        raise SettingError(f"{who} is {text!r}; the number of rows must be a whole number, as in 'values:first=256'")
    return level, _require_first(level, int(number))


def _require_first(level: object, first: Any) -> int | None:
    if first is None:
        return None
    if level_named(level, "the level") != "values":
        raise SettingError(f"first= is for the level 'values', which reads rows; the level is {level!r}")
    if isinstance(first, bool) or not isinstance(first, int) or first < 1:
        raise SettingError(f"first= must be a number of rows from 1, got {first!r}")
    rows: int = first
    return rows


def level_named(name: object, who: str) -> Level:
    """Return the level called ``name``, in any case.

    Raises:
        SettingError: The level does not exist; the error calls the setting ``who``.
    """
    for level in _LEVELS:
        if isinstance(name, str) and level == name.lower():
            return level
    raise SettingError(f"{who} is {name!r}; the levels are {', '.join(map(repr, _LEVELS))}")


_default: tuple[Level, int | None] = _parsed(os.environ.get("TYPEDBATCH_CHECK") or "structure", "TYPEDBATCH_CHECK")
