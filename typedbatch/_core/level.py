"""Level of checking at boundaries: nothing, the structure, or the values too."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, get_args

from typedbatch._core.compiling import called_while_compiling
from typedbatch.errors import SettingError

Level = Literal["off", "structure", "values"]
"""Level of checking.

``"structure"`` checks fields, kinds, dtypes and dimensions; ``"values"`` also checks rules on values.
"""

_LEVELS: tuple[Level, ...] = get_args(Level)


class _Setting(NamedTuple):
    """A level, and what it reads of the values.

    Attributes:
        level: Level of checking.
        first: Number of rows whose values are read; None for all.
        batches: Number of batches whose values are read at each boundary; None for all.
        read: Number of batches that came to each boundary, if that is limited.
    """

    level: Level
    first: int | None
    batches: int | None
    read: Counter[str]


_inside: ContextVar[_Setting | None] = ContextVar("typedbatch level", default=None)


@contextmanager
def checking(level: Level, /, *, first: int | None = None, batches: int | None = None) -> Generator[None, None, None]:
    """Set the level of checking inside a ``with`` block, or inside a function that is decorated with it.

    ::

        with checking("values", first=256):
            train(policy, buffer)

    Args:
        level: Level of checking.
        first: At the level ``"values"``, the number of rows whose values are read; None for all. A rule that answers
            for a batch as a whole, as that weights sum to 1, needs all rows and is left out if there are more.
        batches: At the level ``"values"``, the number of batches whose values are read at each boundary, which is an
            argument or result of a function, or a line; the structure of later ones is still checked. None for all.

    The level applies to ``validate``, ``extend``, ``convert`` and functions under ``checked``, unless they have a level
    of their own; ``conforms`` always checks. Like every context variable it applies to the thread or task that entered
    the block, and to tasks started inside. A function that ``checked`` decorated under ``TYPEDBATCH_CHECK=off`` is
    never checked.

    Raises:
        SettingError: The level does not exist, or ``first`` or ``batches`` is below 1 or given for another level than
            ``"values"``.
    """
    named = level_named(level, "checking()")
    numbers = _required(level, "first", first), _required(level, "batches", batches)
    token = _inside.set(_Setting(named, *numbers, Counter()))
    try:
        yield
    finally:
        _inside.reset(token)


def current_level() -> Level:
    """Return the level of the innermost ``checking`` block, else ``TYPEDBATCH_CHECK``, else ``"structure"``."""
    return (_inside.get() or _default).level


called_while_compiling(current_level)  # because torch.compile cannot trace context variables


def rows_to_check() -> int | None:
    """Return the number of rows whose values are read at the level ``"values"``, or None for all."""
    return (_inside.get() or _default).first


def values_are_due(boundary: Callable[[], str]) -> bool:
    """Return whether the values of a batch are read, at the level ``"values"``; ``boundary`` names the place."""
    setting = _inside.get() or _default
    if setting.batches is None:
        return True
    place = boundary()
    setting.read[place] += 1
    return setting.read[place] <= setting.batches


def set_default(level: str, who: str) -> None:
    """Set the level outside of all ``checking`` blocks, in all threads; ``who`` names its source in an error.

    ``"values:first=256"`` sets the level ``"values"`` and the number of rows whose values are read, and
    ``"values:batches=3"`` the number of batches at each boundary.
    """
    global _default
    _default = _parsed(level, who)


def default_level() -> str:
    """Return the level outside of all ``checking`` blocks, as :func:`set_default` takes it."""
    named = [f"{key}={value}" for key in ("first", "batches") if (value := getattr(_default, key)) is not None]
    return ":".join([_default.level, *named])


def _parsed(text: object, who: str) -> _Setting:
    name, *options = text.split(":") if isinstance(text, str) else (text,)
    level = level_named(name if all("=" in option for option in options) else text, who)
    found: dict[str, int | None] = {}
    for option in options:
        key, _, number = option.partition("=")
        if key not in ("first", "batches") or not number.isdecimal():
            raise SettingError(
                f"{who} is {text!r}; the number of rows or batches must be a whole number, as in 'values:first=256' or "
                "'values:batches=3'"
            )
        found[key] = _required(level, key, int(number))
    return _Setting(level, found.get("first"), found.get("batches"), Counter())


def _required(level: object, key: str, number: Any) -> int | None:
    """Return the number of rows or batches."""
    if number is None:
        return None
    what = "rows" if key == "first" else "batches"
    if level_named(level, "the level") != "values":
        raise SettingError(f"{key}= is for the level 'values', which reads {what}; the level is {level!r}")
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise SettingError(f"{key}= must be a number of {what} from 1, got {number!r}")
    return number


def level_named(name: object, who: str) -> Level:
    """Return the level called ``name``, in any case."""
    for level in _LEVELS:
        if isinstance(name, str) and level == name.lower():
            return level
    raise SettingError(f"{who} is {name!r}; the levels are {', '.join(map(repr, _LEVELS))}")


_default: _Setting = _parsed(os.environ.get("TYPEDBATCH_CHECK") or "structure", "TYPEDBATCH_CHECK")
