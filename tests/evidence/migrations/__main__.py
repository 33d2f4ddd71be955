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
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tests.evidence.migrations.edits import counts, edited

PAGES = Path(__file__).parents[3] / "docs" / "migrations"
PROGRAMS = ("cleanrl_ppo",)
TIMES = 3
Mistakes = dict[str, tuple[tuple[str, str], tuple[str, str]]]
SETTINGS = "[mypy]\nplugins = typedbatch.mypy\ncheck_untyped_defs = True\nignore_missing_imports = True\n"


def show(name: str, folder: Path) -> bool:
    """Print what the move of a program changes, and return False if it changes its numbers."""
    program: Any = import_module(f"tests.evidence.migrations.{name}")
    checkout = folder / program.REPOSITORY.split("/")[1]
    if not checkout.is_dir():
        print(f"{name}: no checkout; git clone https://github.com/{program.REPOSITORY} {checkout}")
        print(f"  then git -C {checkout} checkout {program.COMMIT}")
        return True
    git = ["git", "-C", str(checkout), "show", f"{program.COMMIT}:{program.PATH}"]
    shown = subprocess.run(git, capture_output=True, text=True)
    if shown.returncode:
        print(f"{name}: the checkout lacks the commit {program.COMMIT}; git -C {checkout} fetch --all")
        return True
    edits = (PAGES / f"{name}.edits").read_text(encoding="utf-8")
    texts = shown.stdout, edited(shown.stdout, edits)
    added, deleted = counts(edits)
    with tempfile.TemporaryDirectory() as folder_of_runs:
        place = Path(folder_of_runs)
        print(f"{name}: {program.REPOSITORY} at {program.COMMIT[:8]}, {program.PATH}: +{added} / -{deleted} lines")
        if not _show_numbers(name, texts, place):
            return False
        _show_mistakes(name, texts, program.MISTAKES, place)
    return True


def _show_numbers(name: str, texts: tuple[str, str], place: Path) -> bool:
    """Print whether both programs have the same numbers, and in which time, and return whether they have."""
    runs = [_run(name, text, place) for text in texts]
    is_same = "error" not in runs[0] and runs[0]["numbers"] == runs[1].get("numbers")
    errors = [f"; {one['error']}" for one in runs if "error" in one]
    print(f"  numbers: {'the same' if is_same else 'DIFFERENT'}{''.join(errors)}")
    if is_same:
        pairs = [[_run(name, text, place)["seconds"] for text in texts] for _ in range(TIMES)]
        print(f"  CPU: {min(after for _, after in pairs) / min(before for before, _ in pairs):.2f} of what it took")
    return is_same


def _show_mistakes(name: str, texts: tuple[str, str], mistakes: Mistakes, place: Path) -> None:
    """Print what mypy and a run say of each mistake, before and after the move."""
    known = [_reports(text, place) for text in texts]
    for mistake, changes in mistakes.items():
        print(f"  {mistake}")
        for when, text, (old, new), base in zip(("before", "after"), texts, changes, known, strict=True):
            if old not in text:
                raise ValueError(f"{old!r} is not in the program")
            wrong = text.replace(old, new, 1)
            by_types = [*sorted(_reports(wrong, place) - base), "mypy says nothing"][0]
            print(f"    {when + ':':7} {by_types}; {_run(name, wrong, place).get('error', 'runs to its end')}")


def _run(name: str, text: str, place: Path) -> dict[str, Any]:
    """Return the numbers of a program and the CPU time of its run, or its last error, from a process of its own."""
    path = place / "program.py"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-m", "tests.evidence.migrations", "--here", str(path), name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        last = max(number for number, line in enumerate(lines) if line and not line[0].isspace())
        detail = [line.strip() for line in lines[last + 1 :] if line.strip().startswith("batch")][-1:]
        return {"error": " ".join([lines[last], *detail])[:200]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _reports(text: str, place: Path) -> set[str]:
    """Return what mypy reports of a program, without the lines."""
    (place / "program.py").write_text(text, encoding="utf-8")
    (place / "mypy.ini").write_text(SETTINGS, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "program.py"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    errors = [line.split(": error: ", 1)[1] for line in done.stdout.splitlines() if ": error: " in line]
    return {f"mypy: {error}" for error in errors}


def run_here(name: str, program: str) -> None:
    """Print the numbers of a program, and nothing that it prints itself."""
    torch.set_num_threads(1)
    with redirect_stdout(sys.stderr):
        start = time.process_time()
        found = import_module(f"tests.evidence.migrations.{name}").numbers(Path(program))
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
        run_here(given.names[0], str(given.folder))
        return
    sys.exit(sum(not show(name, given.folder) for name in given.names))


if __name__ == "__main__":
    main()
