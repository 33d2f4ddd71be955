"""Every block of code in the README, the docs and the docstrings runs, and prints what it says it prints."""

from __future__ import annotations

from doctest import ELLIPSIS
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

import typedbatch

ROOT = Path(typedbatch.__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
AUDITED = "TB50"
"""Beginning of the names of pages with audits, each of which trains."""
MODULES = sorted(path for path in (ROOT / "typedbatch").rglob("*.py") if ">>>" in path.read_text())
pages = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), SkipParser()])
modules = Sybil(parsers=[DocTestParser(optionflags=ELLIPSIS)])


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] * path.name.startswith(AUDITED), id=path.name) for path in PAGES],
)
def test_every_block_on_the_page_runs(path: Path) -> None:
    for example in pages.parse(path).examples():
        example.evaluate()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_every_example_in_the_docstrings_runs(path: Path) -> None:
    document = modules.parse(path)
    document.namespace.update({name: getattr(typedbatch, name) for name in typedbatch.__all__})
    for example in document.examples():
        example.evaluate()


def test_the_pages_have_code_on_them() -> None:
    assert any(list(pages.parse(path).examples()) for path in PAGES)
    assert MODULES
