"""``python -m tests.evidence.migrations.ci FOLDER [NAME ...]``: check the moved programs as CI does, with times.

For each program, ``typedbatch check`` runs with a mistake in it, and must report it in its place as text, for
annotations of pull requests, as SARIF and as a hook of pre-commit. Then the times of the first run and of one with a
cache are measured, beside those of mypy without the plugin.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.evidence.migrations.__main__ import PROGRAMS, edits_of, planted, program_of, reports, unpacked
from tests.evidence.migrations.edits import by_file

MISTAKE = "a misspelt name"
ROOT = Path(__file__).parents[3]
COLUMNS = (
    "program", "lines", "`typedbatch check`", "`--mypy`, cold", "warm", "mypy alone, cold", "warm", "reported by",
)  # fmt: skip
PLAIN = "[mypy]\nignore_missing_imports = True\ncheck_untyped_defs = True\n"


def row(name: str, folder: Path) -> list[str] | None:
    """Return the row of a program, or None without its checkout."""
    paths = [path for path in by_file(edits_of(name)) if path.endswith(".py")]
    with tempfile.TemporaryDirectory() as place:
        roots = unpacked(name, folder, Path(place))
        if roots is None:
            return None
        root = roots[1]
        size = sum(len(path.read_bytes().splitlines()) for path in root.rglob("*.py"))
        known = reports(root, paths)
        with planted(root, paths, *program_of(name).MISTAKES[MISTAKE][1]) as wrong:
            found = reporters(root, wrong.relative_to(root).as_posix())
            by_mypy = [] if found or reports(root, paths) == known else ["mypy with the plugin"]
        caches = [f"--cache-dir={Path(place, which)}" for which in ("of the command", "of mypy")]
        Path(place, "mypy.ini").write_text(PLAIN, encoding="utf-8")
        with_mypy = ["typedbatch.cli", "check", "--mypy", caches[0], *paths]
        alone = ["mypy", "--config-file", str(Path(place, "mypy.ini")), caches[1], *paths]
        commands = [["typedbatch.cli", "check", "."], with_mypy, with_mypy, alone, alone]
        seconds = [_seconds(command, root) for command in commands]
    return [name, f"{size:,}", *(f"{one:.1f} s" for one in seconds), ", ".join(found or by_mypy)]


def reporters(root: Path, wrong: str) -> list[str]:
    """Return the formats, and the hook, that report a mistake in the file that has it."""
    line = re.search(rf"^{re.escape(wrong)}:(\d+):\d+: error: .*\[batch-field\]$", _said("text", root), re.MULTILINE)
    if line is None:
        return []
    found = ["text"]
    if re.search(rf"^::error file={re.escape(wrong)},line={line[1]},", _said("github", root), re.MULTILINE):
        found.append("github")
    places = [place["physicalLocation"] for place in _sarif_locations(_said("sarif", root))]
    if any(p["artifactLocation"]["uri"] == wrong and p["region"]["startLine"] == int(line[1]) for p in places):
        found.append("sarif")
    if shutil.which("pre-commit") and f"{wrong}:{line[1]}:" in _hook(root):
        found.append("pre-commit")
    return found


def _said(output: str, root: Path) -> str:
    command = [sys.executable, "-m", "typedbatch.cli", "check", "--format", output, "."]
    return subprocess.run(command, cwd=root, capture_output=True, text=True).stdout


def _sarif_locations(text: str) -> list[dict[str, dict[str, dict[str, object]]]]:
    return [place for run in json.loads(text)["runs"] for result in run["results"] for place in result["locations"]]


def _hook(root: Path) -> str:
    """Return what pre-commit prints of the hook of this repository, on the program as a repository of its own."""
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    command = ["pre-commit", "try-repo", str(ROOT), "typedbatch-check", "--all-files"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True).stdout


def _seconds(command: list[str], root: Path) -> float:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *command], cwd=root, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return seconds


def main() -> None:
    """Print the table of the programs whose checkouts are there."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.migrations.ci", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=[*PROGRAMS])
    given = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for name in given.names:
        cells = row(name, given.folder)
        if cells is not None:
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
