"""Programs of a project with texts that are not saved; only files that have changed are read and parsed again."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from typedbatch._lsp.repair import repaired
from typedbatch._program.source import (
    Location,
    Program,
    Source,
    files_in,
    located,
    made_of,
    programs_of,
    read_text,
    root_of,
)

_KEPT: Final = 3
"""Texts of a file that are kept as they are parsed: the last one, and those in which a name was typed."""


class _Parsed(NamedTuple):
    """A text of a file as Python reads it.

    Attributes:
        key: The text, and what else a source is made of.
        source: The file; None if its text cannot be repaired.
        text: The text in which lines that cannot be read do nothing.
        lines: Numbers of these lines.
    """

    key: tuple[object, ...]
    source: Source | None
    text: str
    lines: frozenset[int]


class Sources:
    """Texts of a project.

    Args:
        root: Its folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._unsaved: dict[Path, str] = {}
        self._read: dict[Path, tuple[tuple[int, int], str]] = {}
        self._parsed: dict[Path, list[_Parsed]] = {}
        self._programs: dict[tuple[Source, ...], Program] = {}
        self._files: set[Path] = set()
        self.look_again()

    def look_again(self) -> None:
        """Look again which files are in the project, and in the projects around open files."""
        roots = {self._root, *(root_of(path) for path in self._unsaved)}
        self._files = {real(path) for root in roots for path in files_in(root)}
        self._read = {path: one for path, one in self._read.items() if path in self._files}
        self._parsed = {path: one for path, one in self._parsed.items() if path in self.files}

    def put(self, path: Path, text: str | None) -> None:
        """Give a file a text; None for that on disk."""
        if text is not None:
            self._unsaved[path] = text
        else:
            self._unsaved.pop(path, None)

    @property
    def open(self) -> Collection[Path]:
        """Files with a text in the editor."""
        return self._unsaved.keys()

    @property
    def files(self) -> Collection[Path]:
        """All files."""
        return self._files | self._unsaved.keys()

    def written(self, path: Path) -> str:
        """Return the text of a file as it stands; empty if it cannot be decoded."""
        try:
            return self.read(path)
        except (OSError, SyntaxError):
            return ""

    def readable(self, path: Path) -> str | None:
        """Return the text of a file as a run has read it, with as many lines; None if too much of it is wrong."""
        text = self.written(path)
        return next((one.text for one in self._parsed.get(path, ()) if one.key[-1] == text), None)

    def read(self, path: Path) -> str:
        """Return the text of a file, from the editor or the disk.

        Raises:
            OSError: It cannot be read.
            SyntaxError: It cannot be decoded.
        """
        if path in self._unsaved:
            return self._unsaved[path]
        found = path.stat()
        version = found.st_mtime_ns, found.st_size
        if path not in self._read or self._read[path][0] != version:
            self._read[path] = version, read_text(path)
        return self._read[path][1]

    def programs(self, asked: Collection[Path] | None = None, texts: Mapping[Path, str] | None = None) -> list[Program]:
        """Return the programs of the project.

        Args:
            asked: Files of which one must be in a program; None for all programs.
            texts: Texts of files in place of those that they have.
        """
        texts = texts or {}
        found = programs_of(
            {*self.files, *texts}, lambda path: texts[path] if path in texts else self.read(path), asked, self._parse
        )
        programs = {one.sources: one for one in found}
        known = {key: self._programs.get(key, one) for key, one in programs.items()}
        if not texts and asked is None:
            self._programs = known
        return [*known.values()]

    def changed_lines(self, source: Source) -> frozenset[int]:
        """Return the numbers of the lines of a file that Python cannot read, and that do nothing in a run."""
        return next((one.lines for one in self._parsed.get(source.path, ()) if one.source is source), frozenset())

    def source_of(self, path: Path) -> Source | None:
        """Return a file by itself; None if it cannot be read."""
        try:
            return self._parse(located(path), self.read(path))
        except (OSError, SyntaxError):
            return None

    def _parse(self, location: Location, text: str) -> Source | None:
        key = (location.name, location.aliases, location.is_package, text)
        kept = self._parsed.setdefault(location.path, [])
        known = next((one for one in kept if one.key == key), None)
        readable = repaired(text) if known is None else None
        if readable is not None:
            source = made_of(location, readable.text, readable.tree)
            known = _Parsed(key, source, readable.text, readable.lines)
        elif known is None:
            known = kept[0] if kept else _Parsed(key, None, "", frozenset())
        kept[:] = [known, *(one for one in kept if one is not known)][:_KEPT]
        return known.source


def real(path: Path) -> Path:
    """Return the path behind links; that of a link to itself as it stands, at which ``Path.resolve`` fails."""
    return Path(os.path.realpath(path))
