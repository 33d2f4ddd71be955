"""``python -m tests.evidence.migrations FOLDER [NAME ...]``: apply, run and check the edits of ``docs/migrations``.

The checkouts are ``FOLDER/cleanrl`` and so on; nothing in them is changed. For each, the program runs before and after
the move: the numbers must be the same. Then each of some mistakes is made in both, for mypy and for a run. The exit
status is the number of programs whose numbers differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tests.evidence.migrations.edits import by_file, counts, edited

PAGES = Path(__file__).parents[3] / "docs" / "migrations"
PROGRAMS = ("cleanrl_ppo", "rsl_rl", "fsrl", "marllib", "openrlhf")
TIMES = 3
Mistakes = dict[str, tuple[tuple[str, str], tuple[str, str]]]
SETTINGS = """[mypy]
plugins = typedbatch.mypy
check_untyped_defs = True
ignore_missing_imports = True
follow_imports = silent
"""


def show(name: str, folder: Path) -> bool:
    """Print what the move of a program changes, and return False if it changes its numbers."""
    with tempfile.TemporaryDirectory() as place:
        roots = unpacked(name, folder, Path(place))
        if roots is None:
            return True
        edits = edits_of(name)
        added, deleted = counts(edits)
        print(f"{name}: {program_of(name).REPOSITORY}: +{added} / -{deleted} lines")
        if not _show_numbers(name, roots):
            return False
        _show_mistakes(name, roots, [path for path in by_file(edits) if path.endswith(".py")])
    return True


def program_of(name: str) -> Any:
    """Return the module about a program."""
    return import_module(f"tests.evidence.migrations.{name}")


def edits_of(name: str) -> str:
    """Return the edits of a program."""
    return (PAGES / f"{name}.edits").read_text(encoding="utf-8")


def unpacked(name: str, folder: Path, place: Path) -> tuple[Path, Path] | None:
    """Return folders with a program before and after the move, or None, with a line that says what is lacking."""
    program = program_of(name)
    checkout = folder / program.REPOSITORY.split("/")[1]
    if not checkout.is_dir():
        print(f"{name}: no checkout; git clone https://github.com/{program.REPOSITORY} {checkout}")
        print(f"  then git -C {checkout} checkout {program.COMMIT}")
        return None
    git = ["git", "-C", str(checkout), "archive", program.COMMIT]
    files = subprocess.run(git, capture_output=True)
    if files.returncode:
        print(f"{name}: the checkout lacks the commit {program.COMMIT}; git -C {checkout} fetch --all")
        return None
    roots = place / "before", place / "after"
    for root in roots:
        root.mkdir()
        subprocess.run(["tar", "-x", "-C", str(root)], input=files.stdout, check=True)
    apply(edits_of(name), roots[1])
    return roots


def apply(edits: str, root: Path) -> None:
    """Write files with their edits; a file that is not there is a new one."""
    for path, part in by_file(edits).items():
        place = root / path
        source = place.read_text(encoding="utf-8") if place.exists() else ""
        place.write_text(edited(source, part), encoding="utf-8")


def _show_numbers(name: str, roots: tuple[Path, Path]) -> bool:
    """Print whether both programs have the same numbers, and in which time, and return whether they have."""
    runs = [_run(name, root) for root in roots]
    is_same = "error" not in runs[0] and runs[0]["numbers"] == runs[1].get("numbers")
    errors = [f"; {one['error']}" for one in runs if "error" in one]
    print(f"  numbers: {'the same' if is_same else 'DIFFERENT'}{''.join(errors)}")
    if is_same:
        pairs = [[_run(name, root)["seconds"] for root in roots] for _ in range(TIMES)]
        print(f"  CPU: {min(after for _, after in pairs) / min(before for before, _ in pairs):.2f} of what it took")
    return is_same


def _show_mistakes(name: str, roots: tuple[Path, Path], paths: list[str]) -> None:
    """Print what mypy and a run say of each mistake, before and after the move."""
    mistakes: Mistakes = program_of(name).MISTAKES
    known = [reports(root, paths) for root in roots]
    for mistake, changes in mistakes.items():
        print(f"  {mistake}")
        for when, root, change, base in zip(("before", "after"), roots, changes, known, strict=True):
            with planted(root, paths, *change):
                by_types = [*sorted(reports(root, paths) - base), "mypy says nothing"][0]
                print(f"    {when + ':':7} {by_types}; {_run(name, root).get('error', 'runs to its end')}")


@contextmanager
def planted(root: Path, paths: list[str], old: str, new: str) -> Generator[Path]:
    """Write a mistake into the first of some files that has the text, and take it out afterwards."""
    texts = {root / path: (root / path).read_text(encoding="utf-8") for path in paths if (root / path).exists()}
    wrong = next((place for place, text in texts.items() if old in text), None)
    if wrong is None:
        raise ValueError(f"{old!r} is not in the program")
    wrong.write_text(texts[wrong].replace(old, new, 1), encoding="utf-8")
    try:
        yield wrong
    finally:
        wrong.write_text(texts[wrong], encoding="utf-8")


def _run(name: str, root: Path) -> dict[str, Any]:
    """Return the numbers of a program and the CPU time of its run, or its last error, from a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.evidence.migrations", "--here", str(root), name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        last = max((number for number, line in enumerate(lines) if line and not line[0].isspace()), default=-1)
        if last < 0:
            return {"error": f"it ends with status {done.returncode}"}
        detail = [line.strip() for line in lines[last + 1 :] if "expected" in line or " here, but " in line][-1:]
        return {"error": " ".join([lines[last], *detail])[:200]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def reports(root: Path, paths: list[str]) -> set[str]:
    """Return what mypy reports of the files that are edited, without the lines."""
    settings = root.parent / "mypy.ini"
    settings.write_text(SETTINGS, encoding="utf-8")
    existing = [path for path in paths if (root / path).exists()]
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), *existing]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"mypy did not run: {done.stdout}{done.stderr}")
    errors = [line.split(": error: ", 1)[1] for line in done.stdout.splitlines() if ": error: " in line]
    return {f"mypy: {error}" for error in errors}


def run_here(name: str, root: Path) -> None:
    """Print the numbers of a program, and nothing that it prints itself."""
    torch.set_num_threads(1)
    with redirect_stdout(sys.stderr):
        start = time.process_time()
        found = program_of(name).numbers(root)
        seconds = time.process_time() - start
    print(json.dumps({"numbers": found, "seconds": seconds}))


def main() -> None:
    """Show each program, or with ``--here`` run one."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.migrations", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=[*PROGRAMS])
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        run_here(given.names[0], given.folder)
        return
    sys.exit(sum(not show(name, given.folder) for name in given.names))


if __name__ == "__main__":
    main()
