"""``python -m typedbatch.mypy``: how the plugin is switched on, and with ``--check`` whether it is."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

LINES = """\
# mypy.ini, .mypy.ini or setup.cfg
[mypy]
plugins = typedbatch.mypy

# or pyproject.toml
[tool.mypy]
plugins = ["typedbatch.mypy"]
"""
PROOF = """\
from typing import Literal
from typedbatch import mypy_plugin_active
_: Literal[True] = mypy_plugin_active()
"""


def main(arguments: list[str] | None = None) -> int:
    """Print the lines, or check them: 0 when the plugin is on, 1 when it is off, 2 when mypy cannot run."""
    if find_spec("mypy") is None:
        print("python -m typedbatch.mypy needs mypy; pip install mypy", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(prog="python -m typedbatch.mypy", description=__doc__)
    parser.add_argument("--check", action="store_true", help="run mypy with the settings of this folder, and see")
    parser.add_argument("--config-file", metavar="FILE", help="with --check: the settings to use, as for mypy")
    options = parser.parse_args(arguments)
    if not options.check:
        print(LINES, end="")
        return 0
    return _check(options.config_file)


def _check(config: str | None) -> int:
    chosen = [f"--config-file={config}"] if config is not None else []
    with TemporaryDirectory() as folder:
        # not --command, which mypy refuses where the settings say which files to check
        proof = Path(folder) / "typedbatch_proof.py"
        proof.write_text(PROOF, encoding="utf-8")
        command = [sys.executable, "-P", "-m", "typedbatch.mypy.command", os.getcwd(), "[]"]
        command += [*chosen, "--no-pretty", "--no-color-output", "--error-summary", str(proof)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    where = config or "the settings that mypy finds in this folder"
    if done.returncode == 0 and "\nSuccess: " in f"\n{done.stdout}":
        print(f"typedbatch.mypy is on in {where}")
        return 0
    if done.returncode == 1 and "Literal[False]" in done.stdout:
        print(f"typedbatch.mypy is off in {where}. Add the line of the file that you have:\n\n{LINES}", end="")
        return 1
    print(f"mypy could not be run with {where}:\n{done.stdout}{done.stderr}", end="", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
