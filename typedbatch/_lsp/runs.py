"""Runs of the programs of a project, one after each edit of a program."""

from __future__ import annotations

import os
import traceback
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from typedbatch._lsp.places import Places, Site
from typedbatch._lsp.sources import Sources, real
from typedbatch._lsp.watching import Watching
from typedbatch._program.arrays.sizes import Ranks
from typedbatch._program.report import SHAPES, Finding, Outcome
from typedbatch._program.run import run
from typedbatch._program.source import Program, Source
from typedbatch.cli.check import diagnostic_of, warning_of
from typedbatch.cli.settings import Settings, settings_of
from typedbatch.errors import SettingError


class _Ran(NamedTuple):
    """A program that has run.

    Attributes:
        program: The program.
        outcome: What was found.
        places: What was seen in the files that are open.
        writers: Nodes that set a field, by its name.
    """

    program: Program
    outcome: Outcome
    places: Mapping[Source, Places]
    writers: Mapping[str, Collection[Site]]


_Key = tuple[tuple[Source, ...], frozenset[Source]]
"""The files of a program, and those of them that are open."""


class Runs:
    """Runs of the programs of a project.

    Files are named by their paths in the project.

    Args:
        root: Folder of the project.
    """

    def __init__(self, root: Path) -> None:
        self._root = real(root)
        self._settings = _settings_of(self._root)
        self._asked = [real(self._root / one) for one in self._settings.files_from(self._root)] or [self._root]
        self._sources = Sources(self._root)
        self._names: dict[Path, str] = {}
        self._ran: dict[_Key, _Ran] = {}
        self._thorough: dict[Source, Places] = {}

    # Texts

    def path_of(self, name: str) -> Path:
        """Return the path of a file."""
        path = real(self._root / name)
        self._names[path] = name
        return path

    def name_of(self, path: Path) -> str:
        """Return the path of a file in the project."""
        return self._names.get(path) or Path(os.path.relpath(path, self._root)).as_posix()

    def written(self, name: str) -> str:
        """Return the text of a file as it stands; empty if it cannot be decoded."""
        return self._sources.written(self.path_of(name))

    def text_of(self, name: str) -> str | None:
        """Return the text of a file as a run has read it, with as many lines; None if too much of it is wrong."""
        return self._sources.readable(self.path_of(name))

    @property
    def files(self) -> list[str]:
        """The files of the project."""
        return sorted(self.name_of(path) for path in self._sources.files if path.is_relative_to(self._root))

    def update(self, texts: Mapping[str, str | None]) -> dict[str, Any]:
        """Run the programs that have changed, and return what is found in all files.

        Args:
            texts: Texts of the files that have changed; None for those on disk.
        """
        paths = {name: self.path_of(name) for name in texts if name.endswith(".py")}
        is_new = any(texts[name] is None or path not in self._sources.files for name, path in paths.items())
        for name, path in paths.items():
            self._sources.put(path, texts[name])
        if is_new:
            self._sources.look_again()
        before, self._ran, self._thorough = self._ran, {}, {}
        for program in self._sources.programs():
            watched = frozenset(one for one in program.sources if one.path in self._sources.open)
            key = program.sources, watched
            self._ran[key] = before.get(key) or self._run(program, watched)
        left = [ran.outcome.unfinished for ran in self._ran.values()]
        notes = [warning_of(one, self._root) for one in left if one is not None]
        return {"found": {**{name: [] for name in texts}, **self._found()}, "notes": notes}

    def _found(self) -> dict[str, list[dict[str, Any]]]:
        """Return what is found in each file, but for lines that cannot be read yet."""
        found: dict[str, list[dict[str, Any]]] = {}
        for (sources, _), ran in self._ran.items():
            skipped = {one.path: self._sources.changed_lines(one) for one in sources}
            for one in ran.outcome.findings:
                if one.line not in skipped[one.path] and self._is_shown(one):
                    diagnostic = diagnostic_of(one, self._root).to_dict()
                    found.setdefault(self.name_of(one.path), []).append(diagnostic)
        return found

    def _is_shown(self, finding: Finding) -> bool:
        path, settings = finding.path, self._settings
        is_asked = path in self._sources.open or any(path.is_relative_to(one) for one in self._asked)
        is_shown = is_asked and path.is_relative_to(self._root) and not settings.excludes(path)
        return is_shown and not finding.is_ignored and (finding.code not in SHAPES or settings.wants_shapes)

    def _run(self, program: Program, watched: Collection[Source]) -> _Ran:
        made: list[Watching] = []

        def make(program: Program, ranks: Ranks) -> Watching:
            made.append(Watching(program, ranks, watched))
            return made[0]

        try:
            outcome = run(program, make=make)
        except Exception:  # noqa: BLE001  # other programs of the project are run all the same
            traceback.print_exc()
            outcome = Outcome([])
        seen = made[0] if made else None
        return _Ran(program, outcome, seen.places if seen else {}, seen.writers if seen else {})

    # What was seen

    def places_in(self, name: str, line: int = 0) -> Places:
        """Return what was seen in a file that is open.

        Args:
            name: The file.
            line: A line that is asked about. If the program never comes there, both branches of each ``if`` are run.
        """
        path = self.path_of(name)
        found = [(ran, source) for ran in self._ran.values() for source in ran.places if source.path == path]
        for ran, source in found:
            if not line or ran.places[source].knows(line):
                return ran.places[source]
            if source not in self._thorough:
                self._thorough |= _seen_in(ran.program, [source], is_thorough=True)
            return self._thorough[source]
        return Places()

    def places_with(self, name: str, text: str, line: int) -> Places:
        """Return what is seen in a file with another text, which Python can read, where a line is asked about."""
        path = self.path_of(name)
        for program in self._sources.programs({path}, {path: text}):
            watched = [one for one in program.sources if one.path == path]
            places = _seen_in(program, watched)[watched[0]]
            return places if places.knows(line) else _seen_in(program, watched, is_thorough=True)[watched[0]]
        return Places()

    def writers_of(self, field: str) -> list[Site]:
        """Return the nodes that set a field of a batch, in any file."""
        return sorted({site for ran in self._ran.values() for site in ran.writers.get(field, ())})

    def all_places_in(self, names: Collection[str]) -> dict[str, Places]:
        """Return what is seen in files if all of their functions are run, and both branches of each ``if``."""
        names_of = {self.path_of(name): name for name in names}
        programs = self._sources.programs()
        inside = {source.path for program in programs for source in program.sources}
        alone = [self._sources.source_of(path) for path in names_of if path not in inside]
        programs += [Program([source]) for source in alone if source is not None]
        found = dict[str, Places]()
        for program in programs:
            watched = [source for source in program.sources if source.path in names_of]
            seen = _seen_in(program, watched, is_thorough=True) if watched else {}
            found.update({names_of[source.path]: places for source, places in seen.items()})
        return found


def _seen_in(program: Program, watched: Collection[Source], *, is_thorough: bool = False) -> dict[Source, Places]:
    """Run a program, and return what was seen in some of its files."""
    watching = Watching(program, Ranks(), watched, is_thorough=is_thorough)
    watching.run()
    return watching.places


def _settings_of(root: Path) -> Settings:
    try:
        return settings_of(root)
    except SettingError as error:
        traceback.print_exception(error)
        return Settings(root)
