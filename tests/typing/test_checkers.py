"""Six type checkers agree on every program in ``programs/``: what is right passes, what is wrong is reported.

Of mypy there are several versions: those in ``older_mypys.txt``, and the one that everything else is developed with.
"""

from __future__ import annotations

import json
import runpy
import subprocess
from itertools import permutations
from pathlib import Path
from types import ModuleType

import pytest
from typing_extensions import is_protocol

import typedbatch
import typedbatch.posttraining
from tests.typing import checkers
from tests.typing.caches import warm
from tests.typing.checkers import (
    CHECKERS,
    MYPYS,
    Checker,
    CheckerFailedError,
    CheckerMissingError,
    Diagnostic,
    is_alone,
)
from tests.typing.marks import EXCEPTIONS, PROGRAMS, Program, differences, prepare, require_marked
from tests.typing.versions import each, installed

SOURCES = {path.name: path.read_text(encoding="utf-8") for path in sorted(PROGRAMS.glob("*.py"))}
SOUND = sorted(name for name in SOURCES if not name.startswith("fail_"))


def public_names() -> list[str]:
    """What a user finds in the package at run time."""
    return sorted(name for name in typedbatch.__all__ if not isinstance(getattr(typedbatch, name), ModuleType))


def program_of_public_names() -> str:
    """Each public name, imported and as an attribute, so that every checker must see what run time has."""
    lines = ["import typedbatch", *(f"from typedbatch import {name}" for name in public_names())]
    lines += ["names: list[object] = []", *(f"names += [{name}, typedbatch.{name}]" for name in public_names())]
    return "\n".join(lines)


LAYOUTS = ("LeftPadded", "PackedRollouts", "RaggedRollouts", "RightPadded", "Tokens")
"""Records of which a batch has only one, since their fields of one name have different shapes."""


def program_of_pairs() -> str:
    """Classes of any two shipped protocols, and of any two shipped records, in both orders."""
    lines = ["from typing import Protocol"]
    for module in (typedbatch, typedbatch.posttraining):
        classes = {name: one for name in module.__all__ if isinstance(one := getattr(module, name), type)}
        protocols = [
            name for name, one in classes.items() if typedbatch.BatchProtocol in one.__mro__[1:] and is_protocol(one)
        ]
        records = [
            name for name, one in classes.items() if typedbatch.BatchRecord in one.__mro__[1:] and name not in LAYOUTS
        ]
        lines += [f"from {module.__name__} import {name}" for name in (*protocols, *records)]
        for names, base in ((protocols, ", Protocol"), (records, "")):
            for one, two in permutations(names, 2):
                if classes[one] not in classes[two].__mro__ and classes[two] not in classes[one].__mro__:
                    lines.append(f"class {one}{two}({one}, {two}{base}): ...")
    return "\n".join(lines)


REQUIRED = {
    "HasIsWeights": ["is_weights"],
    "HasPairRefLogp": ["ref_chosen_logp", "ref_rejected_logp"],
    "HasPolicyStep": ["policy_step"],
    "HasRefLogp": ["ref_logp"],
    "HasRolloutLogp": ["rollout_logp"],
    "HasValues": ["values", "returns"],
}


def program_of_required() -> str:
    """Classes of any two records that require what is optional, and a use of each field as what it is then."""
    lines = ["from torch import Tensor", f"from typedbatch.posttraining import {', '.join(REQUIRED)}"]
    for one, two in permutations(REQUIRED, 2):
        lines += [f"class {one}{two}({one}, {two}): ...", f"def use_{one}_{two}(batch: {one}{two}) -> None:"]
        for number, field in enumerate([*REQUIRED[one], *REQUIRED[two]]):
            lines += [f"    field_{number}: Tensor = batch.{field}", f"    print(field_{number}.mean())"]
    return "\n".join(lines)


def reports(name: str, folder: Path, kept: Path) -> list[Diagnostic]:
    """What a checker reports; outside CI, an older mypy that is not there skips the test."""
    with installed(name):
        cache = folder.with_name(f"{folder.name}-cache")
        if name in MYPYS:
            warm(kept, CHECKERS[name], cache)
        return checkers.run(CHECKERS[name], folder, cache)


