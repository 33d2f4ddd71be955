"""Random packages and the runs that say what fails in them notice what they are there for."""

from __future__ import annotations

import pytest

from tests.program.combinations import IllegalError, facts_of, legal
from tests.program.tally import Tally, Told, kind_of
from tests.program.writer import MODULES, Package, draw

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
        tally, _ = judged_by_hand
        spots = [[told.spot[1] - FIRST for told in found] for found in (tally.true, tally.false, tally.unreached)]
        assert spots == [[1], [2], [99 - FIRST]]
        assert [kind_of(*found) for found in tally.missed] == ["read-item"]
