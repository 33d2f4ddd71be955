"""What the mypy plugin reports of random packages of three modules: only what fails, and the same in each order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

import pytest
from hypothesis import settings

from tests.typing.caches import PLUGIN, warm
from tests.typing.plugin.combinations import IllegalError, facts_of, legal
from tests.typing.plugin.packages import (
    Tally,
    Told,
    backwards,
    change_some,
    judged,
    kind_of,
    shown,
    table,
    told_by,
    write,
)
from tests.typing.plugin.runs import Report, check, differences
from tests.typing.plugin.writer import MODULES, Package, draw

FUZZING = settings.get_current_profile_name() == "fuzz"
COUNT = 600 if FUZZING else 40
SEED = SystemRandom().randrange(2**32) if FUZZING else 1

LEFT_OUT = frozenset({"slip"})
"""Fields that are slips of one another, of which the plugin reports what does not fail; the packages have none."""


@dataclass(frozen=True)
class Sample:
    """Packages in a folder, and what mypy reports of them."""

    folder: Path
    cache: Path
    packages: dict[str, Package]
    tally: Tally


@pytest.fixture(scope="module")
def sample(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    place = tmp_path_factory.mktemp("packages")
    cache = warm(kept, PLUGIN, place / "cache")
    tally, packages = judged(draw(SEED, COUNT, LEFT_OUT), place / "all", cache)
    return Sample(place / "all", cache, packages, tally)


def test_nothing_that_runs_is_reported(sample: Sample) -> None:
    false = [shown(sample.packages[told.package], told.spot, told.text) for told in sample.tally.false]
    assert not false, "\n\n".join([f"seed {SEED}", *false[:5]])


def test_reports_are_made_and_lines_are_reached(sample: Sample) -> None:
    assert len(sample.packages) > COUNT * 0.8
    assert len(sample.tally.true) > COUNT // 2


@pytest.fixture(scope="module")
def again(sample: Sample) -> Report:
    """What mypy reports of the sample once more, from its cache."""
    return check(sample.folder, sample.cache)


def test_the_same_from_the_cache(sample: Sample, again: Report) -> None:
    reported = [*sample.tally.true, *sample.tally.false, *sample.tally.unreached]
    found = [told for of_one in told_by(again).values() for told in of_one]
    assert sorted(map(repr, reported)) == sorted(map(repr, found))


def test_the_same_in_another_order(kept: Path, tmp_path: Path, sample: Sample, again: Report) -> None:
    cache = warm(kept, PLUGIN, tmp_path / "cache")
    other = check(sample.folder, cache, names=backwards(sample.packages.values()))
    assert differences(again, other) == ""


def test_the_same_once_some_modules_have_changed(sample: Sample, again: Report) -> None:
    change_some(list(sample.packages.values()), sample.folder)
    assert differences(again, check(sample.folder, sample.cache)) == ""


HEAD = "from flags import FLAGS\nfrom typedbatch import Batch\n"


def package(main: str, base: str = "", helpers: str = "") -> Package:
    """Return a package whose only scenario is this."""
    lines = "".join(f"    {line}\n" for line in main.splitlines())
    start = HEAD + "from p import base, helpers\ndef scenario() -> None:\n"
    texts = (HEAD + base, HEAD + helpers, f"{start}{lines}" + "\n" * END + "SCENARIOS = (scenario,)\n")
    return Package("p", dict(zip(MODULES, texts, strict=True)))


FIRST = 5
"""The line at which the scenario begins; in the other modules the text begins at line 3."""
END = 50
"""A line behind it."""


def lines(spots: set[tuple[str, int]]) -> set[int]:
    """Return the lines of the scenario, from 0."""
    return {number - FIRST for module, number in spots if module == "main" and FIRST <= number < END}


class TestHarness:
    """It notices what it is there for."""

    def test_every_combination_of_flags_is_run(self) -> None:
        facts = facts_of(package("b = Batch(x=1)\nif FLAGS[3]:\n    b.y = 1\nb.y\nb.x"))
        assert lines(facts.fine) == {0, 1, 2, 3, 4}
        assert lines(facts.failed) == {3}

    def test_it_goes_on_behind_a_read(self) -> None:
        facts = facts_of(package("b = Batch(x=1)\nb.y\nb.x\nb = b.z\nb.x"))
        assert (lines(facts.failed), lines(facts.fine)) == ({1, 3}, {0, 2})

    def test_what_a_function_handles_itself(self) -> None:
        text = 'b = Batch()\ntry:\n    b["x"]\nexcept (KeyError, AttributeError):\n    b.x = 1\nb.x'
        facts = facts_of(package(text))
        assert (lines(facts.asked), lines(facts.failed), lines(facts.fine)) == ({2}, set(), {0, 4, 5})

    def test_a_call_that_leads_to_a_failure(self) -> None:
        facts = facts_of(package("helpers.read(Batch(x=1))", helpers="def read(b: Batch) -> None:\n    b.y"))
        assert [failure.spots for failure in facts.failures] == [(("helpers", 4), ("main", FIRST))]

    def test_a_comprehension_without_rows_is_not_reached(self) -> None:
        facts = facts_of(package("b = Batch()\n[t.x for t in b]\n(lambda: b.x)()\nread = lambda: b.x"))
        assert (lines(facts.fine), lines(facts.failed)) == ({0}, {2})

    def test_what_fails_for_another_reason_is_taken_out(self) -> None:
        wrong = package("b = Batch(x=[1])\nb[9]\nb.x")
        with pytest.raises(IllegalError):
            facts_of(wrong)
        found = legal(wrong)
        assert found is not None
        assert found[0].modules["main"].splitlines()[FIRST : FIRST + 2] == ["    pass", "    b.x"]

    def test_endless_packages(self) -> None:
        assert legal(package("many = [1]\nfor one in many:\n    many.append(one)")) is None

    def test_packages_are_the_same_for_a_seed(self) -> None:
        assert list(draw(1, 3)) == list(draw(1, 3)) != list(draw(2, 3))

    def test_kinds_are_left_out(self) -> None:
        texts = [text for one in draw(1, 20, frozenset({"closure", "read-nested"})) for text in one.modules.values()]
        assert not any("# closure" in text or "# read-nested" in text for text in texts)

    @pytest.fixture
    def judged_by_hand(self) -> tuple[Tally, Package]:
        wrong = package("b = Batch(x=1)\nb.y  # read\nb.x  # read\nb.y  # read\nb.z  # read-item")
        facts, tally = facts_of(wrong), Tally()
        spots = [("main", FIRST + 1), ("main", FIRST + 2), ("main", 99)]
        tally.add(wrong, facts, [Told("p", spot, "", "batch-field") for spot in spots])
        return tally, wrong

    def test_verdicts(self, judged_by_hand: tuple[Tally, Package]) -> None:
        tally, wrong = judged_by_hand
        spots = [[told.spot[1] - FIRST for told in found] for found in (tally.true, tally.false, tally.unreached)]
        assert spots == [[1], [2], [99 - FIRST]]
        assert [kind_of(*found) for found in tally.missed] == ["read-item"]
        assert list(table(tally, {"p": wrong}))[1:3] == [
            f"{'read':<20} {2:>8} {1:>8} {1:>8} {0:>8}",
            f"{'read-item':<20} {0:>8} {0:>8} {0:>8} {1:>8}",
        ]

    def test_reports_on_a_package(self, kept: Path, tmp_path: Path) -> None:
        wrong = package("b = Batch(x=1)\nb.y")
        write([wrong], tmp_path / "all")
        told = told_by(check(tmp_path / "all", warm(kept, PLUGIN, tmp_path / "cache")))
        assert {name: [(one.spot, one.code) for one in found] for name, found in told.items()} == {
            "p": [(("main", FIRST + 1), "batch-field")]
        }
