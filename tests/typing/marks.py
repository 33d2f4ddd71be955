"""Programs with marks, and how the report of a checker differs from them.

A program is a file in ``programs/``. ``pass_*.py`` is right and passes, ``fail_*.py`` is wrong in the marked
statements, ``fault_*.py`` is right and yet reported in them. A mark ends a line of the statement that it is about::

    batch.rwe  # E: misspelt-read: rwe
    del batch.rew  # E: delete [not: mypy, pyrefly]
    return list(batch)  # E: typevar-list [only: mypy]

First the mistake; then, optionally, text that every report of it must contain, so that a statement is not wrong for
another reason than the one that is meant; then which checkers miss it, or which alone report it: ``mypy`` is every
version of mypy, ``mypy-2.3`` that one alone. Each such exception has its reason in ``EXCEPTIONS``. A mark holds for its
whole statement, because checkers differ in which line of a long call they name. Whatever is not marked must pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.typing.checkers import CHECKERS, Diagnostic

PROGRAMS = Path(__file__).parent / "programs"

_ROWS = "binds the TypeVar of `self` to its bound when a value of TypeVar type is indexed or visited"

EXCEPTIONS: dict[str, dict[str, str]] = {
    # [not: ...], what a checker misses
    "bare-into-stage": {"mypy": "completes a bare generic record given as TypeForm from the type that is wanted"},
    "delete": dict.fromkeys(("mypy", "pyrefly", "zuban"), "does not check `del` of a property"),
    "converted-by-pydantic": dict.fromkeys(("pyrefly", "ty"), "takes anything that pydantic might convert"),
    "user-tensor-from-numpy": dict.fromkeys(("ty", "zuban"), "does not know the result of Tensor.numpy()"),
    "policy-without-act": dict.fromkeys(
        ("pyrefly", "ty"), "lets the __getattr__ of a record, hidden or not, stand for a member of the type Any"
    ),
    "misspelt-option": {"ty": "does not check keywords against an unpacked TypedDict"},
    "inferred-write": {"mypy": "joins the arrays that it was made with to one whose dtype is Any, which takes all"},
    # [only: ...], what a checker reports wrongly
    "any-index": dict.fromkeys(
        ("mypy", "zuban"), "gives Any for batch[mask] if the type of mask is Any, as both overloads match it"
    ),
    "list-of-any": {"zuban": "asks for the type of a list of numpy's tolist()"},
    "narrowed-nested-write": dict.fromkeys(
        ("pyright", "basedpyright", "pyrefly", "ty"), "takes what is set in a value of type Any for what is read"
    ),
    "narrowed-write": {"zuban": "takes what is set for what is read, although the field is Any"},
    "default-after-tensor": {
        "mypy-1.20": "once C[X] is evaluated, X is the default of C's other parameters: mypy#19192"
    },
    "mixed-widths": {"mypy": "joins arrays of float32 and float64 to object, since their scalar types are unrelated"},
    "narrowed-field": {"ty": "intersects the Any of an open batch's field with the declared type"},
    "narrowed-open": {"pyrefly": "narrows an open batch to the protocol itself, and not to both"},
    "next-row": {"ty": "makes an unspellable type of iter() and list() of a class whose __iter__ has a self type"},
    "proof-of-plugin": {
        "mypy": "runs without the plugin here",
        "zuban": "takes MYPY for true, as mypy does",
        "pyrefly": "reads both branches of a constant",
    },
    "record-typevar-list": dict.fromkeys(("mypy", "zuban"), _ROWS),
    "record-typevar-row": dict.fromkeys(("pyrefly", "zuban"), _ROWS),
    "record-typevar-split": {"zuban": _ROWS},
    "told-stage": {"zuban": "does not take a type variable with a default from the annotation of the result"},
    "typevar-list": {"mypy": _ROWS},
    "typevar-loop": dict.fromkeys(("pyrefly", "zuban"), _ROWS),
    "typevar-row": {"pyrefly": _ROWS},
}
"""mistake -> checker -> why it does not report it, or why only such checkers do."""

CANARY = 'canary: int = "unchecked"  # E: canary\n'
"""Closes every program, so that a checker that skips a file, or gives up within it, is found out."""


@dataclass(frozen=True)
class Mark:
    """What a program says will be reported of one of its statements."""

    mistake: str
    text: str = ""
    only: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()

    def holds_for(self, checker: str) -> bool:
        names = {checker, checker.partition("-")[0]}  # mypy-2.3 is a mypy
        return not names & self.excluded and (not self.only or bool(names & self.only))

    def exceptions(self) -> set[tuple[str, str]]:
        """The (mistake, checker) pairs that need a reason."""
        return {(self.mistake, checker) for checker in self.only | self.excluded}


class Program:
    """A program's source with its marks.

    Attributes:
        marks: first line of a statement -> its mark.
    """

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._lines = source.splitlines()
        self._starts = dict(_statements(ast.parse(source)))
        self.marks: dict[int, Mark] = {}
        for number, text in enumerate(self._lines, 1):
            if "# E:" in text:
                start = self.statement(number)
                if start in self.marks:
                    raise ValueError(f"{name}:{number}: a second mark in one statement")
                self.marks[start] = _read_mark(text, f"{name}:{number}")

    def statement(self, line: int) -> int:
        """The first line of the innermost statement that a line belongs to."""
        return self._starts.get(line, line)

    def show(self, line: int) -> str:
        text = self._lines[line - 1].strip() if 0 < line <= len(self._lines) else ""
        return f"{self._name}:{line}  {text}"


_MARK = re.compile(r"# E: ([a-z0-9-]+)(?:: ([^\[]*?))?(?:\s*\[(not|only): ([a-z0-9., -]+)\])?\s*")


def _read_mark(line: str, place: str) -> Mark:
    match = _MARK.fullmatch(line, line.index("# E:"))
    if match is None:
        raise ValueError(f"{place}: cannot read this mark: {line.strip()}")
    mistake, text, kind, names = match.groups(default="")
    checkers = frozenset(re.split(r",\s*", names)) if names else frozenset[str]()
    if unknown := checkers - CHECKERS.keys():
        raise ValueError(f"{place}: no such checkers: {', '.join(sorted(unknown))}")
    return Mark(mistake, text, only=checkers) if kind == "only" else Mark(mistake, text, excluded=checkers)


def _statements(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Line -> first line of its statement; of a compound statement, the header alone."""
    for node in ast.walk(tree):  # outer ones first, so that inner ones win
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            inner = [first.lineno for first in (*body[:1], *getattr(body[0], "decorator_list", []))] if body else []
            last = min(inner) - 1 if inner else node.end_lineno or node.lineno
            for line in range(node.lineno, max(last, node.lineno) + 1):
                yield line, node.lineno


