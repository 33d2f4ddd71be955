"""Who catches what: every checker over every program, and Python itself."""

from __future__ import annotations

import contextlib
import inspect
import re
import runpy
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.evidence.caught import corpus
from tests.evidence.caught.corpus import MISTAKES, RIGHT_AS_IT_STANDS, Corpus
from tests.typing import checkers
from tests.typing.caches import warm
from tests.typing.checkers import CHECKERS, MYPYS, Checker, CheckerFailedError, Diagnostic, with_plugin
from tests.typing.marks import prepare

NAMES = ("mypy", "pyright", "basedpyright", "pyrefly", "ty", "zuban")
PLUGIN = "plugin"
"""mypy with ``plugins = typedbatch.mypy``; it has a part in the programs that use typedbatch alone."""
RUN = "run"
CATCHERS = (*NAMES, PLUGIN, RUN)


def takes_part(catcher: str, idiom: str) -> bool:
    """Is a catcher asked about an idiom. Without the plugin a plain Batch is read by key, so other checkers are not."""
    if catcher == PLUGIN:
        return idiom in ("typedbatch", "plain")
    return catcher == RUN or idiom != "plain"


@dataclass
class Findings:
    """The results for one idiom.

    Attributes:
        cannot: mistake -> why the idiom cannot express it.
        caught: mistake -> who catches it.
        false: function that is right -> who reports it -> what they say.
    """

    cannot: dict[str, str]
    caught: dict[str, set[str]] = field(default_factory=dict)
    false: dict[str, dict[str, str]] = field(default_factory=dict)

    def count(self, catcher: str) -> int:
        return sum(catcher in names for names in self.caught.values())


def measure(idioms: Iterable[str], folder: Path, kept: Path) -> dict[str, Findings]:
    """Run everything over the programs of some idioms, written into ``folder``; ``kept`` holds caches.

    Raises:
        RuntimeError: a right version raises, or a mistake is reported elsewhere than in its line.
        CheckerFailedError: a checker did not run, or not to the end of every program.
    """
    programs = {idiom: corpus.read(idiom, corpus.source_of(idiom)) for idiom in idioms}
    sources = {f"{idiom}_wrong.py": program.wrong for idiom, program in programs.items()}
    sources |= {f"{idiom}_right.py": program.right for idiom, program in programs.items()}
    prepare(folder, sources)
    found = {idiom: Findings(program.cannot) for idiom, program in programs.items()}
    for idiom, program in programs.items():
        with contextlib.redirect_stdout(sys.stderr):
            raised = _run(folder / f"{idiom}_wrong.py")
            if broken := _run(folder / f"{idiom}_right.py"):
                raise RuntimeError(f"{idiom}: the right version raises in {broken}")
        found[idiom].caught = {
            name: {RUN} if name in raised else set() for name in MISTAKES if name not in program.cannot
        }
    for name in NAMES:
        reports = _reports(CHECKERS[name], folder, kept)
        for idiom, program in programs.items():
            if takes_part(name, idiom):
                _sort(name, idiom, program, reports, found[idiom])
    reports = _reports(with_plugin(CHECKERS["mypy"]), folder, kept)
    for idiom, program in programs.items():
        if takes_part(PLUGIN, idiom):
            _sort(PLUGIN, idiom, program, reports, found[idiom])
    return found


def _reports(checker: Checker, folder: Path, kept: Path) -> list[Diagnostic]:
    with tempfile.TemporaryDirectory() as place:
        cache = Path(place, "cache")
        return checkers.run(checker, folder, warm(kept, checker, cache) if checker.name in MYPYS else cache)


def _run(path: Path) -> set[str]:
    """The functions that raise."""
    program = runpy.run_path(str(path))
    raised = set()
    for name in program.keys() & {*MISTAKES, RIGHT_AS_IT_STANDS}:
        samples = program["samples"]()  # fresh ones: some functions change what they are given
        arguments = {parameter: samples[parameter] for parameter in inspect.signature(program[name]).parameters}
        try:
            program[name](**arguments)
        except Exception:  # noqa: BLE001
            raised.add(name)
    return raised


def _sort(checker: str, idiom: str, program: Corpus, reports: list[Diagnostic], found: Findings) -> None:
    wrong = _by_function(checker, f"{idiom}_wrong.py", program.wrong, reports)
    right = _by_function(checker, f"{idiom}_right.py", program.right, reports)
    for function, ours in right.items():
        found.false.setdefault(function, {})[checker] = ours[0].message
    lines = program.wrong.splitlines()
    for mistake, names in found.caught.items():
        usual = {kind(report.message) for report in right.get(mistake, [])}
        new = [report for report in wrong.get(mistake, []) if kind(report.message) not in usual]
        # a plain batch takes any value; of what type it is, matters where the field is used
        elsewhere = any(not lines[report.line - 1].endswith("# wrong") for report in new)
        if elsewhere and not (idiom == "plain" and mistake.endswith("_write")):
            raise RuntimeError(f"{checker} reports {idiom}, {mistake} elsewhere than in the wrong line: {new}")
        if new:
            names.add(checker)


def _by_function(checker: str, file: str, source: str, reports: list[Diagnostic]) -> dict[str, list[Diagnostic]]:
    ours = [report for report in reports if report.file == file]
    end = len(source.splitlines())
    if not any(report.line > end for report in ours):
        raise CheckerFailedError(f"{checker} does not report the canary at the end of {file}")
    names = {line: name for name, lines in corpus.functions(source).items() for line in lines}
    found: dict[str, list[Diagnostic]] = {}
    for report in ours:
        if report.line <= end:
            found.setdefault(names.get(report.line, "declarations"), []).append(report)
    return found


def kind(message: str) -> str:
    """A message less the names in it."""
    return re.sub(r"""(["'`]).*?\1""", "", message)
