"""Findings of the overlay in planted errors and in Tianshou's own algorithms, for the README of the overlay.

``python -m tests.evidence.tianshou_overlay.found`` prints it as markdown.
"""

from __future__ import annotations

import re
import tempfile
import typing
from collections import Counter
from pathlib import Path

import tianshou
from tianshou.data import types

from tests.evidence.tianshou_overlay import environments
from tests.typing import checkers
from tests.typing.checkers import Diagnostic
from tests.typing.marks import prepare

CHECKERS = ("mypy", "pyright")
FOLDERS = ("modelfree", "imitation", "modelbased", "multiagent")
EXAMPLES = 3
SIDES = ("without", "with")

STAGE = "a field by dot that another of Tianshou's protocols declares, and the annotated one does not"
OTHER = "a field by dot that none of Tianshou's protocols declares"
MISFIT = "a value of another type than the one that is wanted"
KINDS = (STAGE, OTHER, MISFIT)


def declared_fields() -> set[str]:
    """The fields of all of Tianshou's protocols."""
    protocols = [value for value in vars(types).values() if getattr(value, "_is_protocol", False)]
    return {name for protocol in protocols for name in typing.get_type_hints(protocol)}


FIELDS = declared_fields()
ATTRIBUTE = re.compile(r'has no attribute "(\w+)"|Cannot (?:access|assign to) attribute "(\w+)"')


def kind(message: str) -> str:
    """Return the kind of problem that a report is about."""
    attribute = ATTRIBUTE.search(message)
    if attribute is None:
        return MISFIT
    return STAGE if (attribute[1] or attribute[2]) in FIELDS else OTHER


def algorithms() -> dict[str, str]:
    """Tianshou's own algorithms as programs: file name -> source."""
    root = Path(str(tianshou.__file__)).parent / "algorithm"
    paths = [root / "algorithm_base.py", *(path for folder in FOLDERS for path in sorted((root / folder).glob("*.py")))]
    return {path.name: path.read_text(encoding="utf-8") for path in paths if path.name != "__init__.py"}


def reports(name: str, work: Path, sources: dict[str, str]) -> dict[str, list[Diagnostic]]:
    """Return the reports of a checker on the sources, without and with the overlay, except for the canaries."""
    found = {}
    for side in SIDES:
        checker = environments.checker(name, work / side / "bin" / "python")
        said = checkers.run(checker, work / "programs", work / "cache" / name)
        found[side] = [
            report
            for report in said
            if report.file in sources and report.line <= len(sources[report.file].splitlines())
        ]
    return found


def new(found: dict[str, list[Diagnostic]]) -> list[Diagnostic]:
    """The reports that there are with the overlay alone; a line can have several."""
    before = Counter((report.file, report.line) for report in found["without"])
    more = []
    for report in found["with"]:
        place = report.file, report.line
        if before[place]:
            before[place] -= 1
        else:
            more.append(report)
    return more


def table(found: dict[str, dict[str, list[Diagnostic]]]) -> list[str]:
    """Reports in all, and those that the overlay adds, by kind."""
    lines = [f"| | {' | '.join(found)} |", f"|---|{'---:|' * len(found)}"]
    for side in SIDES:
        lines.append(f"| reports {side} the overlay | {' | '.join(str(len(f[side])) for f in found.values())} |")
    counts = [Counter(kind(report.message) for report in new(f)) for f in found.values()]
    for what in KINDS:
        if any(count[what] for count in counts):
            lines.append(f"| new: {what} | {' | '.join(str(count[what]) for count in counts)} |")
    return lines


def examples(found: list[Diagnostic]) -> list[str]:
    """Some of the new reports, of different kinds where there are."""
    chosen: dict[str, Diagnostic] = {}
    for report in sorted(found, key=lambda report: (report.file, report.line)):
        chosen.setdefault(kind(report.message), report)
    ordered = [chosen[what] for what in KINDS if what in chosen]
    return [f"{report.file}:{report.line}: {report.message.splitlines()[0]}" for report in ordered[:EXAMPLES]]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        for side in SIDES:
            environments.make(work / side, overlay=side == "with")
        (work / "programs").mkdir()
        sources = algorithms()
        prepare(work / "programs", sources)
        found = {name: reports(name, work, sources) for name in CHECKERS}
    print(f"Tianshou {tianshou.__version__}, {len(sources)} modules of `tianshou.algorithm`\n")
    print("\n".join(table(found)))
    for name, reported in found.items():
        print(f"\n{name}, for example:\n\n```")
        print("\n".join(examples(new(reported))))
        print("```")


if __name__ == "__main__":
    main()
