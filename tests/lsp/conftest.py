"""An editor with a real server, on the newest mypy, and for a release on the oldest."""

from __future__ import annotations

import fcntl
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lsp.client import COLD, Editor

OLDEST = Path(sys.prefix) / "mypy" / "1.20.2" / "bin" / "python"
_PYTHONS = {"newest mypy": Path(sys.executable), "mypy 1.20": OLDEST}
_BASE = "import numpy as np\nimport torch\nimport typedbatch, typedbatch.posttraining, jaxtyping\n"


@pytest.fixture(scope="session", params=["newest mypy", pytest.param("mypy 1.20", marks=pytest.mark.release)])
def python(request: pytest.FixtureRequest) -> Path:
    """A Python with a mypy."""
    found = _PYTHONS[request.param]
    if not found.exists():
        pytest.skip(f"{request.param} is not installed; make check installs it")
    return found


@pytest.fixture(scope="session")
def warm(python: Path, kept: Path) -> Path:
    """A cache that stays between runs, as mypy needs most of its time for torch and numpy."""
    place = kept / f"lsp-{python.parents[1].name}"
    (place / "project").mkdir(parents=True, exist_ok=True)
    (place / "project" / "base.py").write_text(_BASE, "utf-8")
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        editor = Editor(place / "project", place / "cache", python)
        editor.open("base.py", patience=COLD)
        editor.stop()
    return place / "cache"


@pytest.fixture(scope="module")
def cache(warm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the cache, which tests may write to."""
    return shutil.copytree(warm, tmp_path_factory.mktemp("cache") / "lsp")


@pytest.fixture(scope="module")
def editor(python: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """An editor with a folder of its own, which the tests of a module share, each with files of its own."""
    editor = Editor(tmp_path_factory.mktemp("project").resolve(), cache, python)
    yield editor
    editor.kill()
