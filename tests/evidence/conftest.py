"""Evidence for what the docs claim: other tools and other programs are measured. ``make test`` leaves it out."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--quick") else None
