"""Mistakes that run in silence: the audit says what the page says, and nothing of right programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.silent.programs import FIELDS, SETS, audited, folders

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"rl": DOCS / "silent.md", "posttraining": DOCS / "bugs.md"}
pytestmark = pytest.mark.slow

OFTEN = ("fourth", "right")
"""Sets that run with all tests; the others take minutes."""


def programs(*sets: str) -> list[Any]:
    """The folders of all programs of some sets, as parameters of a test."""
    return [
        pytest.param(
            field, folder, marks=() if which in OFTEN else pytest.mark.release, id=f"{field}-{which}-{folder.name}"
        )
        for field in FIELDS
        for which in sets
        for folder in folders(field, which)
    ]


@pytest.mark.parametrize(("field", "folder"), programs(*SETS, "right"))
def test_nothing_is_found_in_a_right_program(field: str, folder: Path) -> None:
    assert audited(folder / "right.py").findings == [], field


@pytest.mark.parametrize(("field", "folder"), programs(*SETS))
def test_what_is_found_is_on_the_page(field: str, folder: Path) -> None:
    page = PAGES[field].read_text("utf-8")
    (table,) = re.findall(rf"### The {folder.parent.name} set.*?(?=\n### |\Z)", page, re.DOTALL)
    (row,) = re.findall(rf"^\| {folder.name[:2]} \|.*", table, re.MULTILINE)
    report = audited(folder / "wrong.py")
    if "| mypy with the plugin |" not in row:
        assert ("| audit |" in row) == bool(report.findings), report
    assert row.startswith(f"| {folder.name[:2]} | {(folder / 'wrong.py').read_text('utf-8').partition('.')[0][3:20]}")