def prepare(folder: Path, programs: Mapping[str, str]) -> None:
    """Write programs, name to source, into an empty folder, ready to be checked."""
    for name, source in programs.items():
        (folder / name).write_text(f"{source.rstrip()}\n\n{CANARY}", encoding="utf-8")


def differences(checker: str, folder: Path, diagnostics: list[Diagnostic]) -> list[str]:
    """Where the report of a checker and the marks in the programs disagree; empty when they agree."""
    found: list[str] = []
    programs = {path.name: Program(path.name, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.py"))}
    for name, program in programs.items():
        reported: dict[int, list[str]] = {}
        for diagnostic in diagnostics:
            if diagnostic.file == name:
                reported.setdefault(program.statement(diagnostic.line), []).append(diagnostic.message)
        expected = {line: mark for line, mark in program.marks.items() if mark.holds_for(checker)}
        for line in sorted(reported.keys() | expected.keys()):
            message, mark = "\n".join(reported.get(line, [])), expected.get(line)
            if mark is None:
                found.append(f"surplus  {program.show(line)}\n{message}")
            elif line not in reported:
                found.append(f"missing  {program.show(line)}")
            elif mark.text not in message:
                found.append(f"unclear  {program.show(line)}\n{mark.text!r} is not in:\n{message}")
    outside = [diagnostic for diagnostic in diagnostics if diagnostic.file not in programs]
    return found + [f"surplus  {report.file}:{report.line}  \n{report.message}" for report in outside]


def require_marked(checker: str, folder: Path, diagnostics: list[Diagnostic]) -> None:
    """Fail the test where a checker reports something else than the marks say."""
    if found := differences(checker, folder, diagnostics):
        said = f"{checker} differs from the marks in {len(found)} statements"
        pytest.fail("\n\n".join([said, *found]), pytrace=False)


def shown_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the reports that a text shows, each with its line: they are comments below it, ``# error: ``."""
    code = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip().startswith("# error: "):
            yield code, line.strip().removeprefix("# error: ")
        else:
            code = number
