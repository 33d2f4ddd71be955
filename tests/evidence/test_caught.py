"""docs/evidence/caught.md says what typedbatch's programs do today, and the corpus is complete."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.evidence.caught import corpus
from tests.evidence.caught.corpus import IDIOMS, MISTAKES
from tests.evidence.caught.measure import kind, measure
from tests.evidence.caught.page import cells, numbers

PAGE = (Path(__file__).parents[2] / "docs" / "evidence" / "caught.md").read_text(encoding="utf-8").splitlines()
REMEDY = "run `make caught-docs`"


def test_the_page_is_of_this_corpus() -> None:
    assert any(line.endswith(f"corpus {corpus.fingerprint()}") for line in PAGE), REMEDY


OURS = ["typedbatch", "plain"]


def test_the_page_says_what_typedbatch_does(kept: Path, tmp_path: Path) -> None:
    measured = measure(OURS, tmp_path, kept)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE if line.startswith("|")]
    for column, idiom in zip((-2, -1), OURS, strict=True):
        on_page = {row[0]: row[column] for row in rows}
        assert {what: on_page.get(what) for what in MISTAKES.values()} == {
            MISTAKES[mistake]: cell for mistake, cell in cells(measured[idiom]).items()
        }, REMEDY
        assert numbers(idiom, measured[idiom]) in PAGE, REMEDY


@pytest.mark.parametrize("idiom", IDIOMS)
def test_every_mistake_has_a_right_version(idiom: str) -> None:
    program = corpus.read(idiom, corpus.source_of(idiom))
    wrong, right = _bodies(program.wrong), _bodies(program.right)
    assert wrong.keys() == right.keys()
    assert {name for name in wrong if wrong[name] != right[name]} == MISTAKES.keys() - program.cannot.keys()


@pytest.mark.parametrize(
    ("old", "new"),
    [("  # wrong", ""), ("# right: ", "# "), ("def misspelt_read", "def read"), ("# cannot: undeclared_write: ", "# ")],
)
def test_an_incomplete_program_is_refused(old: str, new: str) -> None:
    source = corpus.source_of("tianshou").replace(old, new, 1)
    with pytest.raises(ValueError, match=r"tianshou: (misspelt_read|undeclared_write)"):
        corpus.read("tianshou", source)


def test_reports_that_differ_in_names_are_of_one_kind() -> None:
    assert kind('Type of "rew" is unknown') == kind('Type of "reward" is unknown')
    assert kind('Type of "rew" is unknown') != kind('"Rollout" has no attribute "reward"')


def _bodies(source: str) -> dict[str, str]:
    return {node.name: ast.dump(node) for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
