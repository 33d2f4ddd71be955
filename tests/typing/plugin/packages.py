"""What the mypy plugin reports of random packages, beside what happens in them.

``python -m tests.typing.plugin.packages --count 200 --seed 7`` prints a table, by the kind of statement, and the first
reports that are false. ``--keep FOLDER`` leaves the packages there, ``--without KIND`` leaves statements of a kind out.

A report is true if its line fails in some run, and false if runs come to it and none fails there, or the function
itself asks whether the field is there. A line is missed if it fails in each run that comes to it, and mypy reports
neither it nor a call that leads to it. Lines that no run comes to do not count.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.typing.caches import PLUGIN, warm
from tests.typing.plugin.combinations import Facts, Spot, legal
from tests.typing.plugin.runs import CONFIG, Report, check
from tests.typing.plugin.writer import FLAGS_MODULE, MODULES, Package, draw

_CANARY = "from typedbatch import Batch\n\nBatch(song=1).sings\n"
_REPORT = re.compile(r"(\w+)/(\w+)\.py:(\d+): error: (.*  \[(batch-[a-z]+)\])")
_KEPT = Path(".pytest_cache/d/mypy")
_SHOWN_BEFORE = 25


@dataclass(frozen=True)
class Told:
    """A report of the plugin."""

    package: str
    spot: Spot
    text: str
    code: str


@dataclass
class Tally:
    """What became of the lines of packages.

    Attributes:
        partly: reports of a field that is not there, at lines that fail in some runs and not in others.
        unreached: reports at lines that no run comes to.
    """

    true: list[Told] = field(default_factory=list)
    false: list[Told] = field(default_factory=list)
    partly: list[Told] = field(default_factory=list)
    unreached: list[Told] = field(default_factory=list)
    missed: list[tuple[Package, Spot]] = field(default_factory=list)

    def add(self, package: Package, facts: Facts, told: Sequence[Told]) -> None:
        """Compare the reports on a package with what happens in it."""
        for report in told:
            if report.spot in facts.failed:
                self.true.append(report)
                if report.spot in facts.fine and report.code == "batch-field":
                    self.partly.append(report)
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


def write(packages: Iterable[Package], folder: Path) -> None:
    """Write packages into a folder, with all that mypy needs beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    (folder / "flags.py").write_text(FLAGS_MODULE, encoding="utf-8")
    (folder / "canary.py").write_text(_CANARY, encoding="utf-8")
    for package in packages:
        (folder / package.name).mkdir(exist_ok=True)
        (folder / package.name / "__init__.py").write_text("", encoding="utf-8")
        for module, text in package.modules.items():
            (folder / package.name / f"{module}.py").write_text(text, encoding="utf-8")


def told_by(report: Report) -> dict[str, list[Told]]:
    """Return what the plugin reports, by package."""
    found: dict[str, list[Told]] = {}
    for line in report.lines:
        if (match := _REPORT.match(line)) is not None:
            package, module, number, text, code = match.groups()
            found.setdefault(package, []).append(Told(package, (module, int(number)), text, code))
    assert any(line.startswith("canary.py:3:") for line in report.lines), f"the plugin is off\n{report}"
    return found


def backwards(packages: Iterable[Package]) -> list[str]:
    """Return the names of all files of a folder, in another order than mypy would take them."""
    files = [f"{package.name}/{module}.py" for package in packages for module in ("__init__", *MODULES)]
    return [*reversed(files), "flags.py", "canary.py"]


def change_some(packages: Sequence[Package], folder: Path) -> None:
    """Change the text of one module in every other package, without a change of meaning."""
    for number, package in enumerate(packages[::2]):
        module = MODULES[number % len(MODULES)]
        text = package.modules[module]
        (folder / package.name / f"{module}.py").write_text(f"{text}\n# the end\n", encoding="utf-8")


def judged(packages: Iterable[Package], folder: Path, cache: Path) -> tuple[Tally, dict[str, Package]]:
    """Return what mypy reports of packages, compared with what happens in them, and the packages as they were run."""
    known = [found for package in packages if (found := legal(package)) is not None]
    write((package for package, _ in known), folder)
    told, tally = told_by(check(folder, cache)), Tally()
    for package, facts in known:
        tally.add(package, facts, told.get(package.name, []))
    return tally, {package.name: package for package, _ in known}


def table(tally: Tally, packages: dict[str, Package]) -> Iterator[str]:
    """Yield the lines of a table with the reports and misses of each kind of statement."""
    true, false = (
        Counter(kind_of(packages[told.package], told.spot) for told in reports) for reports in (tally.true, tally.false)
    )
    missed = Counter(kind_of(package, spot) for package, spot in tally.missed)
    yield f"{'kind':<20} {'reported':>8} {'true':>8} {'false':>8} {'missed':>8}"
    for kind in sorted(true | false | missed):
        yield f"{kind:<20} {true[kind] + false[kind]:>8} {true[kind]:>8} {false[kind]:>8} {missed[kind]:>8}"
    total = len(tally.true) + len(tally.false)
    yield f"{'all':<20} {total:>8} {len(tally.true):>8} {len(tally.false):>8} {len(tally.missed):>8}"
    yield f"{len(packages)} packages; of the true reports {len(tally.partly)} are of a field that is there in some runs"
    yield f"{len(tally.unreached)} reports at lines that no run comes to"


def shown(package: Package, spot: Spot, text: str) -> str:
    """Return a line of a package, and those before it."""
    module, number = spot
    lines = package.modules[module].splitlines()
    first = max(0, number - _SHOWN_BEFORE)
    marked = [
        f"{'->' if place == number else '  '} {line}" for place, line in enumerate(lines[first:number], first + 1)
    ]
    return "\n".join([f"{package.name}/{module}.py:{number}: {text}", *marked])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare reports of the mypy plugin with runs of random packages.")
    parser.add_argument("--count", type=int, default=100, help="number of packages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder in which the packages are left")
    parser.add_argument("--without", action="append", default=[], metavar="KIND", help="kind of statement to leave out")
    parser.add_argument("--show", type=int, default=5, help="number of false reports to show")
    parser.add_argument("--missed", type=int, default=0, help="number of missed lines to show")
    return parser.parse_args()


def main() -> None:
    """Run the command."""
    arguments = _arguments()
    packages = draw(arguments.seed, arguments.count, frozenset(arguments.without))
    with TemporaryDirectory() as made:
        cache = warm(_KEPT.absolute(), PLUGIN, Path(made, "cache"))
        tally, known = judged(packages, arguments.keep or Path(made, "packages"), cache)
    print("\n".join(table(tally, known)))
    for told in tally.false[: arguments.show]:
        print(f"\nfalse: {shown(known[told.package], told.spot, told.text)}")
    for package, spot in tally.missed[: arguments.missed]:
        print(f"\nmissed: {shown(package, spot, 'a field is not there, and mypy reports nothing')}")


if __name__ == "__main__":
    main()
