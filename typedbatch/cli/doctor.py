"""What a report of a bug needs to say: versions, settings, and whether mypy runs with the plugin."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from typing import NamedTuple

from typedbatch._level import current_level

LIBRARIES = ("numpy", "torch", "typing-extensions", "mypy", "jaxtyping", "pydantic")


class Finding(NamedTuple):
    """One line of the report."""

    what: str
    found: str


def examine() -> list[Finding]:
    """The versions of what matters, the level of checking, and the state of the plugin in the current folder."""
    return [
        Finding("typedbatch", _version("typedbatch")),
        Finding("Python", f"{platform.python_version()} ({platform.python_implementation()}), {_system()}"),
        *(Finding(name, _version(name)) for name in LIBRARIES),
        Finding("checking", current_level()),
        Finding("mypy plugin", _plugin()),
    ]


def _system() -> str:
    return f"{platform.system()} {platform.machine()}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _plugin() -> str:
    if _version("mypy") == "not installed":
        return "there is no mypy here"
    command = [sys.executable, "-m", "typedbatch.mypy", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return "on, in the settings that mypy finds in this folder"
    if done.returncode == 1:
        return "off in this folder; python -m typedbatch.mypy prints the line to add"
    reason = (done.stderr or done.stdout).strip().splitlines()
    return f"mypy could not be run: {reason[-1] if reason else 'it says nothing'}"
