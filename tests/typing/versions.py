"""The mypys that tests are run with: each change is checked with the oldest and the newest, a release with all."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.typing.checkers import MYPYS

BETWEEN = MYPYS[1:-1]
"""What works with the oldest and with the newest seldom fails with these."""


def each(names: Iterable[str]) -> list[object]:
    """Return parameters for these checkers; the mypys between the oldest and the newest are left to a release."""
    return [pytest.param(name, marks=pytest.mark.release) if name in BETWEEN else name for name in names]
