"""Open documents: a file, or the cells of a notebook, which are checked as one file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

_WHOLE_CELL: Final = ("time", "timeit", "capture", "prun")
"""Magics of cells whose other lines are Python."""
_MAGIC: Final = re.compile(r"^\s*(?:[%!?]|\w+\s*=\s*[%!]|[\w.]+\?{1,2}\s*$)")


@dataclass(frozen=True)
class Part:
    """A text of the client in a document.

    Attributes:
        uri: Address of the text.
        first: Line of the document at which it begins, from 0.
        lines: Its lines.
    """

    uri: str
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """A file of a project as the client has it.

    Attributes:
        path: Path in the project.
        parts: One text, or those of the cells.
        is_notebook: Whether the parts are cells.
    """

    path: str
    parts: tuple[Part, ...]
    is_notebook: bool = False

    @cached_property
    def text(self) -> str:
        """The text that is checked."""
        cells = [_without_magics(part.lines) if self.is_notebook else part.lines for part in self.parts]
        return "\n".join(line for cell in cells for line in cell)

    def part_of(self, uri: str) -> Part | None:
        """Return the text with an address."""
        return next((part for part in self.parts if part.uri == uri), None)

    def part_at(self, line: int) -> Part | None:
        """Return the text in which a line is, from 1."""
        found = [part for part in self.parts if part.first < line <= part.first + len(part.lines)]
        return found[0] if found else None


def of_file(path: str, uri: str, text: str) -> Document:
    """Return the document of a file."""
    return Document(path, (Part(uri, 0, _lines_of(text)),))


def of_cells(path: str, cells: Sequence[tuple[str, str]]) -> Document:
    """Return the document of a notebook, of the addresses and texts of its cells."""
    parts: list[Part] = []
    first = 0
    for uri, text in cells:
        parts.append(Part(uri, first, _lines_of(text)))
        first += len(parts[-1].lines)
    return Document(path, tuple(parts), is_notebook=True)


def module_path(notebook: str) -> str:
    """Return a path for a notebook that a module may have."""
    path = Path(notebook)
    return str(path.with_name(re.sub(r"\W", "_", path.name) + ".py"))


def _lines_of(text: str) -> tuple[str, ...]:
    readable = re.sub("[\ud800-\udfff]", "\ufffd", text)  # Halves of characters, which no file can have.
    return tuple(re.split(r"\r\n|\n|\r", readable))


def _without_magics(lines: Sequence[str]) -> list[str]:
    """Return lines of a cell in which those that IPython reads itself do nothing."""
    first = next((line for line in lines if line.strip()), "").strip()
    if first.startswith("%%") and first[2:].split(" ")[0] not in _WHOLE_CELL:
        return [""] * len(lines)
    return [re.sub(r"\S.*", "pass", line) if _MAGIC.match(line) else line for line in lines]
