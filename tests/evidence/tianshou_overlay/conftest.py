"""Fixtures of the tests of the overlay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidence.tianshou_overlay import environments


@pytest.fixture(scope="session")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The interpreters of an environment with the overlay, and of one without."""
    folder = tmp_path_factory.mktemp("environments")
    return {name: environments.make(folder / name, overlay=name == "with") for name in ("without", "with")}
