"""Report of a ``SchemaError`` as lines of parts, for plain text and for rich text with colors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from typedbatch.errors import Problem

Part = tuple[str, str]
"""Text that is not broken into lines, and its style under rich."""

WIDTH = 100
"""Number of characters at which a line is broken between parts."""
MOST = 50
"""Largest number of problems that are listed."""
PAGES = "https://typedbatch.readthedocs.io/en/stable/errors"
"""Address of the pages of the codes, in the documentation that pyproject.toml names."""


def lines(
    schema: str, place: str, boundary: str, got: str, problems: Iterable[Problem], head: str = ""
) -> Iterator[list[Part]]:
    """Yield the report, line by line.

    ``head`` replaces the first line in a report on the arguments of a call, in which paths begin with an argument.
    """
    problems = list(problems)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    # The article depends on the sound: an ObsBatch, an RLBatch, a UserBatch.
    article = "an" if re.match(r"[AEIO]|U(?!s|ni|t)|[FHLMNRSX](?=[A-Z0-9]|$)", schema) else "a"
    yield [(f"{head or f'batch is not {article} {schema}'} ({count})", "bold")]
    for label, text in (("boundary", boundary), ("schema", place), ("got", got)):
        if text:
            parts = printable(text).split("  ")
            yield from _flow([(f"  {label:<9}", "dim"), *((part, "") for part in parts)], 13)
    names = [shorten(printable(problem.path)) for problem in problems[:MOST]]
    if not head:
        names = [f"batch{'' if name[:1] in ('', '[') else '.'}{name}" for name in names]
    shown: set[str] = set()
    width = min(max(map(len, names), default=0), 24)
    for name, problem in zip(names, problems[:MOST], strict=True):
        said, code = (printable(_text(problem)), ""), (f"[{problem.code}]", f"dim link {problem.page}")
        yield from _flow([(f"  {name:<{width}}", "bold red"), said, code], width + 4)
        if problem.hint and problem.hint not in shown:  # A hint that several fields share is shown once.
            shown.add(problem.hint)
            hint = [(part, "green") for part in printable(problem.hint).split("  ")]
            yield from _flow([(" " * (width + 2), ""), *hint], width + 4)
    if len(problems) > MOST:
        yield [(f"  and {len(problems) - MOST} more; error.problems has them all", "dim")]


def plain(report: Iterable[list[Part]]) -> str:
    """Return the report as text."""
    return "\n".join("  ".join(text for text, _ in parts) for parts in report)


def as_rich(report: Iterable[list[Part]]) -> Text:
    """Return the report as rich text, with the same characters."""
    from rich.text import Text

    return Text("\n").join(Text("  ").join(Text(text, style) for text, style in parts) for parts in report)


def _flow(parts: list[Part], indent: int) -> Iterator[list[Part]]:
    """Yield the parts as one line, or as several if they are too long; all lines but the first are indented."""
    line, length = parts[:1], len(parts[0][0])
    for part in parts[1:]:
        length += 2 + len(part[0])
        if length > WIDTH and len(line) > 1:
            yield line
            line, length = [(" " * (indent - 2), "")], indent + len(part[0])
        line.append(part)
    yield line


def page_address(code: str) -> str:
    """Return the address of the page of a code, given with its name or without."""
    return f"{PAGES}/{code.split()[0]}.html"


def shorten(path: str) -> str:
    """Return a path with its middle left out if it is longer than 80 characters."""
    return path if len(path) <= 80 else f"{path[:38]}...{path[-38:]}"


def cut(text: str, most: int) -> str:
    """Return a text cut to ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str) -> str:
    """Return a text with unprintable characters escaped, since any string can be the name of a field."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def describe_problem(problem: Problem) -> str:
    """Return a problem as one line, followed by its hint as another."""
    rows = list(lines("", "", "", "", [problem]))[1:]
    return plain(rows).replace("\n  ", "\n").strip()


def in_a_line(problem: Problem) -> str:
    """Return the text of a problem and its hint, without the field and the code."""
    return f"{_text(problem)}; {problem.hint}" if problem.hint else _text(problem)


def _text(problem: Problem) -> str:
    return problem.got if problem.expected in problem.got else f"{problem.got}, expected {problem.expected}"
