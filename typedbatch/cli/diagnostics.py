"""Diagnostics: what is found in a file, and the formats in which they are printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

from typedbatch._report import page_address

_LINE: Final = re.compile(
    r"(?P<file>.*?):(?P<line>\d+):(?P<column>\d+):(?P<end_line>\d+):(?P<end_column>\d+): "
    r"(?P<severity>error|note): (?P<message>.*?)(?:  \[(?P<code>[\w-]+)\])?$"
)
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True)
class Diagnostic:
    """A finding in a file, whose path is as it was given. Lines and columns count from 1.

    The code is as ``"batch-field"``, ``"syntax"`` for a file that cannot be read as Python, and ``"unchecked"`` for one
    that is left out. The trace names the lines by which the program comes to the mistake.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    severity: Literal["error", "note"]
    message: str
    code: str
    trace: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        """Address of the page that explains the code; empty for ``"syntax"`` and ``"unchecked"``."""
        return page_address(self.code) if self.code.startswith("batch-") else ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}  [{self.code}]"

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnostic as values of JSON, with the address of its page."""
        return {**asdict(self), "page": self.page}


def parsed(output: str) -> list[Diagnostic]:
    """Return the diagnostics in what mypy printed with ``--show-error-end``. Lines of other kinds are left out."""
    found = []
    for match in filter(None, map(_LINE.match, output.splitlines())):
        parts: dict[str, Any] = match.groupdict("")
        parts |= {name: int(parts[name]) for name in ("line", "column", "end_line", "end_column")}
        found.append(Diagnostic(**parts))
    return found


def as_text(found: Iterable[Diagnostic], *, explain: bool = False) -> str:
    """Return one line for each diagnostic, as checkers print it, with the lines of its trace below if asked for."""
    return "\n".join("\n    ".join([str(one), *(one.trace if explain else ())]) for one in found)


def as_json(found: Iterable[Diagnostic]) -> str:
    """Return a list of objects."""
    return json.dumps([one.to_dict() for one in found], indent=2)


def as_github(found: Iterable[Diagnostic]) -> str:
    """Return workflow commands, which annotate the lines of a pull request."""
    lines = []
    for one in found:
        place = {"line": one.line, "col": one.column, "endLine": one.end_line, "endColumn": one.end_column}
        properties = {"file": one.file, **place, "title": one.code}
        kind = "error" if one.severity == "error" else "notice"
        lines.append(annotation(kind, properties, f"{one.message} {one.page}".strip()))
    return "\n".join(lines)


def annotation(kind: str, properties: Mapping[str, Any], text: str) -> str:
    """Return a workflow command, which is escaped as https://docs.github.com/actions describes."""
    listed = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in properties.items())
    return f"::{kind} {listed}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def as_sarif(found: Iterable[Diagnostic]) -> str:
    """Return a log in the format of SARIF 2.1.0, which code scanning of GitHub and others read."""
    found = list(found)
    pages = {one.code: one.page for one in found}
    rules = [{"id": code, "helpUri": page} if page else {"id": code} for code, page in sorted(pages.items())]
    driver = {"name": "typedbatch", "version": metadata.version("typedbatch"), "rules": rules}
    results = []
    for one in found:
        start = {"startLine": one.line, "startColumn": one.column}
        region = {**start, "endLine": one.end_line, "endColumn": one.end_column + 1}
        place = {"physicalLocation": {"artifactLocation": {"uri": Path(one.file).as_posix()}, "region": region}}
        results.append(
            {"ruleId": one.code, "level": one.severity, "message": {"text": one.message}, "locations": [place]}
        )
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(log, indent=2)
