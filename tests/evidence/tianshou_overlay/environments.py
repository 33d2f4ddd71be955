"""Two environments that have the packages of this one: one with the overlay installed, and one without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

from tests.typing.checkers import CHECKERS, Checker

OVERLAY = Path(__file__).parents[3] / "stubs" / "tianshou-stubs"
"""The distribution; the package in it has the same name."""

# As in code that was written before the overlay: no strict mode, which says much about Tianshou's own bare `dict`.
_SETTINGS = {
    "mypy": {"mypy.ini": "[mypy]\ncheck_untyped_defs = True\nwarn_unreachable = True\n"},
    "pyright": {"pyrightconfig.json": '{"typeCheckingMode": "standard", "include": ["."]}'},
}
NAMES = ("mypy", "pyright", "pyrefly", "ty", "zuban")


def make(folder: Path, *, overlay: bool) -> Path:
    """An environment in ``folder``, and the interpreter in it.

    The path in the ``.pth`` file is a plain one, because some checkers read these files without executing them.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages(folder) / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    if overlay:
        shutil.copytree(OVERLAY / OVERLAY.name, packages(folder) / OVERLAY.name)
    return folder / "bin" / "python"


def packages(folder: Path) -> Path:
    """Where the packages of an environment are."""
    paths = {"base": str(folder), "platbase": str(folder)}
    return Path(sysconfig.get_path("purelib", vars=paths))


def checker(name: str, python: Path) -> Checker:
    """A checker that is run as usual, and sees the packages of ``python``."""
    usual = CHECKERS[name]
    command = usual.command.replace("{python}", str(python)).replace(" --strict", "").replace(" --preset=strict", "")
    return replace(usual, command=command, settings=_SETTINGS.get(name, usual.settings))