def compare(name: str, sources: dict[str, str], place: Path, kept: Path) -> None:
    """Fail where a checker reports something else than these programs say."""
    folder = place / "programs"
    folder.mkdir()
    prepare(folder, sources)
    require_marked(name, folder, reports(name, folder, kept))


@pytest.mark.parametrize("name", each(CHECKERS))
def test_reports_exactly_the_marked_statements(name: str, tmp_path: Path, kept: Path) -> None:
    together = {file: source for file, source in SOURCES.items() if not is_alone(CHECKERS[name], source)}
    made = {
        "pass_public_names.py": program_of_public_names(),
        "pass_pairs.py": program_of_pairs(),
        "pass_required.py": program_of_required(),
    }
    compare(name, {**together, **made}, tmp_path, kept)


@pytest.mark.release  # of each program mypy makes a run of its own, and reads what it knows of torch in each
@pytest.mark.parametrize("name", [name for name, checker in CHECKERS.items() if checker.sets_defaults])
def test_reports_exactly_the_marked_statements_of_programs_by_themselves(name: str, tmp_path: Path, kept: Path) -> None:
    alone = {file: source for file, source in SOURCES.items() if is_alone(CHECKERS[name], source)}
    compare(name, alone, tmp_path, kept)


def test_pairs_of_protocols_and_records_can_be_declared() -> None:
    exec(program_of_pairs(), {"__name__": __name__})


def test_all_records_that_require_what_is_optional_are_combined() -> None:
    assert {*REQUIRED} == {name for name in typedbatch.posttraining.__all__ if name.startswith("Has")}
    exec(program_of_required(), {"__name__": __name__})


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_run(name: str) -> None:
    runpy.run_path(str(PROGRAMS / name))


def test_programs_are_what_their_names_say() -> None:
    marks = {name: Program(name, source).marks for name, source in SOURCES.items()}
    assert {name.split("_")[0] for name in marks} == {"pass", "fail", "fault"}
    assert not any(marks[name] for name in marks if name.startswith("pass_"))
    assert all(marks[name] for name in marks if not name.startswith("pass_"))


def test_every_exception_has_a_reason_and_is_needed() -> None:
    marks = [mark for name, source in SOURCES.items() for mark in Program(name, source).marks.values()]
    written = {(mistake, checker) for mistake, reasons in EXCEPTIONS.items() for checker in reasons}
    assert set().union(*(mark.exceptions() for mark in marks)) == written


