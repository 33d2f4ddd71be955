"""Output of ``typedbatch validate`` as text, as JSON and as annotations for GitHub."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import NamedTuple

from rich.style import Style
from rich.text import Text

from typedbatch._report import in_a_line, page_address
from typedbatch.errors import Problem

MATCHES, FAILED, UNREADABLE = 0, 1, 2
"""Status of a file. The exit status of the command is the highest status of all files."""


class Format(StrEnum):
    """Format of the output."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


class Checked(StrEnum):
    """Level of the check."""

    STRUCTURE = "structure"
    VALUES = "values"


class Outcome(NamedTuple):
    """Result of the check of one file.

    Attributes:
        file: Path of the file.
        status: MATCHES, FAILED or UNREADABLE.
        text: The fields if the file matches, the report if it does not, the error text if it is unreadable.
        problems: All problems of the report.
    """

    file: str
    status: int
    text: str
    problems: list[Problem]


def as_text(outcomes: list[Outcome], format: Format) -> str:
    """Return the output for all files."""
    if format is Format.JSON:
        return json.dumps([_as_json(outcome) for outcome in outcomes], indent=2)
    if format is Format.GITHUB:
        return "\n".join(line for outcome in outcomes for line in _for_github(outcome)) or _summary(outcomes)
    words = {MATCHES: "ok", FAILED: "FAILED", UNREADABLE: "UNREADABLE"}
    blocks = [
        f"{words[status]}  {file}{'  ' if status == MATCHES else chr(10)}{text}" for file, status, text, _ in outcomes
    ]
    return "\n".join([*blocks, _summary(outcomes)])


def linked(text: str) -> Text:
    """Return a text in which each code is a link to its page, for terminals that support links."""
    out = Text(text)
    out.highlight_regex(r"TB\d{3}(?= [a-z-]+\])", lambda code: Style(link=page_address(code)))
    return out


def _summary(outcomes: list[Outcome]) -> str:
    count = sum(outcome.status == MATCHES for outcome in outcomes)
    return f"{count} of {len(outcomes)} {'file matches' if len(outcomes) == 1 else 'files match'}"


def _as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "file": outcome.file,
        "ok": outcome.status == MATCHES,
        "error": outcome.text if outcome.status == UNREADABLE else None,
        "problems": [problem.to_dict() for problem in outcome.problems],
    }


def _for_github(outcome: Outcome) -> list[str]:
    if outcome.status == UNREADABLE:
        return [_annotation(outcome.file, "unreadable", outcome.text)]
    return [
        _annotation(
            outcome.file,
            problem.code,
            f"batch{'.' if problem.path else ''}{problem.path}: {in_a_line(problem)}\n{problem.page}",
        )
        for problem in outcome.problems
    ]


def _annotation(file: str, title: str, text: str) -> str:
    """Return a workflow command, which is escaped as https://docs.github.com/actions describes."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    file = file.replace("%", "%25").replace(":", "%3A").replace(",", "%2C").replace("\n", "%0A")
    return f"::error file={file},title={title}::{text}"
