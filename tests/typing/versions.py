"""The mypys that tests are run with: each change is checked with the newest, a release with all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from tests.typing.checkers import MYPYS, CheckerMissingError

OLDER = MYPYS[:-1]
"""Marks for older versions, which a release runs: a plugin that works with the newest mypy rarely fails with them."""


def each(names: Iterable[str]) -> list[object]:
    """Return parameters for these checkers; all mypys but the newest are left to a release."""
    return [pytest.param(name, marks=pytest.mark.release) if name in OLDER else name for name in names]


@contextmanager
def installed(name: str) -> Iterator[None]:
    """Skip the test if this is an older mypy that is not installed; fail in CI, where all are."""
    try:
        yield
    except CheckerMissingError as error:
        if name.startswith("mypy-") and not os.environ.get("CI"):
            pytest.skip(str(error))
        raise
