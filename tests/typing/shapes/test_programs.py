"""Programs with a mistake in shapes, and right ones, which run; ``tests/program`` looks at what is found in them."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from tests.pairs import programs_in, right_of, wrong_of
from tests.typing.caches import PLUGIN, warm
from tests.typing.marks import shown_in
from tests.typing.plugin.runs import CONFIG, check, fill

HERE = Path(__file__).parent
NOT_FOUND = {
    "loc_logits_unshifted_gather.py",  # torch takes a shorter index, which is meant more often than not
    "mod_c51_expectation.py",  # the names A and Z are those of two functions
    "mod_masked_autoencoder.py",  # so are P and T, and main has 48 of both
    "mod_moe_gate_weights.py",  # as many rows as a condition holds for, beside the width of a layer
}
PAIRS = programs_in(HERE / "pairs")
TEXTS = {
    "programs": programs_in(HERE / "programs"),
    "wrong": programs_in(HERE / "wrong") | {name: wrong_of(text) for name, text in PAIRS.items()},
    "right": programs_in(HERE / "right") | {name: right_of(text) for name, text in PAIRS.items()},
}
"""Texts of the programs by their names; those in ``pairs`` are right, and wrong with what their marks say."""
_SHIPPED = programs_in(HERE / "shipped")
SHIPPED = {
    "wrong": {name: text for name, text in _SHIPPED.items() if "# WRONG" in text},
    "right": {name: text for name, text in _SHIPPED.items() if "# WRONG" not in text},
}
"""Programs about functions of this library, of which other checkers of shapes know nothing."""


def test_mypy_reports_what_a_run_finds(kept: Path, tmp_path: Path) -> None:
    texts = {name: TEXTS["programs"][name] for name in ("fail_shapes.py", "pass_shapes.py")}
    fill(tmp_path / "programs", {"mypy.ini": CONFIG, **texts})
    said = re.findall(
        r"^(\w+)\.py:(\d+): error: (.*\[batch-\w+\])$",
        str(check(tmp_path / "programs", warm(kept, PLUGIN, tmp_path / "cache"))),
        re.MULTILINE,
    )
    assert [(int(line), text) for file, line, text in said] == list(shown_in(texts["fail_shapes.py"]))
    assert {file for file, _, _ in said} == {"fail_shapes"}


def marked(source: str) -> set[int]:
    """The lines of the statements that are marked as wrong: the mistake, and where it shows."""
    found = {number for number, line in enumerate(source.splitlines(), 1) if "# WRONG" in line}
    assert found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and not _has_body(node):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            found |= set(lines) if found & set(lines) else set()
    return found


def _has_body(node: ast.stmt) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.If, ast.With, ast.Try))


@pytest.mark.parametrize("name", [*TEXTS["right"], *SHIPPED["right"]])
def test_what_is_right_runs(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text((TEXTS["right"] | SHIPPED["right"])[name], encoding="utf-8")
    runpy.run_path(str(tmp_path / name), run_name="__main__")
