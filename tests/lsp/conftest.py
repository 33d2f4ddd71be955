"""An editor with a real server, on the newest mypy, and for a release on the oldest."""

from __future__ import annotations

import fcntl
import functools
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lsp.client import COLD, Editor

OLDEST = Path(sys.prefix) / "mypy" / "1.20.2" / "bin" / "python"
_PYTHONS = {"newest mypy": Path(sys.executable), "mypy 1.20": OLDEST}
_BASE = "import numpy as np\nimport typedbatch, typedbatch.posttraining, jaxtyping\n"


@pytest.fixture(scope="session", params=["newest mypy", pytest.param("mypy 1.20", marks=pytest.mark.release)])
def python(request: pytest.FixtureRequest) -> Path:
    """A Python with a mypy."""
    found = _PYTHONS[request.param]
    if not found.exists():
        pytest.skip(f"{request.param} is not installed; make check installs it")
    return found


@pytest.fixture(scope="module")
def packages(request: pytest.FixtureRequest, without_torch: Path) -> Path:
    """The Python whose packages the programs of a module import: with torch, if the module sets ``NEEDS_TORCH``."""
    return Path(sys.executable) if getattr(request.module, "NEEDS_TORCH", False) else without_torch


@pytest.fixture(scope="session")
def warm(python: Path, kept: Path) -> Callable[[Path], Path]:
    """Caches that stay between runs, one for each Python of packages."""

    @functools.cache
    def warm(packages: Path) -> Path:
        place = kept / f"lsp-{python.parents[1].name}-{packages.parents[1].name}"
        (place / "project").mkdir(parents=True, exist_ok=True)
        # The settings are those of a project without any: those in a folder above would make it a part of that one.
        (place / "project" / "mypy.ini").write_text("[mypy]\n", "utf-8")
        torch = "" if packages.is_relative_to(kept) else "import torch\n"
        (place / "project" / "base.py").write_text(torch + _BASE, "utf-8")
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            editor = Editor(place / "project", place / "cache", packages, python)
            editor.open("base.py", patience=COLD)
            editor.stop()
        return place / "cache"

    return warm


@pytest.fixture(scope="module")
def cache(warm: Callable[[Path], Path], packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the cache, which tests may write to."""
    return shutil.copytree(warm(packages), tmp_path_factory.mktemp("cache") / "lsp")


@pytest.fixture(scope="module")
def editor(python: Path, packages: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """An editor with a folder of its own, which the tests of a module share, each with files of its own."""
    editor = Editor(tmp_path_factory.mktemp("project").resolve(), cache, packages, python)
    yield editor
    editor.kill()
