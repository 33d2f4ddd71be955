"""Level of checking at boundaries: nothing, the structure, or the values too."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from typedbatch.errors import SettingError

Level = Literal["off", "structure", "values"]
"""Level of checking.

``"structure"`` checks fields, kinds, dtypes and dimensions; ``"values"`` also checks rules on values.
"""

_LEVELS: tuple[Level, ...] = get_args(Level)
_inside: ContextVar[Level | None] = ContextVar("typedbatch level", default=None)


@contextmanager
def checking(level: Level, /) -> Generator[None, None, None]:
    """Set the level of checking inside a ``with`` block, or inside a function that is decorated with it.

    ::

        with checking("values"):
            train(policy, buffer)

    The level applies to ``validate``, ``extend``, ``convert`` and functions under ``checked``, unless they have a level
    of their own; ``conforms`` always checks. Like every context variable it applies to the thread or task that entered
    the block, and to tasks started inside. A function that ``checked`` decorated under ``TYPEDBATCH_CHECK=off`` is
    never checked.

    Raises:
        SettingError: The level does not exist.
    """
    token = _inside.set(level_named(level, "checking()"))
    try:
        yield
    finally:
        _inside.reset(token)


def current_level() -> Level:
    """Return the level of the innermost ``checking`` block, else ``TYPEDBATCH_CHECK``, else ``"structure"``."""
    return _inside.get() or _default


def set_default(level: str, who: str) -> None:
    """Set the level outside of all ``checking`` blocks, in all threads; ``who`` names its source in an error.

    Raises:
        SettingError: The level does not exist.
    """
    global _default
    _default = level_named(level, who)


def level_named(name: object, who: str) -> Level:
    """Return the level called ``name``, in any case.

    Raises:
        SettingError: The level does not exist; the error calls the setting ``who``.
    """
    for level in _LEVELS:
        if isinstance(name, str) and level == name.lower():
            return level
    raise SettingError(f"{who} is {name!r}; the levels are {', '.join(map(repr, _LEVELS))}")


_default: Level = level_named(os.environ.get("TYPEDBATCH_CHECK") or "structure", "TYPEDBATCH_CHECK")
