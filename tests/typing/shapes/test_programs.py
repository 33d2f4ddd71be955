"""What is said of each mistake, and of none that is right; in programs of people too who had not seen the checker."""

from __future__ import annotations

import ast
import json
import runpy
from collections import defaultdict
from pathlib import Path

import pytest

from tests.pairs import programs_in, right_of, wrong_of
from tests.typing.caches import warm
from tests.typing.checkers import CHECKERS, MYPYS, call, command_of, with_plugin
from tests.typing.marks import shown_in
from tests.typing.versions import each, installed

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
Reports = dict[str, list[tuple[int, str]]]


@pytest.fixture(scope="module", params=each(MYPYS))
def reports(request: pytest.FixtureRequest, kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """What each mypy prints of every program, by program."""
    checker, place = with_plugin(CHECKERS[request.param]), tmp_path_factory.mktemp("shapes")
    (place / "mypy.ini").write_text(checker.settings["mypy.ini"])
    files = {f"{kind}_{file}": text for kind, texts in TEXTS.items() for file, text in texts.items()}
    for file, text in files.items():
        (place / file).write_text(text, encoding="utf-8")
    with installed(request.param):
        done = call(checker, [*command_of(checker, warm(kept, checker, place / "cache")), *files], place)
    found: Reports = defaultdict(list)
    for report in map(json.loads, filter(lambda line: line.startswith("{"), done.stdout.splitlines())):
        if report["code"] in ("batch-shape", "batch-dtype"):
            found[report["file"]].append((report["line"], f"{report['message']}  [{report['code']}]"))
    assert "INTERNAL" not in done.stdout + done.stderr
    return found


def test_each_report_is_worded_so(reports: Reports) -> None:
    assert reports["programs_fail_shapes.py"] == list(shown_in(TEXTS["programs"]["fail_shapes.py"]))


def test_nothing_is_said_of_what_is_right(reports: Reports) -> None:
    assert reports["programs_pass_shapes.py"] == []
    assert {file: found for file, found in reports.items() if file.startswith("right_")} == {}


def test_mistakes_of_others_are_found_where_they_are(reports: Reports) -> None:
    missed = set()
    for name, text in TEXTS["wrong"].items():
        lines = {line for line, _ in reports[f"wrong_{name}"]}
        if not lines & marked(text):
            missed.add(name)
        assert lines <= marked(text), name
    assert missed == NOT_FOUND


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


@pytest.mark.parametrize("name", TEXTS["right"])
def test_what_is_right_runs(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(TEXTS["right"][name], encoding="utf-8")
    runpy.run_path(str(tmp_path / name), run_name="__main__")
