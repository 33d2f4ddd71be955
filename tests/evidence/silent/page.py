"""The tables of what finds these mistakes: ``make silent-docs``."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.evidence.silent.programs import SETS, audited, programs
from tests.pairs import wrong_of

WORDS = {
    "first": "Written by somebody who knew neither the audit nor its checks. Checks were added after it was seen.",
    "second": "Written likewise, with mistakes that are not in the first set. Checks were added after it was seen.",
    "third": "Written likewise. Checks were added after it was seen.",
    "fourth": (
        "Written likewise, from the issues of other projects. Of the 30 mistakes of both fields, 9 were found and 9 "
        "noted when they were first run (5 and 1 in reinforcement learning, 4 and 8 in post-training). A few checks "
        "were added afterwards."
    ),
}


SHARED = Path(__file__).parent / "shared"


class Row(NamedTuple):
    """A mistake, and what finds it."""

    number: str
    mistake: str
    found_by: str
    code: str
    message: str

    def line(self) -> str:
        """Return the row as a line of a table, without its message."""
        cells = (self.number, first_clause(self.mistake), self.found_by, f"`{self.code}`" if self.code else "")
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def mistake_of(path: Path) -> str:
    """Return the first line of the docstring of a wrong program."""
    docstring = ast.get_docstring(ast.parse(wrong_of(path.read_text("utf-8")))) or ""
    return docstring.partition("\n")[0]


def first_clause(mistake: str) -> str:
    """Return a sentence without its consequence, which follows "so" or a colon; what is short stays whole."""
    clause = re.match(r".{42,}?(?=, so |: )", mistake)
    return f"{clause[0]}." if clause else mistake


def rows(field: str, which: str) -> Iterator[Row]:
    """The rows of a set, each by running the wrong program."""
    paths = programs(field, which)
    checked = checker_errors(paths)
    for path in paths:
        report = audited(path, "wrong")
        usual = set() if report.findings else {note.text for note in audited(path, "right").notes}
        notes = [note for note in report.notes if note.text not in usual]
        finding = next(iter([*report.findings, *notes]), None)
        found_by = "audit" if report.findings else "note" if notes else "nothing"
        code, message = (finding.code, _steady(str(finding))) if finding is not None else ("", "")
        if path in checked:
            found_by, (code, message) = "plugin", checked[path]
        yield Row(path.name[:2], mistake_of(path), found_by, code, message)


def checker_errors(paths: list[Path]) -> dict[Path, tuple[str, str]]:
    """Return the first error of the plugin in each file that has one: its code, and the message."""
    with tempfile.TemporaryDirectory() as folder:
        names = {f"wrong_{number}.py": path for number, path in enumerate(paths)}
        for name, path in names.items():
            (Path(folder) / name).write_text(wrong_of(path.read_text("utf-8")), "utf-8")
        shutil.copytree(SHARED, Path(folder) / "tests" / "evidence" / "silent" / "shared")
        (Path(folder) / "mypy.ini").write_text("[mypy]\nplugins = typedbatch.mypy\nignore_missing_imports = True\n")
        command = [sys.executable, "-m", "mypy", "--no-error-summary", *names]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    out: dict[Path, tuple[str, str]] = {}
    for line in done.stdout.splitlines():
        found = re.match(r"(wrong_\d+\.py):\d+: error: (.*\[(batch-\w+)\])", line)
        if found:
            out.setdefault(names[found[1]], (found[3], found[2]))
    return out


def tables(field: str) -> str:
    """Return the tables of all sets of a field, as Markdown, with one whole message as an example."""
    parts = []
    for which in SETS:
        found = list(rows(field, which))
        if not found:
            continue
        certain = sum(row.found_by not in ("nothing", "note") for row in found)
        noted = sum(row.found_by == "note" for row in found)
        count = f"{certain} of {len(found)} are found, and {noted} more are notes"
        head = f"### The {which} set: {count}\n\n{WORDS[which]}\n\n"
        lines = "\n".join(row.line() for row in found)
        example = "" if parts else _example(found)
        parts.append(f"{head}| | mistake | found by | code |\n|---|---|---|---|\n{lines}\n{example}")
    return "\n".join(parts)


def _example(found: list[Row]) -> str:
    """Return a sentence with the first message of an audit."""
    row = next(row for row in found if row.found_by == "audit")
    return f"\nThe whole message of {row.number}, for example, is `{row.message}`.\n"


def _steady(text: str) -> str:
    """The text without numbers and names that differ from run to run."""
    text = re.sub(r"-?\d+\.\d+(e-?\d+)?", "0.1", re.sub(r"\w+\.py:\d+ ", "", text))
    return re.sub(r"'[0-9a-z]*\d[0-9a-f-]{8,}'", "'...'", text)
