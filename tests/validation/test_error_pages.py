"""Every code has a page, which shows its report and is found by its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

import typedbatch
from typedbatch.audit import AuditCode
from typedbatch.errors import Code

PAGES = Path(typedbatch.__file__).parent.parent / "docs" / "errors"
CODES = get_args(Code)
AUDIT_CODES = get_args(AuditCode)


def test_each_code_has_a_page_and_each_page_a_code():
    assert {f"{code.split()[0]}.md" for code in (*CODES, *AUDIT_CODES)} == {page.name for page in PAGES.glob("TB*.md")}


@pytest.mark.parametrize("code", CODES)
def test_a_page_has_the_code_as_its_title_and_shows_a_report_with_it(code: str):
    text = (PAGES / f"{code.split()[0]}.md").read_text()
    assert text.startswith(f"# {code}\n")
    (report, *_) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert "Traceback (most recent call last)" in report
    assert f"[{code}]" in report  # tests/test_docs.py runs it
    assert "## What to do" in text


@pytest.mark.parametrize("code", AUDIT_CODES)
def test_a_page_of_an_audit_shows_a_wrong_program_and_a_right_one(code: str):
    text = (PAGES / f"{code.split()[0]}.md").read_text()
    assert text.startswith(f"# {code}\n")
    assert "## Why it happens" in text
    assert "## What to do" in text
    if code != "TB513 check-failed":
        wrong, right = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        assert f"[{code}]" in wrong  # tests/test_docs.py runs both
        assert right.rstrip().endswith(".findings\n[]")


def test_codes_are_numbers_and_names_that_differ():
    every = [*CODES, *AUDIT_CODES]
    assert all(re.fullmatch(r"TB[1-5]\d\d [a-z]+(-[a-z]+)+", code) for code in every)
    assert len({code.split()[0] for code in every}) == len({code.split()[1] for code in every}) == len(every)
    assert every == sorted(every)
