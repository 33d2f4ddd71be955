"""With the overlay five checkers find the planted errors and nothing else; without it mypy finds hardly any."""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.evidence.tianshou_overlay import found
from tests.evidence.tianshou_overlay.environments import NAMES, OVERLAY, checker
from tests.typing import checkers
from tests.typing.checkers import Diagnostic
from tests.typing.marks import Program, prepare, require_marked

pytest.importorskip("tianshou")

PROGRAMS = Path(__file__).parent / "programs"
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in sorted(PROGRAMS.glob("*.py"))}
PLANTED = "fail_planted.py"
README = (OVERLAY / "README.md").read_text(encoding="utf-8")

STAGES = {"wrong-stage-argument", "wrong-stage-value", "wrong-stage-result"}
"""Of two protocols one lacks members of the other. All but pyrefly say so, though both have ``__getattr__``."""
UNVALIDATED = {f"unvalidated-{what}" for what in ("argument", "transition", "observation", "result")}
"""``Batch`` and ``BatchProtocol`` name two parameters differently, which all but mypy compare."""
REFUSED = {"pass_refused_without.py"}

WITHOUT = {
    "mypy": REFUSED | STAGES, "pyright": REFUSED | STAGES | UNVALIDATED, "pyrefly": REFUSED | UNVALIDATED,
    "ty": REFUSED | STAGES | UNVALIDATED, "zuban": REFUSED | STAGES | UNVALIDATED,
}  # fmt: skip
"""Reports of each checker without the overlay."""


@pytest.mark.parametrize("name", NAMES)
def test_planted_errors(name: str, pythons: dict[str, Path], request: pytest.FixtureRequest, tmp_path: Path) -> None:
    kept = getattr(request.config, "cache", None)
    cache = tmp_path / "cache" if kept is None else Path(kept.mkdir("tianshou-overlay"))
    prepare(tmp_path, SOURCES)
    # one after the other, on one cache: mypy needs most of its time for torch, and that is the same in both
    without = checkers.run(checker(name, pythons["without"]), tmp_path, cache / name)
    reports = checkers.run(checker(name, pythons["with"]), tmp_path, cache / name)
    require_marked(name, tmp_path, reports)
    assert mistakes(tmp_path, without) == WITHOUT[name]
    assert f"| {name} | {marked(tmp_path, without)} | {marked(tmp_path, reports)} |" in README


def mistakes(folder: Path, reports: Iterable[Diagnostic]) -> set[str]:
    """The mistakes that are reported, less the canary; of what is not marked, the program."""
    names = set()
    for report in reports:
        program = Program(report.file, (folder / report.file).read_text(encoding="utf-8"))
        mark = program.marks.get(program.statement(report.line))
        names.add(mark.mistake if mark else report.file)
    return names - {"canary"}


def marked(folder: Path, reports: Iterable[Diagnostic]) -> int:
    """How many of the planted errors are reported."""
    program = Program(PLANTED, (folder / PLANTED).read_text(encoding="utf-8"))
    lines = {program.statement(report.line) for report in reports if report.file == PLANTED}
    return len(lines & program.marks.keys()) - 1  # the canary


@pytest.mark.filterwarnings("ignore")  # of gymnasium and Tianshou, in whose code they run
@pytest.mark.parametrize("name", sorted(SOURCES.keys() - {PLANTED}))
def test_right_programs_run(name: str) -> None:
    runpy.run_path(str(PROGRAMS / name))["main"]()


def test_programs_are_what_their_names_say() -> None:
    assert {name for name, source in SOURCES.items() if Program(name, source).marks} == {PLANTED}


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ('"RolloutBatchProtocol" has no attribute "returns"', found.STAGE),
        (
            'Cannot assign to attribute "v_s" for class "RolloutBatchProtocol"\n  Attribute "v_s" is unknown',
            found.STAGE,
        ),
        ('Item "BatchProtocol" of "ndarray | BatchProtocol" has no attribute "unsqueeze"', found.OTHER),
        ('Argument 1 to "f" has incompatible type "Batch"; expected "RolloutBatchProtocol"', found.MISFIT),
    ],
)
def test_reports_are_counted_by_kind(message: str, kind: str) -> None:
    assert found.kind(message) == kind


def test_a_new_report_is_one_more_in_its_line() -> None:
    before = [Diagnostic("a.py", 1, "x"), Diagnostic("a.py", 2, "x")]
    after = [Diagnostic("a.py", 1, "x"), Diagnostic("a.py", 1, "y"), Diagnostic("b.py", 2, "z")]
    assert found.new({"without": before, "with": after}) == after[1:]


def test_the_algorithms_are_found() -> None:
    assert {"a2c.py", "ppo.py", "dqn.py", "sac.py", "ddpg.py", "reinforce.py"} < found.algorithms().keys()
