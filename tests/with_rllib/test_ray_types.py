"""Reports of type checkers on calls of functions and methods in other processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.typing.caches import stored

PROGRAM = Path(__file__).parent / "programs" / "actors.py"


def test_mypy_keeps_the_types_of_methods_and_functions(kept: Path, tmp_path: Path) -> None:
    with stored(kept, "ray", tmp_path / "cache") as cache:
        options = ["--strict", "--config-file=", "--no-error-summary", f"--cache-dir={cache}"]
        compare([sys.executable, "-m", "mypy", *options], tmp_path)


def test_pyright_keeps_the_types_of_methods_and_functions(tmp_path: Path) -> None:
    compare([sys.executable, "-m", "pyright", "--pythonpath", sys.executable], tmp_path)


def compare(command: list[str], tmp_path: Path) -> None:
    """Fail where a checker reports other lines of the program than those that are marked."""
    program = tmp_path / PROGRAM.name
    program.write_text(PROGRAM.read_text())
    done = subprocess.run([*command, program.name], cwd=tmp_path, capture_output=True, text=True, check=False)
    reported = {int(line) for line in re.findall(rf"{program.name}:(\d+).*error", done.stdout)}
    marked = {number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if "# wrong" in line}
    assert reported == marked, done.stdout + done.stderr
