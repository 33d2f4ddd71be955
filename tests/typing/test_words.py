"""The words of each checker for a misspelt field and for a missing one, the best that it can be made to say."""

from __future__ import annotations

import re
from doctest import DocTestParser
from pathlib import Path

import pytest

import typedbatch
from tests.typing.checkers import CHECKERS, THIS_PYTHON, run, run_tool

PROGRAM = """\
from typedbatch import BatchWithReturnsProtocol, RolloutBatch


def update(batch: BatchWithReturnsProtocol) -> None: ...


def train(rollout: RolloutBatch) -> None:
    rollout.reward
    update(rollout)
"""
PYRIGHT = (
    """to parameter of type "Literal['a declared field; batch[name] takes any other']\"""",
    '"returns" is not present',
)
WORDS = {
    "pyright": PYRIGHT,
    "basedpyright": PYRIGHT,
    "ty": (
        'Expected `Literal["a declared field; batch[name] takes any other"]`, found `Literal["reward"]`',
        "Argument to function `update` is incorrect: Expected `BatchWithReturnsProtocol[",  # see the test below
    ),
    "pyrefly": (
        "parameter with type `Literal['a declared field; batch[name] takes any other']`",
        "`RolloutBatch.returns` has type `NoSuchField`",
    ),
    "zuban": ('has no attribute "reward"', 'expected "BatchWithReturnsProtocol['),
    "mypy": ('has no attribute "reward"', "is missing following"),
}


@pytest.mark.parametrize("name", WORDS)
def test_a_misspelt_and_a_missing_field_are_named(name: str, tmp_path: Path, kept: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    found = run(CHECKERS[name], tmp_path, kept / name)
    for line, words in zip((8, 9), WORDS[name], strict=True):
        assert words in "\n".join(one.message for one in found if one.line == line)


def test_ty_names_a_missing_field_below_its_report(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    printed = run_tool(["ty", "check", f"--python={THIS_PYTHON}", "program.py"], tmp_path).stdout
    assert "protocol member `returns` is incompatible" in printed
    assert "read type `NoSuchField` is not assignable to" in printed


def test_the_readme_shows_what_pyright_prints(tmp_path: Path, kept: Path) -> None:
    readme = (Path(typedbatch.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?# error: .*?)^```", readme, re.DOTALL | re.MULTILINE)
    (shown,) = re.findall(r"^```text\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    require_lines(shown, "\n".join(one.message for one in run(CHECKERS["pyright"], tmp_path, kept / "pyright")))


def test_a_page_to_start_with_shows_what_check_prints(tmp_path: Path) -> None:
    page = (Path(typedbatch.__file__).parents[1] / "docs" / "start" / "posttraining.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"^```python\n(.*?)^```", page.partition(shown)[0], re.DOTALL | re.MULTILINE)
    examples = [example for block in blocks for example in DocTestParser().get_examples(block)]
    (tmp_path / "grpo.py").write_text("".join(example.source for example in examples), encoding="utf-8")
    done = run_tool(["typedbatch", "check", "grpo.py"], tmp_path)
    require_lines(shown, done.stdout)
    assert "2 findings" in done.stderr


def require_lines(shown: str, printed: str) -> None:
    """Compare each line with what was printed; an ellipsis stands for anything."""
    for line in shown.splitlines():
        parts = line.strip().split("...")
        assert re.search(".*".join(map(re.escape, parts)), printed), line
