"""Mistakes that run in silence: the audit says what the page says, and nothing of right programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.silent.page import first_clause, mistake_of
from tests.evidence.silent.programs import FIELDS, SETS, audited, programs
from tests.pairs import has_mistake, right_of, wrong_of

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"rl": DOCS / "evidence" / "silent.md", "posttraining": DOCS / "evidence" / "bugs.md"}
pytestmark = pytest.mark.slow

OFTEN = ("fourth", "right")
"""Sets that run with all tests; the others take minutes, and so does every second of the many that are right."""


def is_often(which: str, path: Path) -> bool:
    number = int(path.name[:2])
    return which in OFTEN and (which != "right" or number <= 12 or number % 2 == 0)


def given(*sets: str) -> list[Any]:
    """Return all programs of some sets, as parameters of a test."""
    return [
        pytest.param(
            field, path, marks=() if is_often(which, path) else pytest.mark.release, id=f"{field}-{which}-{path.stem}"
        )
        for field in FIELDS
        for which in sets
        for path in programs(field, which)
    ]


@pytest.mark.parametrize(("field", "path"), given(*SETS, "right"))
def test_nothing_is_found_in_a_right_program(field: str, path: Path) -> None:
    assert audited(path, "right").findings == [], field


@pytest.mark.parametrize(("field", "path"), given(*SETS))
def test_what_is_found_is_on_the_page(field: str, path: Path) -> None:
    page = PAGES[field].read_text("utf-8")
    (table,) = re.findall(rf"### The {path.parent.name} set.*?(?=\n### |\Z)", page, re.DOTALL)
    (row,) = re.findall(rf"^\| {path.name[:2]} \|.*", table, re.MULTILINE)
    mistake, found_by, code = re.split(r" \| ?", row)[1:4]
    assert mistake.replace("\\|", "|") == first_clause(mistake_of(path))
    report = audited(path, "wrong")
    if found_by != "plugin":
        assert (found_by == "audit") == bool(report.findings), report
    if found_by in ("audit", "note"):  # which of several is the first differs from run to run
        assert code in [f"`{finding.code}`" for finding in (*report.findings, *report.notes)], report


def test_the_first_clause_is_without_its_consequence():
    so, colon = "The advantage in the policy loss is not detached", "The two arguments of torch.where are swapped"
    assert first_clause(f"{so}, so the loss also trains the critic.") == f"{so}."
    assert first_clause(f"{colon}: the value is the lower expectile.") == f"{colon}."
    short = "DPO: the reference is a shallow copy, so it is trained."
    assert first_clause(short) == short


def test_a_mark_is_in_place_of_a_line_behind_it_or_takes_it_out():
    text = "a = 1\n# wrong: a = 2\nif a:\n    b = 1\n    # wrong: without this line\n    c = 1\n# wrong, too: c = 2\n"
    assert right_of(text) == "a = 1\nif a:\n    b = 1\n    c = 1\n"
    assert wrong_of(text) == "a = 2\nif a:\n    c = 1\nc = 2\n"


def test_each_program_but_the_right_ones_has_a_mistake():
    for field in FIELDS:
        assert all(has_mistake(path.read_text("utf-8")) for which in SETS for path in programs(field, which))
        assert not any(has_mistake(path.read_text("utf-8")) for path in programs(field, "right"))
