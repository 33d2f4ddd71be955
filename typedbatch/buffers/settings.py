"""Settings: the numbers that a buffer is made with, or asked for, within their bounds."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from typedbatch._tree.leaves import describe
from typedbatch._tree.rows import at_least
from typedbatch.errors import SettingError, SizeError

MOST_SLOTS: Final = 2**48
"""More than any disk holds, and few enough for every product with a row's size to be computed."""
_MOST_RINGS: Final = 2**20
_MOST_FRAMES: Final = 1000
"""What ``stack_num`` may be in a buffer of any size."""


def count_of(value: Any, name: str, least: int = 0, most: int = MOST_SLOTS) -> int:
    """Return a whole number of rows, rings or steps.

    Raises:
        SizeError: it is something else, or out of bounds.
    """
    number = at_least(least, value, name)
    if number > most:
        raise SizeError(f"{name} is at most {most:,}, got {value!r}")
    return number


def ring_count(value: Any, name: str) -> int:
    """Return a number of rings.

    Raises:
        SizeError: it is none.
    """
    return count_of(value, name, 1, _MOST_RINGS)


def frame_count(value: Any, size: int) -> int:
    """Return a number of frames for a buffer of so many slots.

    Raises:
        SizeError: it is none, or there could never be so many.
    """
    return count_of(value, "stack_num", 1, max(size, _MOST_FRAMES))


def number_of(value: Any, name: str, least: float = 0, most: float = math.inf) -> float:
    """Return a finite number.

    Raises:
        SettingError: it is something else, or out of bounds.
    """
    bounds = f"from {least} to {most}" if math.isfinite(most) else f"{least} or more, and finite"
    try:
        number = float(value) if hasattr(type(value), "__float__") else math.nan
    except (TypeError, ValueError, OverflowError, RuntimeError):  # an array of several numbers, a tensor of them
        number = math.nan
    if not (math.isfinite(number) and least <= number <= most):
        raise SettingError(f"{name} is a number, {bounds}, got {_shown(value)}")
    return number


def generator(seed: Any) -> np.random.Generator:
    """Return a generator of random numbers.

    Raises:
        SettingError: the seed is none.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise SettingError(f"random_seed is None, or a whole number that is 0 or more, got {seed!r}") from error


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float, str, complex, type(None))) else describe(value)
