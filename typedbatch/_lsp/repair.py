"""Texts that Python cannot read yet, because somebody is typing them, made readable."""

from __future__ import annotations

import ast
import re
from typing import Final, NamedTuple

from typedbatch.cli import mypy_run

_RECURSION: Final = 600
"""Limit of recursion, with which Python reads sums of 1,800 numbers. A run does not come to the end of longer ones."""
_MOST = 12
"""Lines that are taken out of a text, at most."""
_HEADER: Final = re.compile(r"expected an indented block after .* on line (\d+)")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_QUOTES: Final = re.compile(r"\"\"\"|'''|\"|'")
PLACEHOLDER: Final = "typedbatch_placeholder"
"""Name that stands where the name of a field is still to be typed."""


class Repaired(NamedTuple):
    """A text that Python can read.

    Attributes:
        text: The text, with as many lines as before.
        lines: Numbers of the lines that were changed, from 1.
        tree: Its syntax.
    """

    text: str
    lines: frozenset[int]
    tree: ast.Module


def tree_of(text: str) -> ast.Module:
    """Return the syntax of a text that a run can go through.

    Raises:
        SyntaxError: It is not valid Python, or nested too deeply.
    """
    return mypy_run.tree_of(text, _RECURSION)


def repaired(text: str) -> Repaired | None:
    """Return a text with the lines taken out that Python cannot read; None if too many lines are wrong."""
    lines = text.split("\n")
    changed: set[int] = set()
    for _ in range(_MOST):
        try:
            return Repaired("\n".join(lines), frozenset(changed), tree_of("\n".join(lines)))
        except SyntaxError as found:
            error = found
        header = _HEADER.search(error.msg)
        at = int(header[1]) if header else min(max(error.lineno or 1, 1), len(lines))
        while at > 1 and (at in changed or not lines[at - 1].strip()) and not header:
            at -= 1
        if at in changed and not header:
            return None
        line = lines[at - 1]
        if header:
            lines[at - 1] = f"{line.rstrip()} pass"
        else:
            lines[at - 1] = _indentation(line) + ("if True:" if line.rstrip().endswith(":") else "pass")
        changed.add(at)
    return None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


class Cursor(NamedTuple):
    """A place behind ``receiver.`` or ``receiver["``, where the name of a field is typed.

    Attributes:
        text: Readable text with the placeholder at the place.
        line: Line of the place, from 1.
        column: Column in bytes at which the receiver ends, from 0.
        is_key: The name is a key.
    """

    text: str
    line: int
    column: int
    is_key: bool


_FIELD: Final = re.compile(r"(?:\.\s*(?P<name>\w*)|\[\s*(?P<quote>['\"])(?P<key>[^'\"\[\]]*))$")


def cursor_at(text: str, line: int, column: int) -> Cursor | None:
    """Return the place of a name that is being typed; None if no field can come there.

    Args:
        text: Text of the file.
        line: Line of the cursor, from 1.
        column: Column of the cursor in the line, from 0.
    """
    lines = text.split("\n")
    if line > len(lines):
        return None
    before, behind = lines[line - 1][:column], lines[line - 1][column:]
    found = _FIELD.search(before)
    if found is None or found.start() == 0 or _is_in_text(before[: found.start()]):
        return None
    is_key = found["quote"] is not None
    prefix = found["key"] if is_key else found["name"]
    column = len(before[: found.start()].rstrip())
    start = before.removesuffix(prefix) + PLACEHOLDER
    rest = re.sub(r"^\w*", "", behind)
    closing = (found["quote"] + "]" if is_key else "") + _closing(before[: found.start()])
    ways = [rest, closing, f"{closing}: pass", *[closing[:count] + rest for count in range(1, len(closing) + 1)]]
    if "lambda" in before:
        ways = []  # A run goes into a function that is an expression only where it is called.
    receiver = _receiver(before[: found.start()])
    if not receiver:
        return None
    alone = _indentation(before) + receiver
    for way, end in [*((start + way, column) for way in ways), (alone, len(alone))]:
        lines[line - 1] = way
        made = repaired("\n".join(lines))
        if made is not None and line not in made.lines:
            return Cursor(made.text, line, len(way[:end].encode()), is_key)
    return None


def _is_in_text(before: str) -> bool:
    """Return whether a line ends inside of a text or a comment."""
    quote = ""
    at = 0
    while at < len(before):
        if quote:
            if before[at] == "\\":
                at += 1
            elif before.startswith(quote, at):
                at += len(quote) - 1
                quote = ""
        elif before[at] == "#":
            return True
        elif (found := _QUOTES.match(before, at)) is not None:
            quote = found[0]
            at += len(quote) - 1
        at += 1
    return bool(quote)


def _closing(before: str) -> str:
    """Return the brackets that close those which are open at the end of a line."""
    open_: list[str] = []
    for character in re.sub(r"\"[^\"]*\"|'[^']*'", "", before):
        if character in _CLOSING:
            open_.append(_CLOSING[character])
        elif open_ and character == open_[-1]:
            open_.pop()
    return "".join(reversed(open_))


def _receiver(before: str) -> str:
    """Return the expression at the end of a line."""
    depth, at = 0, len(before)
    while at:
        character = before[at - 1]
        if character in ")]}":
            depth += 1
        elif character in "([{":
            if not depth:
                break
            depth -= 1
        elif not depth and not (character.isalnum() or character in "_."):
            break
        at -= 1
    return before[at:].strip()
