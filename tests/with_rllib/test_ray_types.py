"""Reports of type checkers on calls of functions and methods in other processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "actors.py"
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"],
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable],
    ],
    ids=["mypy", "pyright"],
)
def test_methods_and_functions_keep_their_types(command: list[str], tmp_path: Path) -> None:
    program = tmp_path / PROGRAM.name
    program.write_text(PROGRAM.read_text())
    done = subprocess.run([*command, program.name], cwd=tmp_path, capture_output=True, text=True, check=False)
    reported = {int(line) for line in re.findall(rf"{program.name}:(\d+).*error", done.stdout)}
    marked = {number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if "# wrong" in line}
    assert reported == marked, done.stdout + done.stderr
