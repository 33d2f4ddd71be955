"""How much is checked at boundaries: nothing, the structure, or the values too."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from typedbatch.errors import SettingError

Level = Literal["off", "structure", "values"]
"""``"structure"``: fields, kinds, dtypes and dimensions; ``"values"``: that, and rules on values."""

_LEVELS: tuple[Level, ...] = get_args(Level)
_inside: ContextVar[Level | None] = ContextVar("typedbatch level", default=None)


@contextmanager
def checking(level: Level, /) -> Generator[None, None, None]:
    """Check more, or less, inside the ``with`` block, or inside a function that is decorated with it.

    ::

        with checking("values"):
            train(policy, buffer)

    It goes for ``validate``, ``extend``, ``convert`` and functions under ``checked``, unless they have a level of their
    own; ``conforms`` is a question and always answered. Like every context variable it holds for the thread or task
    that entered the block, and for tasks started inside. A function that ``checked`` decorated under
    ``TYPEDBATCH_CHECK=off`` was left as it was, and stays so.

    Raises:
        SettingError: there is no such level.
    """
    token = _inside.set(level_named(level, "checking()"))
    try:
        yield
    finally:
        _inside.reset(token)


def current_level() -> Level:
    """The level of the innermost ``checking`` block, else ``TYPEDBATCH_CHECK``, else ``"structure"``."""
    return _inside.get() or _default


def set_default(level: str, who: str) -> None:
    """The level outside of any ``checking`` block, in all threads; ``who`` asked for it.

    Raises:
        SettingError: there is no such level.
    """
    global _default
    _default = level_named(level, who)


def level_named(name: object, who: str) -> Level:
    """The level of that name; case does not matter.

    Raises:
        SettingError: there is none.
    """
    for level in _LEVELS:
        if isinstance(name, str) and level == name.lower():
            return level
    raise SettingError(f"{who} is {name!r}; the levels are {', '.join(map(repr, _LEVELS))}")


_default: Level = level_named(os.environ.get("TYPEDBATCH_CHECK") or "structure", "TYPEDBATCH_CHECK")
