"""Reports on random packages, beside what happens in them.

A report is true if its line fails in some run, and false if runs come to it and none fails there, or the function
itself asks whether the field is there. A line is missed if it fails in each run that comes to it, and neither it nor a
call that leads to it is reported. Lines that no run comes to do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.program.combinations import Facts, Spot
from tests.program.writer import Package


@dataclass(frozen=True)
class Told:
    """A report."""

    package: str
    spot: Spot
    text: str
    code: str


@dataclass
class Tally:
    """Reports on packages, compared with the lines that fail.

    Attributes:
        unreached: reports at lines that no run comes to.
    """

    true: list[Told] = field(default_factory=list)
    false: list[Told] = field(default_factory=list)
    unreached: list[Told] = field(default_factory=list)
    missed: list[tuple[Package, Spot]] = field(default_factory=list)

    def add(self, package: Package, facts: Facts, told: Sequence[Told]) -> None:
        """Compare the reports on a package with what happens in it."""
        for report in told:
            if report.spot in facts.failed:
                self.true.append(report)
            elif report.spot in facts.fine | facts.asked:
                self.false.append(report)
            else:
                self.unreached.append(report)
        self.missed += [(package, spot) for spot in sorted(_missed(facts, {report.spot for report in told}))]


def _missed(facts: Facts, told: set[Spot]) -> set[Spot]:
    """Return where each run fails, or the innermost call that always leads to a failure, if nobody was told."""
    found = set()
    for failure in facts.failures:
        if not failure.handled and not failure.repeated and told.isdisjoint(failure.spots):
            found.update([spot for spot in failure.spots if spot not in facts.fine][:1])
    return found - told


def kind_of(package: Package, spot: Spot) -> str:
    """Return the kind of the statement at a line."""
    return package.modules[spot[0]].splitlines()[spot[1] - 1].partition("  # ")[2] or "?"
