"""Programs as people write them: nothing is said of a right one, and what is wrong in it is said in plain words.

The programs were written by people who had not seen the plugin. Each runs; each mistake makes it fail. What the plugin
leaves alone, by the rules in docs/plugin.md, is listed with the rule in ``left.txt``.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.typing.caches import PLUGIN, warm
from tests.typing.plugin.corpus import CORPUS, Mistake, Program, programs, settings
from tests.typing.plugin.runs import CONFIG, check

PROGRAMS = programs()
LEFT = CORPUS.parent / "left.txt"
_REPORT = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)")
_DUMPED = re.compile(r"TypedDict|\[Any\b|tuple\[Any")


def named(mistake: Mistake) -> str:
    """How ``left.txt`` names a mistake: it stays when lines are added elsewhere."""
    return f"{mistake.file}: {mistake.code.strip()}"


def left_alone() -> dict[str, str]:
    """Mistakes that the plugin does not report, each with the rule by which it does not."""
    found, rule = {}, ""
    for line in LEFT.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            rule = line[2:]
        elif line:
            found[line] = rule
    return found


@pytest.fixture(scope="module")
def reports(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is said of each program, and of each with one mistake, by the name of its copy; in one run of mypy."""
    place = tmp_path_factory.mktemp("corpus")
    for copy, _, _ in copies():
        copy.write(place / "programs")
    found: dict[str, list[str]] = {copy.name: [] for copy, _, _ in copies()}
    (place / "programs" / "mypy.ini").write_text(settings(CONFIG, found), encoding="utf-8")
    for line in check(place / "programs", warm(kept, PLUGIN, place / "cache")).lines:
        report = _REPORT.fullmatch(line)
        if report is not None:
            name = Path(report["file"]).parts[0].removesuffix(".py")
            where = report["file"].replace(name, "NAME")
            found[name].append(f"{where}:{report['line']}: {report['text'].replace(name, 'NAME')}")
    return found


def copies() -> Iterator[tuple[Program, Program, Mistake | None]]:
    """Every program, and every program with one mistake, under a name of its own."""
    for program in PROGRAMS:
        yield program.renamed(f"{program.name}_right"), program, None
        for number, mistake in enumerate(program.mistakes()):
            yield program.with_mistake(mistake).renamed(f"{program.name}_wrong_{number}"), program, mistake


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_right_program_runs(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    runpy.run_module(program.name, run_name="__main__", alter_sys=True)


def test_nothing_is_said_of_a_right_program(reports: dict[str, list[str]]) -> None:
    said = [line for program in PROGRAMS for line in reports[f"{program.name}_right"]]
    assert not said, "\n".join(said)


def test_mistakes_are_reported_but_for_those_that_are_listed(reports: dict[str, list[str]]) -> None:
    silent = {named(mistake) for copy, _, mistake in copies() if mistake is not None and not reports[copy.name]}
    listed = left_alone().keys()
    assert sorted(silent - listed) == []
    assert sorted(listed - silent) == [], "these are reported now: take them off the list"


def test_nearly_all_that_the_rules_let_be_reported_is(reports: dict[str, list[str]]) -> None:
    rules = left_alone()
    within = [copy for copy, _, mistake in copies() if mistake is not None and named(mistake) not in rules]
    plain = [copy for copy in within if any(not _DUMPED.search(line) for line in reports[copy.name])]
    assert len(within) >= 150
    assert len(plain) >= 0.95 * len(within)


def test_each_rule_is_in_the_docs() -> None:
    page = (CORPUS.parents[3] / "docs" / "plugin.md").read_text(encoding="utf-8")
    assert all(rule in page for rule in set(left_alone().values()))
