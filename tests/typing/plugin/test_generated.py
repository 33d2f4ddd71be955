"""What the mypy plugin says of random programs, beside what happens in them on every way through.

Of a program that runs, nothing is reported; a read that fails is reported, as the plugin sees all that happens here.
Where it does not, :mod:`test_packages` draws what is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.typing import checkers
from tests.typing.caches import PLUGIN, warm
from tests.typing.checkers import Checker, CheckerFailedError, Diagnostic
from tests.typing.plugin.generator import HEADER_LINES, PRELUDE, Block, Body, Clause, places, smaller, source
from tests.typing.plugin.oracle import Facts, TooManyWaysError, draw, left_unsaid, legal, removed_in_loops, run

PROGRAMS_PER_RUN = 80
NOT_ABOUT_BATCHES = ("[unreachable]", "[redundant-expr]", "[name-defined]")
CANARY = "from typedbatch import Batch\n\nBatch(song=1).sings\n"


def read(output: str) -> list[Diagnostic]:
    """Reports with their codes."""
    reports: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    return [Diagnostic(r["file"], r["line"], f"{r['message']}  [{r['code']}]") for r in reports]


MYPY = replace(PLUGIN, read=read, settings={**PLUGIN.settings, "prelude.pyi": PRELUDE, "canary.py": CANARY})


@dataclass(frozen=True)
class Disagreement:
    """A line of which the plugin says something else than what happens there."""

    program: str
    line: int
    what: str

    def __str__(self) -> str:
        lines = self.program.splitlines()
        marked = [f"{'->' if number == self.line else '  '} {text}" for number, text in enumerate(lines, 1)]
        return "\n".join([f"line {self.line}: {self.what}", *marked])


@dataclass(frozen=True)
class Judge:
    """Compares what mypy reports with what happens, for many programs at once.

    Attributes:
        folder: where the programs are written to.
        cache: mypy's.
    """

    folder: Path
    cache: Path

    def disagreements(self, programs: Sequence[tuple[Body, Facts]]) -> list[Disagreement | None]:
        """For each program the first line on which the two differ; line 0 where mypy crashes."""
        try:
            reports = self._reports([source(body) for body, _ in programs])
        except CheckerFailedError as error:
            half = len(programs) // 2
            if half:
                return [*self.disagreements(programs[:half]), *self.disagreements(programs[half:])]
            return [Disagreement(source(programs[0][0]), 0, str(error)[-2000:])]
        return [
            next((Disagreement(source(body), *found) for found in self._compare(source(body), facts, said)), None)
            for (body, facts), said in zip(programs, reports, strict=True)
        ]

    def _reports(self, texts: list[str]) -> list[dict[int, str]]:
        self.folder.mkdir(exist_ok=True)
        for old in self.folder.glob("*.py"):
            old.unlink()
        for number, text in enumerate(texts):
            path = self.folder / f"program_{number}.py"
            path.write_text(text, encoding="utf-8")
            # mypy takes a file as unchanged when its size and its second are; here many are written in a second
            os.utime(path, (stamp := crc32(text.encode()) >> 1, stamp))
        found = checkers.run(MYPY, self.folder, self.cache)
        by_file = {report.file for report in found}
        assert "canary.py" in by_file, "the plugin is off"
        told = [report for report in found if not report.message.endswith(NOT_ABOUT_BATCHES)]
        return [
            {report.line: report.message for report in told if report.file == f"program_{number}.py"}
            for number in range(len(texts))
        ]

    def _compare(self, text: str, facts: Facts, said: dict[int, str]) -> list[tuple[int, str]]:
        fine = facts.reached - facts.lacked - removed_in_loops(text)
        missed = facts.lacked - said.keys() - left_unsaid(text, facts)
        found = [
            *((line, f"nothing fails here, and mypy reports: {said[line]}") for line in said.keys() & fine),
            *((line, "a field is not there, and mypy reports nothing") for line in missed),
        ]
        return sorted(found)

    def minimal(self, body: Body) -> Disagreement | None:
        """The disagreement in as small a program as taking statements away makes.

        None when there is none once loops go round often enough for what mypy says of them to happen.
        """
        smallest = None
        failing = self._failing([body])
        while failing:
            body, smallest = min(failing, key=lambda pair: len(source(pair[0])))
            failing = self._failing(smaller(body))
        return smallest

    def _failing(self, bodies: Iterable[Body]) -> list[tuple[Body, Disagreement]]:
        programs = [known for body in bodies if (known := legal(body, repeats=3) or legal(body)) is not None]
        found = zip(programs, self.disagreements(programs), strict=True)
        return [(body, one) for (body, _), one in found if one is not None]


def disagreement(judge: Judge, seed: int) -> str | None:
    """The first disagreement in the programs of a seed, made small; None without any."""
    programs = draw(seed, PROGRAMS_PER_RUN)
    for (body, _), found in zip(programs, judge.disagreements(programs), strict=True):
        smallest = judge.minimal(body) if found is not None else None
        if smallest is not None:
            return f"seed {seed}, {smallest}"
    return None


@pytest.fixture(scope="session")
def judge(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """A judge with a cache of its own."""
    folder = tmp_path_factory.mktemp("generated")
    return Judge(folder / "programs", warm(kept, PLUGIN, folder / "cache"))


EXAMPLES = max(1, settings.default.max_examples // 20) if settings.default is not None else 1
# the same programs in each run of `make test`; others in each run of `make fuzz`
FUZZING = settings.get_current_profile_name() == "fuzz"
UNSHRUNK = settings(max_examples=EXAMPLES, derandomize=not FUZZING, phases=[Phase.explicit, Phase.generate])


@cache  # a failing example is run once more
def _found(judge: Judge, seed: int) -> str | None:
    return disagreement(judge, seed)


@given(seed=st.integers(0, 2**40))
@UNSHRUNK
def test_exactly_what_fails_is_reported(judge: Judge, seed: int) -> None:
    found = _found(judge, seed)
    if found is not None:
        pytest.fail(found, pytrace=False)


class TestHarness:
    """It notices what it is there for."""

    BODY: Body = (
        "b = Batch(x=value())",
        Block((Clause("if coin(1):", ("b.y = value()",)), Clause("else:", ("b.x",)))),
        "b.y",
        "b.x",
    )
    FIRST = HEADER_LINES + 1

    def test_every_way_is_run(self) -> None:
        facts = run(source(self.BODY))
        assert facts.reached == {self.FIRST + n for n in (0, 1, 2, 4, 5, 6)}
        assert facts.lacked == {self.FIRST + 5}

    def test_what_fails_for_another_reason_is_taken_out(self) -> None:
        program = legal((*self.BODY, "b[9]", "c = b.z", "c.x", "cat([b, Batch(z=value())])"))
        assert program is not None
        assert program[0] == self.BODY

    def test_too_many_ways(self) -> None:
        with pytest.raises(TooManyWaysError):
            run(source(tuple(f"coin({n})" for n in range(9))))
        assert legal(tuple(f"coin({n})" for n in range(9))) is None

    def test_programs_are_the_same_for_a_seed(self) -> None:
        assert draw(1, 5) == draw(1, 5) != draw(2, 5)

    def test_agrees(self, judge: Judge) -> None:
        assert judge.disagreements([(self.BODY, run(source(self.BODY)))]) == [None]

    @pytest.mark.parametrize(
        ("lacked", "line", "what"),
        [(set(), 5, "nothing fails here, and mypy reports: "), ({5, 6}, 6, "mypy reports nothing")],
    )
    def test_disagrees(self, lacked: set[int], line: int, what: str, judge: Judge) -> None:
        facts = Facts({self.FIRST + n for n in range(7)}, {self.FIRST + n for n in lacked})
        found = judge.disagreements([(self.BODY, facts)])[0]
        assert found is not None
        assert (found.line, what in found.what) == (self.FIRST + line, True)

    def test_smaller_programs(self) -> None:
        found = list(smaller(self.BODY))
        assert len(found) == len(set(found)) == 9
        assert all(len(list(places(body))) < len(list(places(self.BODY))) for body in found)

    def test_the_program_that_crashes_mypy_is_found(self, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
        def crash(_: Checker, folder: Path, __: Path) -> list[Diagnostic]:
            if any("clear" in path.read_text(encoding="utf-8") for path in folder.glob("program_*.py")):
                raise CheckerFailedError("INTERNAL ERROR")
            return [Diagnostic("canary.py", 3, "")]

        monkeypatch.setattr(checkers, "run", crash)
        programs: list[tuple[Body, Facts]] = [(("pass",), Facts()), (("b.clear()",), Facts()), (("b",), Facts())]
        found = judge.disagreements(programs)
        assert [one and (one.line, one.what) for one in found] == [None, (0, "INTERNAL ERROR"), None]
