"""With the plugin mypy reports every marked statement of ``programs/``, each for its reason, and nothing else."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.typing import checkers
from tests.typing.caches import warm
from tests.typing.checkers import CHECKERS, MYPYS, is_alone, with_plugin
from tests.typing.marks import Program, prepare, require_marked
from tests.typing.versions import each, installed

PROGRAMS = Path(__file__).parent / "programs"
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in sorted(PROGRAMS.glob("*.py"))}


def compare(name: str, sources: dict[str, str], place: Path, kept: Path) -> None:
    """Fail where a mypy reports something else than these programs say; outside CI, skip one that is not there."""
    folder = place / "programs"
    folder.mkdir()
    prepare(folder, sources)
    checker = with_plugin(CHECKERS[name])
    with installed(name):
        require_marked(name, folder, checkers.run(checker, folder, warm(kept, checker, place / "cache")))


@pytest.mark.parametrize("name", each(MYPYS))
def test_reports_exactly_the_marked_statements(name: str, tmp_path: Path, kept: Path) -> None:
    together = {file: source for file, source in SOURCES.items() if not is_alone(CHECKERS[name], source)}
    compare(name, together, tmp_path, kept)


@pytest.mark.release  # of each program mypy makes a run of its own, and reads what it knows of torch in each
@pytest.mark.parametrize("name", [name for name in MYPYS if CHECKERS[name].sets_defaults])
def test_reports_exactly_the_marked_statements_of_programs_by_themselves(name: str, tmp_path: Path, kept: Path) -> None:
    alone = {file: source for file, source in SOURCES.items() if is_alone(CHECKERS[name], source)}
    compare(name, alone, tmp_path, kept)


@pytest.mark.parametrize("name", [name for name in SOURCES if name.startswith("pass_")])
def test_sound_programs_run(name: str) -> None:
    runpy.run_path(str(PROGRAMS / name))


def test_there_are_many_of_both_kinds() -> None:
    marks = {name: Program(name, source).marks for name, source in SOURCES.items()}
    assert {name.split("_")[0] for name in marks} == {"pass", "fail"}
    assert not any(marks[name] for name in marks if name.startswith("pass_"))
    assert sum(map(len, marks.values())) >= 100
    assert not any(mark.only or mark.excluded for program in marks.values() for mark in program.values())
