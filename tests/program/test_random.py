"""Random packages of classes, closures and conditions, which are run: what is reported fails in some run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.program.helpers import write
from tests.typing.plugin.combinations import Facts, legal
from tests.typing.plugin.packages import Tally, Told
from tests.typing.plugin.writer import FLAGS_MODULE, Package, draw
from typedbatch._program.report import Finding
from typedbatch._program.run import run
from typedbatch._program.source import files_in, programs_of

_GUARD = "        with contextlib.suppress(KeyError, AttributeError):\n            scenario()"
_LEFT_OUT = frozenset({"is"})
"""Conditions that compare two flags, which decide each other."""
_LEAST = 0.85
"""Share of the lines that always fail, and that are reported."""


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_what_is_reported_fails(seed, tmp_path):
    tally = Tally()
    for package in draw(seed, 60, _LEFT_OUT):
        known = legal(package)
        if known is not None:
            package, facts = known
            told = [*_told(package, facts, tmp_path / package.name)]
            tally.add(package, facts, told)
    assert [f"{one.package}/{one.spot}: {one.text}" for one in tally.false] == []
    assert len(tally.true) >= _LEAST * (len(tally.true) + len(tally.missed))


def _told(package: Package, facts: Facts, folder: Path) -> Iterator[Told]:
    """Yield the findings in a package, but for those in calls that no run comes to, as something fails before."""
    modules = {**package.modules, "main": package.modules["main"].replace(_GUARD, "        scenario()")}
    package = replace(package, modules=modules)
    files = {f"{package.name}/{name}.py": text for name, text in package.modules.items()}
    write(folder, {"flags.py": FLAGS_MODULE, f"{package.name}/__init__.py": "", **files})
    reached = facts.fine | facts.failed | facts.asked
    for program in programs_of(files_in(folder)):
        for one in run(program):
            if all(step in reached for step in _calls(one)):
                yield Told(package.name, (one.path.stem, one.line), one.message, one.code)


def _calls(finding: Finding) -> Iterator[tuple[str, int]]:
    for step in finding.trace:
        if "called" in step.text and not step.text.startswith("scenario"):
            yield step.path.stem, step.line
