"""The report of a ``SchemaError``, as lines of parts: for the console as plain text, under rich with colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from typedbatch.errors import Problem

Part = tuple[str, str]
"""Text that is not broken, and the style that rich gives it."""

WIDTH = 100
MOST = 50
"""At most this many problems are listed."""
PAGES = "https://typedbatch.readthedocs.io/en/stable/errors"
"""Where the pages of the codes are; the project's documentation, as pyproject.toml names it."""


def lines(
    schema: str, place: str, boundary: str, got: str, problems: Iterable[Problem], head: str = ""
) -> Iterator[list[Part]]:
    """The report, line by line; ``head`` for one on the arguments of a call, where paths begin with an argument."""
    problems = list(problems)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    yield [(f"{head or f'batch is not {_article(schema)} {schema}'} ({count})", "bold")]
    for label, text in (("boundary", boundary), ("schema", place), ("got", got)):
        if text:
            parts = printable(text).split("  ")
            yield from _flow([(f"  {label:<9}", "dim"), *((part, "") for part in parts)], 13)
    where = _argument if head else _where
    names = [where(problem.path) for problem in problems[:MOST]]
    shown: set[str] = set()
    width = min(max(map(len, names), default=0), 24)
    for name, problem in zip(names, problems[:MOST], strict=True):
        yield from _flow(
            [
                (f"  {name:<{width}}", "bold red"),
                (printable(_says(problem)), ""),
                (f"[{problem.code}]", f"dim link {problem.page}"),
            ],
            width + 4,
        )
        if problem.hint and problem.hint not in shown:  # the same hint for every field is one hint
            shown.add(problem.hint)
            yield from _flow(
                [(" " * (width + 2), ""), *((part, "green") for part in printable(problem.hint).split("  "))],
                width + 4,
            )

    if len(problems) > MOST:
        yield [(f"  and {len(problems) - MOST} more; error.problems has them all", "dim")]


def plain(report: Iterable[list[Part]]) -> str:
    """The report as text."""
    return "\n".join("  ".join(text for text, _ in parts) for parts in report)


def as_rich(report: Iterable[list[Part]]) -> Text:
    """The report as rich text: the same characters."""
    from rich.text import Text

    return Text("\n").join(Text("  ").join(Text(text, style) for text, style in parts) for parts in report)


def _flow(parts: list[Part], indent: int) -> Iterator[list[Part]]:
    """One line, or several that are broken between its parts; what follows is indented."""
    line, length = parts[:1], len(parts[0][0])
    for part in parts[1:]:
        length += 2 + len(part[0])
        if length > WIDTH and len(line) > 1:
            yield line
            line, length = [(" " * (indent - 2), "")], indent + len(part[0])
        line.append(part)
    yield line


def _where(path: str) -> str:
    return f"batch{'' if path.startswith('[') or not path else '.'}{shorten(printable(path))}"


def _argument(path: str) -> str:
    return shorten(printable(path))


def page_address(code: str) -> str:
    """The address of the page of a code, with its name or without."""
    return f"{PAGES}/{code.split()[0]}.html"


def shorten(path: str) -> str:
    """A path that fits into a line."""
    return path if len(path) <= 80 else f"{path[:38]}...{path[-38:]}"


def cut(text: str, most: int) -> str:
    """A text of so many characters at most."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str) -> str:
    """A text on a terminal, whatever is in it."""
    # A field may be called anything; the report stays a report.
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _article(noun: str) -> str:
    # By the sound: an ObsBatch, an RLBatch, a UserBatch.
    return "an" if re.match(r"[AEIO]|U(?!s|ni|t)|[FHLMNRSX](?=[A-Z0-9]|$)", noun) else "a"


def describe_problem(problem: Problem) -> str:
    """One problem in a line, and its hint in another."""
    rows = list(lines("", "", "", "", [problem]))[1:]
    return plain(rows).replace("\n  ", "\n").strip()


def in_a_line(problem: Problem) -> str:
    """What a problem says of its field, without the field and the code."""
    return f"{_says(problem)}; {problem.hint}" if problem.hint else _says(problem)


def _says(problem: Problem) -> str:
    return problem.got if problem.expected in problem.got else f"{problem.got}, expected {problem.expected}"
