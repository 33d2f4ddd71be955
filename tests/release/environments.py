"""Pythons that are here, and environments that have the wheel and nothing of this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.release.report import run

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


def find_pythons(given: Iterable[Path] = ()) -> dict[str, Path]:
    """A Python of each version, by its name: those given, this one, those in PATH and those of pyenv."""
    found: dict[str, Path] = {}
    for python in [*given, Path(sys.executable), *_in_path(), *_of_pyenv()]:
        version = version_of(python)
        if version is not None:
            found.setdefault(version, python)
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


def _in_path() -> Iterator[Path]:
    for version in SUPPORTED:
        found = shutil.which(f"python{version}")
        if found is not None:
            yield Path(found)


def _of_pyenv() -> Iterator[Path]:
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for version in SUPPORTED:
        yield from sorted(folder.glob(f"{version}.*/bin/python"))


def version_of(python: Path) -> str | None:
    """Such as "3.12"; None for what is there but does not run, as a shim of pyenv's for a version that is off."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def install(self, *what: str | Path, constraints: Path | None = None) -> None:
        """Install by pip, with wheels alone for whatever is not a file."""
        limits = [] if constraints is None else ["--constraint", constraints, "--only-binary", ":all:"]
        run(self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *limits, *what)

    def call(self, *arguments: str | Path) -> str:
        """Return the output of Python, which sees neither the current folder nor the packages of the user."""
        return run(self.python, "-I", *arguments, cwd=self.folder)


def make_environment(python: Path, folder: Path) -> Environment:
    """An empty one."""
    run(python, "-m", "venv", folder)
    return Environment(folder)
