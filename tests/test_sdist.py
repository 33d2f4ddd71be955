"""The source distribution has all that its Makefile and its tests need, and passes the first steps of ``make test``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import typedbatch

pytestmark = pytest.mark.slow
ROOT = Path(typedbatch.__file__).parents[1]


def run(*command: str, cwd: Path, **settings: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | settings
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder, with this environment in the place of one of its own."""
    place = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(place), cwd=ROOT)
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(place, filter="data")
    folder = place / archive.name.removesuffix(".tar.gz")
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def test_it_has_every_file_of_the_repository(unpacked: Path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    tracked = run("git", "ls-files", "-z", cwd=ROOT).split("\0")[:-1]
    assert len(tracked) > 400
    assert [name for name in tracked if (ROOT / name).exists() and not (unpacked / name).exists()] == []


def test_it_has_what_the_makefile_names(unpacked: Path):
    named = re.findall(r"(?:\.ci|docs|tests)/[\w./-]*\w", (unpacked / "Makefile").read_text(encoding="utf-8"))
    assert {".ci/constraints.txt", ".ci/lowest.txt", "tests/typing/older_mypys.txt"} <= set(named)
    assert [name for name in named if not (unpacked / name).exists()] == []


@pytest.mark.release  # the checkers read all of torch where they have no cache
def test_it_passes_the_first_steps_of_make_test(unpacked: Path, tmp_path: Path):
    if (ROOT / ".mypy_cache").exists():  # of `make types`, where all but the places of the files is the same
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / "cache")
    installed = ["--old-file", f"{sys.prefix}/.dev", f"VENV={sys.prefix}"]  # so that nothing is set up anew
    run("make", *installed, "lint", "types", cwd=unpacked, MYPY_CACHE_DIR=str(tmp_path / "cache"))
    said = run(sys.executable, "-c", "import typedbatch; print(typedbatch.__file__)", cwd=unpacked)
    assert Path(said.strip()) == unpacked / "typedbatch" / "__init__.py"
    said = run(sys.executable, "-m", "pytest", "-n0", "--quick", "tests/ops/test_joining.py", cwd=unpacked)
    assert re.search(r"\d passed", said)
