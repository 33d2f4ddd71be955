"""What is said of each mistake, and of none that is right; in programs of people too who had not seen the checker."""

from __future__ import annotations

import ast
import json
import os
import runpy
from collections import defaultdict
from pathlib import Path

import pytest

from tests.typing.caches import warm
from tests.typing.checkers import CHECKERS, MYPYS, CheckerMissingError, call, command_of, with_plugin
from tests.typing.versions import each

HERE = Path(__file__).parent
NOT_FOUND = {
    "loc_logits_unshifted_gather.py",  # torch takes a shorter index, which is meant more often than not
    "mod_c51_expectation.py",  # the names A and Z are those of two functions
    "mod_masked_autoencoder.py",  # so are P and T, and main has 48 of both
    "mod_moe_gate_weights.py",  # as many rows as a condition holds for, beside the width of a layer
}
KINDS = ("programs", "wrong", "right")
Reports = dict[str, list[tuple[int, str]]]


@pytest.fixture(scope="module", params=each(MYPYS))
def reports(request: pytest.FixtureRequest, kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """What each mypy prints of every program, by program."""
    place = tmp_path_factory.mktemp("shapes")
    checker = with_plugin(CHECKERS[request.param])
    (place / "mypy.ini").write_text(checker.settings["mypy.ini"])
    files = [f"{kind}_{path.name}" for kind in KINDS for path in sorted((HERE / kind).glob("*.py"))]
    for file in files:
        kind, _, name = file.partition("_")
        (place / file).write_text((HERE / kind / name).read_text(encoding="utf-8"), encoding="utf-8")
    try:
        done = call(checker, [*command_of(checker, warm(kept, checker, place / "cache")), *files], place)
    except CheckerMissingError as error:
        if request.param.startswith("mypy-") and not os.environ.get("CI"):
            pytest.skip(str(error))
        raise
    found: Reports = defaultdict(list)
    for report in map(json.loads, filter(lambda line: line.startswith("{"), done.stdout.splitlines())):
        if report["code"] in ("batch-shape", "batch-dtype"):
            found[report["file"]].append((report["line"], f"{report['message']}  [{report['code']}]"))
    assert "INTERNAL" not in done.stdout + done.stderr
    return found


def test_each_report_is_worded_so(reports: Reports) -> None:
    name = "fail_shapes.py"
    expected, code = [], 0
    for number, line in enumerate((HERE / "programs" / name).read_text(encoding="utf-8").splitlines(), 1):
        if line.strip().startswith("# error: "):
            expected.append((code, line.strip().removeprefix("# error: ")))
        else:
            code = number
    assert reports[f"programs_{name}"] == expected


def test_nothing_is_said_of_what_is_right(reports: Reports) -> None:
    assert reports["programs_pass_shapes.py"] == []
    assert {file: found for file, found in reports.items() if file.startswith("right_")} == {}


def test_mistakes_of_others_are_found_where_they_are(reports: Reports) -> None:
    missed = set()
    for path in sorted((HERE / "wrong").glob("*.py")):
        lines = {line for line, _ in reports[f"wrong_{path.name}"]}
        if not lines & marked(path.read_text(encoding="utf-8")):
            missed.add(path.name)
        assert lines <= marked(path.read_text(encoding="utf-8")), path.name
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


@pytest.mark.parametrize("path", sorted((HERE / "right").glob("*.py")), ids=lambda path: path.stem)
def test_what_is_right_runs(path: Path) -> None:
    runpy.run_path(str(path), run_name="__main__")