class TestHarness:
    """It notices what it is there for."""

    SOURCE = """
x: int = 1
y: int = ""  # E: wrong
z = max(
    1,
    "",  # E: wrong: max
)
w = 1  # E: wrong [only: mypy]
if x:
    v: int = ""  # E: wrong [not: ty]
"""
    AGREED = (("x.py", 3, ""), ("x.py", 6, "max of it"), ("x.py", 12, "canary"))

    def compare(self, folder: Path, *reports: tuple[str, int, str]) -> list[str]:
        prepare(folder, {"x.py": self.SOURCE})
        found = differences("ty", folder, [Diagnostic(*report) for report in reports])
        return [" ".join(text.split("  ")[:2]) for text in found]

    def test_agrees(self, tmp_path: Path) -> None:
        assert self.compare(tmp_path, *self.AGREED) == []

    def test_missing(self, tmp_path: Path) -> None:
        assert self.compare(tmp_path, *self.AGREED[1:]) == ["missing x.py:3"]
        assert self.compare(tmp_path, *self.AGREED[:-1]) == ["missing x.py:12"]

    def test_surplus(self, tmp_path: Path) -> None:
        for file, line in [("x.py", 2), ("x.py", 8), ("x.py", 10), ("/lib/torch.py", 3)]:
            assert self.compare(tmp_path, *self.AGREED, (file, line, "")) == [f"surplus {file}:{line}"]

    def test_for_another_reason(self, tmp_path: Path) -> None:
        assert self.compare(tmp_path, ("x.py", 4, "min"), *self.AGREED[::2]) == ["unclear x.py:4"]

    @pytest.mark.parametrize("name", ["ty", "zuban"])
    def test_from_end_to_end(self, name: str, tmp_path: Path) -> None:
        prepare(tmp_path, {"x.py": 'x: int = ""\ny: int = 1  # E: wrong\n'})
        found = differences(name, tmp_path, checkers.run(CHECKERS[name], tmp_path, tmp_path))
        assert [text.split("  ")[0] for text in found] == ["surplus", "missing"]

    @pytest.mark.parametrize("name", CHECKERS)
    @pytest.mark.parametrize(
        "output", ["", "Segmentation fault", "null", "x.py:3: oh\nFound 1 error in 1 file (checked)"]
    )
    def test_unreadable_output(self, name: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        prepare(tmp_path, {"x.py": ""})
        monkeypatch.setattr(checkers, "run_tool", lambda *_: subprocess.CompletedProcess([], 1, output, ""))
        with pytest.raises(CheckerFailedError, match="cannot be read"):
            checkers.run(CHECKERS[name], tmp_path, tmp_path)

    def test_a_program_that_evaluates_a_type_is_by_itself_where_that_changes_others(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = "from typedbatch import RolloutBatch as Rollout\n"
        sources = {"a.py": f"{start}x: Rollout[int]", "b.py": f"{start}x = Rollout[int]", "c.py": "x: list[int]"}
        prepare(tmp_path, sources)
        together: list[list[str]] = []

        def run_tool(command: list[str], *_: Path) -> subprocess.CompletedProcess[str]:
            together.append([part for part in command if part in sources])
            said = {"file": "a.py", "line": 1, "message": "", "hint": None}
            return subprocess.CompletedProcess(command, 1, json.dumps(said), "")

        monkeypatch.setattr(checkers, "run_tool", run_tool)
        for name in ("mypy", "mypy-1.20"):
            checkers.run(CHECKERS[name], tmp_path, tmp_path)
        assert together == [["a.py", "b.py", "c.py"], ["a.py", "c.py"], ["b.py"]]

    def test_crash(self, tmp_path: Path) -> None:
        prepare(tmp_path, {"x.py": ""})
        with pytest.raises(CheckerFailedError, match="status 2"):
            checkers.run(Checker("ty", "ty chekc", CHECKERS["ty"].read, {}), tmp_path, tmp_path)

    def test_not_installed(self, tmp_path: Path) -> None:
        prepare(tmp_path, {"x.py": ""})
        with pytest.raises(CheckerMissingError, match="not installed; pip install"):
            checkers.run(Checker("none", "no-such-checker", CHECKERS["ty"].read, {}), tmp_path, tmp_path)

    def test_older_mypy_not_installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        prepare(tmp_path, {"x.py": ""})
        monkeypatch.setattr("sys.prefix", str(tmp_path))
        monkeypatch.delenv("CI", raising=False)
        with pytest.raises(pytest.skip.Exception, match=r"mypy/1\.20.* is not installed; make .venv/.mypys does it"):
            reports("mypy-1.20", tmp_path, tmp_path)
        monkeypatch.setenv("CI", "true")
        with pytest.raises(CheckerMissingError):
            reports("mypy-1.20", tmp_path, tmp_path)

    def test_a_mark_for_mypy_is_for_each_of_its_versions(self) -> None:
        every, one = (Program("x.py", f"x = 1  # E: x [only: {name}]").marks[1] for name in ("mypy", "mypy-2.3"))
        assert [n for n in CHECKERS if every.holds_for(n)] == ["mypy-1.20", "mypy-2.2", "mypy-2.3", "mypy"]
        assert [n for n in CHECKERS if one.holds_for(n)] == ["mypy-2.3"]
        assert not Program("x.py", "x = 1  # E: x [not: mypy]").marks[1].holds_for("mypy-2.3")

    @pytest.mark.parametrize("mark", ["", "Wrong", "wrong [not: mypi]", "wrong [mypy]", "wrong # E: wrong"])
    def test_unreadable_mark(self, mark: str) -> None:
        with pytest.raises(ValueError, match=r"x\.py:1: "):
            Program("x.py", f"x = 1  # E: {mark}")

    def test_two_marks_in_one_statement(self) -> None:
        with pytest.raises(ValueError, match="second mark"):
            Program("x.py", "print(  # E: a\n    1)  # E: b")
