"""Every assertion in the tests can fail: none is of a constant, or of one of two expressions as it happens."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))


def is_constant(node: ast.expr) -> bool:
    """True for an expression that is the same in every run: literals, and what is made of literals alone."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
        return True  # true as long as something is written in it, whatever that is
    if isinstance(node, (ast.JoinedStr, ast.Lambda)):
        return True
    if isinstance(node, ast.UnaryOp):
        return is_constant(node.operand)
    if isinstance(node, ast.BoolOp):
        return any(map(is_constant, node.values))
    if isinstance(node, ast.Compare):
        return all(isinstance(one, ast.Constant) for one in (node.left, *node.comparators))
    return isinstance(node, ast.Constant)


def cannot_fail(test: ast.expr) -> bool:
    """True for what an assertion is not to be of; a condition in it leaves out what it was written for."""
    inner = test.operand if isinstance(test, ast.UnaryOp) else test
    return isinstance(inner, ast.IfExp) or is_constant(test)


def wrong(source: str) -> list[int]:
    return [
        node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert) and cannot_fail(node.test)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_assertion_can_fail(path: Path):
    assert [f"{path.name}:{line}" for line in wrong(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "text",
    ["True", "1", "'text'", "(x, 'message')", "[x]", "not None", "x or True", "1 == 1", "a if b else True", "f'{x}'"],
)
def test_the_check_finds(text: str):
    assert wrong(f"x = 1\nassert {text}\n") == [2]
    assert wrong(f"def test():\n    with x:\n        assert {text}, 'words'\n") == [3]


@pytest.mark.parametrize("text", ["x", "x == 1", "all([x])", "x and y", "(x if y else z) == 1", "not x", "x is None"])
def test_the_check_passes(text: str):
    assert wrong(f"assert {text}\n") == []
