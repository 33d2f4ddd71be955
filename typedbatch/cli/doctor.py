"""Facts for a bug report: versions, settings, and whether mypy runs with the plugin."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata

from typedbatch._level import current_level

LIBRARIES = ("numpy", "torch", "typing-extensions", "mypy", "jaxtyping", "pydantic")


def examine() -> dict[str, str]:
    """Return versions, the level of checking, and whether the mypy plugin is on in the current folder, by name."""
    system = f"{platform.system()} {platform.machine()}"
    return {
        "typedbatch": _version("typedbatch"),
        "Python": f"{platform.python_version()} ({platform.python_implementation()}), {system}",
        **{name: _version(name) for name in LIBRARIES},
        "checking": current_level(),
        "mypy plugin": _plugin(),
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _plugin() -> str:
    if _version("mypy") == "not installed":
        return "mypy is not installed"
    command = [sys.executable, "-m", "typedbatch.mypy", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return "on, in the settings that mypy finds in this folder"
    if done.returncode == 1:
        return "off in this folder; python -m typedbatch.mypy prints the line to add"
    output = (done.stderr or done.stdout).strip().splitlines()
    return f"mypy could not be run: {output[-1] if output else 'it printed no reason'}"
