"""The English of the package and its pages, as far as a program can judge it; CONTRIBUTING.md has the rules."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rooms import PACKAGE, ROOT

NOT_YET: tuple[str, ...] = ()
"""Folders and modules of the package whose English is still to be revised."""
MADE = ROOT / "docs" / "evidence"
"""Folder of the pages that commands write, from what they find, but for that about shapes."""
MODULES = [p for p in sorted(PACKAGE.rglob("*.py")) if p.relative_to(PACKAGE).with_suffix("").parts[0] not in NOT_YET]
PAGES_NOT_YET: tuple[str, ...] = ()
"""Names of the pages whose English is still to be revised."""
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if (page.parent != MADE or page.name == "shapes.md") and page.name not in PAGES_NOT_YET
    ),
]

NO_VERB = frozenset(
    """
    A All An And Any As At Both But By Each Either Every Everything For From How If In It Its Many No None Nothing Of On
    One Only Other Others Several Since So Some Such That The Their There These They This Those To Two What When Where
    Whether Which Who Whose Why With
    """.split()  # noqa: SIM905  # a list of words is easier to read so
)
"""First words of a docstring that cannot be the verb that a function's has to begin with."""
THIRD_PERSON = re.compile(
    r"(Returns|Gives|Makes|Raises|Checks|Takes|Adds|Sets|Writes|Reads|Yields|Finds|Builds|Creates)$"
)
ODD = re.compile(
    r"\b((?<!there )(is|are|was|were) (no|(?-i:none))(?! longer| more| one\b)|so many|anew|misfits?)\b", re.IGNORECASE
)
BRITISH = re.compile(
    r"\b(\w*behaviour\w*|neighbour\w*|\w*colour\w*|licen[c]e\w*|modell\w+|label(led|ling)|cancell(ed|ing)|centred|"
    r"(un)?(normal|initial|serial|organ|recogn|summar|optim|general|material|vector|quant|categor|priorit)is\w+)\b",
    re.IGNORECASE,
)


def docstrings(path: Path) -> Iterator[tuple[int, str, str]]:
    """The line, the kind of its owner (module, class, property, function) and the text of each docstring."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, _kind(node), text
            for before, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(before, (ast.Assign, ast.AnnAssign)) and _is_text(after):
                    yield after.lineno, "attribute", ast.literal_eval(after.value)  # type: ignore[attr-defined]


def _kind(node: ast.AST) -> str:
    if isinstance(node, ast.Module):
        return "module"
    if isinstance(node, ast.ClassDef):
        return "class"
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    if node.name.startswith("__") and node.name.endswith("__"):
        return "special"
    return "property" if any("property" in ast.unparse(one) for one in node.decorator_list) else "function"


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each comment and each text of a module, docstrings and messages alike."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
            yield token.start[0], token.string


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page outside its code."""
    in_code = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, re.sub(r"`[^`]*`", "", line)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_docstrings_begin_as_the_style_says(path: Path):
    wrong = [
        f"{path}:{line}: {text.splitlines()[0]}" for line, kind, text in docstrings(path) if _begins_wrong(kind, text)
    ]
    assert not wrong, "\n".join(wrong)


def _begins_wrong(kind: str, text: str) -> bool:
    first = text.split()[0].strip("`.,:;")
    summary = text.split("\n\n")[0].rstrip()
    if summary.endswith("?"):
        return True
    if kind == "function":
        return first in NO_VERB or THIRD_PERSON.match(first) is not None or not first[:1].isupper()
    return first in {"What", "How", "Why", "Who"} or (first == "Whether" and kind in ("module", "class"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_comments_and_messages_are_in_plain_words(path: Path):
    wrong = [f"{path}:{line}: {found}" for line, text in texts(path) for found in _odd(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_in_plain_words(page: Path):
    if page.name == "CONTRIBUTING.md" or "contributing" in page.name:
        pytest.skip("the rules name what they forbid")
    wrong = [f"{page}:{line}: {found}" for line, text in prose(page) for found in _odd(text)]
    assert not wrong, "\n".join(wrong)


def _odd(text: str) -> list[str]:
    return [match[0] for pattern in (ODD, BRITISH) for match in pattern.finditer(text)]
