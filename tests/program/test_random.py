"""Random packages of classes, closures and conditions, which are run: what is reported fails in some run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.program.combinations import Spot, legal
from tests.program.helpers import write
from tests.program.tally import Tally, Told, kind_of
from tests.program.writer import FLAGS_MODULE, Package, draw
from typedbatch._program.run import run
from typedbatch._program.source import files_in, programs_of

_GUARD = "        with contextlib.suppress(KeyError, AttributeError):\n            scenario()"
_LEFT_OUT = frozenset({"is"})
"""Conditions that compare two flags, which decide each other."""
_IN_PART = "read-choice"
"""Kind of the lines of which a run may come to a part alone, so that nothing shows whether it is right."""
_MOST_MENDED = 9
SEEDS = range(2, 12) if settings.get_current_profile_name() == "fuzz" else [2]
_LEAST = 0.85
"""Share of the lines that always fail, and that are reported."""


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS)])
def test_what_is_reported_fails(seed, tmp_path):
    judged = [_judged(package, tmp_path / package.name) for package in draw(seed, 60, _LEFT_OUT)]
    assert [f"{one.package}/{one.spot}: {one.text}" for tally in judged for one in tally.false] == []
    true, missed = sum(len(tally.true) for tally in judged), sum(len(tally.missed) for tally in judged)
    assert true >= _LEAST * (true + missed)


def _judged(package: Package, folder: Path) -> Tally:
    """Return what is true and missed in a package, and what is false when all that fails has been mended.

    A statement that fails ends a run, so what is reported behind it shows only when it is gone. Calls that no run comes
    to make no report false.
    """
    first: Tally | None = None
    for attempt in range(_MOST_MENDED):
        known = legal(package)
        if known is None:
            break
        package, facts = known
        tally = Tally()
        reached = facts.fine | facts.asked | facts.failed
        tally.add(package, facts, [*_told(package, folder / str(attempt), reached)])
        first = first or tally
        first.false = tally.false
        failing = {one.spot for one in tally.true} | {spot for _, spot in tally.missed}
        if not tally.false or not failing:
            break
        for module, line in sorted(failing, reverse=True):
            package = package.without(module, line)
    return first or Tally()


def _told(package: Package, folder: Path, reached: set[Spot]) -> Iterator[Told]:
    modules = {**package.modules, "main": package.modules["main"].replace(_GUARD, "        scenario()")}
    files = {f"{package.name}/{name}.py": text for name, text in modules.items()}
    write(folder, {"flags.py": FLAGS_MODULE, f"{package.name}/__init__.py": "", **files})
    for program in programs_of(files_in(folder)):
        for one in run(program).findings:
            calls = [(step.path.stem, step.line) for step in one.trace if step.text.endswith("called here")]
            if any(spot not in reached and kind_of(package, spot) != "?" for spot in calls):
                continue
            spot = (one.path.stem, one.line)
            if kind_of(package, spot) != _IN_PART:
                yield Told(package.name, spot, one.message, one.code)
