"""Checks of the numbers that buffers take as settings and arguments."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from typedbatch._tree.kinds import describe
from typedbatch._tree.lengths import require_at_least
from typedbatch.errors import SettingError, SizeError

MOST_SLOTS: Final = 2**48
"""Maximum number of slots: more than any disk holds, and low enough that sizes in bytes do not overflow."""
_MOST_RINGS: Final = 2**20
_MOST_FRAMES: Final = 1000
"""Maximum ``stack_num`` of a buffer with fewer slots than that."""


def count_of(value: Any, name: str, least: int = 0, most: int = MOST_SLOTS) -> int:
    """Return a whole number of rows, rings or steps.

    Raises:
        SizeError: ``value`` is not a whole number, or out of bounds.
    """
    number = require_at_least(least, value, name)
    if number > most:
        raise SizeError(f"{name} is at most {most:,}, got {value!r}")
    return number


def ring_count(value: Any, name: str) -> int:
    """Return a number of rings.

    Raises:
        SizeError: ``value`` is not a whole number from 1 to 2**20.
    """
    return count_of(value, name, 1, _MOST_RINGS)


def frame_count(value: Any, size: int) -> int:
    """Return a number of frames for a buffer of ``size`` slots.

    Raises:
        SizeError: ``value`` is not a whole number, is below 1, or is above both 1,000 and ``size``.
    """
    return count_of(value, "stack_num", 1, max(size, _MOST_FRAMES))


def number_of(value: Any, name: str, least: float = 0, most: float = math.inf) -> float:
    """Return a finite number.

    Raises:
        SettingError: ``value`` is not a finite number, or out of bounds.
    """
    try:
        number = float(value) if hasattr(type(value), "__float__") else math.nan
    except (TypeError, ValueError, OverflowError, RuntimeError):  # e.g. an array or a tensor of several numbers
        number = math.nan
    if not (math.isfinite(number) and least <= number <= most):
        bounds = f"from {least} to {most}" if math.isfinite(most) else f"{least} or more, and finite"
        shown = repr(value) if isinstance(value, (int, float, str, complex, type(None))) else describe(value)
        raise SettingError(f"{name} is a number, {bounds}, got {shown}")
    return number


def generator(seed: Any) -> np.random.Generator:
    """Return a random number generator.

    Raises:
        SettingError: ``seed`` is not a valid seed.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise SettingError(f"random_seed must be None or a whole number of at least 0, got {seed!r}") from error
