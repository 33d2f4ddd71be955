"""mypy in memory: it knows the texts that an editor has not saved, and checks again what an edit touches."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mypy.build import BuildResult
from mypy.find_sources import create_source_list
from mypy.nodes import Expression, MypyFile
from mypy.server.update import FineGrainedBuildManager
from mypy.types import Type

from typedbatch._lsp.building import Program, Setup, write_cache_in_process
from typedbatch._lsp.findings import Findings
from typedbatch._lsp.places import Places
from typedbatch._lsp.reduced import reduced
from typedbatch._lsp.repair import Cursor, repaired
from typedbatch.cli.diagnostics import Diagnostic
from typedbatch.cli.mypy_run import text_of, tree_of
from typedbatch.errors import SettingError
from typedbatch.mypy.batches.texts import use_texts
from typedbatch.mypy.engine.observing import observe_files

_BESIDE = "typedbatch_completion"
"""Name of a module that is checked beside a file, in which a name is being typed."""


class Checker:
    """A program in memory.

    Args:
        setup: The project.
        rebuild: Whether the cache is written again, as the program imports packages that are not in it.

    Attributes:
        unread_imports: Packages that files import since the cache was written; nothing is checked if there are any.
    """

    def __init__(self, setup: Setup, *, rebuild: bool = False) -> None:
        program, built = _loaded(setup, rebuild)
        self._overlay = program.overlay
        self._options = program.options
        for options in (program.options, *(program.options._per_module_cache or {}).values()):  # noqa: SLF001
            options.native_parser = False  # It reads files from the disk itself; mypy has no other way to say so.
        self._fine = FineGrainedBuildManager(built)
        self._manager = built.manager
        self._modules: dict[str, str] = {
            os.path.normpath(one.path): one.module for one in program.sources if one.path is not None
        }
        self._known_texts: dict[str, str] = {}
        self._changed_lines: dict[str, frozenset[int]] = {}
        self._findings = Findings()
        self.places: Places = Places()
        observe_files(self.places.observe)
        changed = [*self._changed_on_disk()]
        self.unread_imports = self.imports_others(map(self.text_of, changed))
        if not self.unread_imports:
            self.update(dict.fromkeys(changed))

    @property
    def paths(self) -> list[str]:
        """Paths of the files of the project."""
        return [path for path in self._modules if _BESIDE not in path]

    def module_of(self, path: str) -> str | None:
        """Return the name of the module that a file is."""
        if path not in self._modules:
            found = create_source_list([path], self._options, self._overlay) if path.endswith((".py", ".pyi")) else []
            self._modules.update((path, one.module) for one in found)
        return self._modules.get(path)

    def text_of(self, path: str) -> str:
        """Return the text of a file as it is checked; empty if there is none."""
        try:
            return self._overlay.read(path).decode("utf-8", "replace")
        except OSError:
            return ""

    def update(self, texts: Mapping[str, str | None]) -> None:
        """Check files, and what depends on them.

        Args:
            texts: Texts of the files that have changed; None for those on disk.
        """
        for path, text in texts.items():
            good = self._known_texts.get(path, "")
            self._put(path, text)
            if not self._check(path):
                self._put(path, good)  # mypy refuses what Python can read, and would check nothing else.
                self._check(path)

    def found_in(self, path: str) -> list[Diagnostic]:
        """Return what was found in a file, but for lines that cannot be read yet."""
        skipped = self._changed_lines.get(path, frozenset())
        return [one for one in self._findings.of(path) if one.line not in skipped]

    @property
    def paths_with_findings(self) -> list[str]:
        """Paths of the files in which there are findings."""
        return [path for path in self._findings.paths if _BESIDE not in path]

    def imports_others(self, texts: Iterable[str]) -> set[str]:
        """Return the packages that texts import which are installed, and not part of the program."""
        tops = {name.partition(".")[0] for text in texts for name in _imported(text)}
        find = self._manager.find_module_cache.find_module
        return {top for top in tops if top not in self._fine.graph and isinstance(find(top), str)}

    def types_in(self, paths: Iterable[str]) -> dict[Expression, Type]:
        """Check files again, and return the types of the expressions in them."""
        self._options.export_types = True
        self._manager.all_types.clear()
        try:
            self.update({path: self._known_texts.get(path) for path in paths})
            return dict(self._manager.all_types)
        finally:
            self._options.export_types = False
            self._manager.all_types.clear()

    def tree_of(self, path: str) -> MypyFile | None:
        """Return the syntax of a file."""
        module = self._modules.get(path)
        return self._manager.modules.get(module) if module is not None else None

    def check_beside(self, path: str, cursor: Cursor) -> str:
        """Check a text beside a file, without what its line does not need, and return the path of what is checked."""
        module = self.module_of(path) or Path(path).stem
        beside = os.path.join(os.path.dirname(path), f"{_BESIDE}.py")
        self._overlay.put(beside, reduced(cursor.text, cursor.line))
        self._modules[beside] = ".".join([*module.split(".")[:-1], _BESIDE])
        self._check(beside)
        return beside

    def _put(self, path: str, text: str | None) -> None:
        """Have mypy read a text, or the last one that could be read."""
        wanted = self._on_disk(path) if text is None else text
        readable = repaired(wanted) if wanted is not None else None
        self._changed_lines.pop(path, None)
        if wanted is None or (text is None and readable is not None and not readable.lines):
            self._overlay.put(path, None)
            self._known_texts.pop(path, None)
        elif readable is not None:
            self._overlay.put(path, readable.text)
            self._known_texts[path] = readable.text
            self._changed_lines[path] = readable.lines
        else:
            self._overlay.put(path, self._known_texts.get(path, ""))
        use_texts({Path(one).absolute(): text for one, text in self._known_texts.items()})

    def _on_disk(self, path: str) -> str | None:
        try:
            return text_of(Path(path))
        except (OSError, SyntaxError):
            return None

    def _check(self, path: str) -> bool:
        """Check a file, and return whether mypy could."""
        if self._overlay.hides(path):
            return True
        is_there = self._overlay.isfile(path)
        module = self.module_of(path) if is_there else self._modules.get(path)
        if module is None:
            return True
        self.places.forget(path)
        fine = self._fine
        fine.previous_targets_with_errors = set()  # They are in the findings, and would be checked in each update.
        fine.update([(module, path)] if is_there else [], [] if is_there else [(module, path)])
        fine.flush_cache()
        if fine.blocking_error is not None:
            return False
        updated = {one: fine.graph[one].path for one in fine.updated_modules if one in fine.graph}
        targets = set(fine.processed_targets) - updated.keys()
        self._findings.renew(
            self._manager.errors.error_info_map, [path, *(one for one in updated.values() if one)], targets
        )
        return True

    def _changed_on_disk(self) -> Iterator[str]:
        """Yield the files that are not as they are in the cache."""
        for path, module in self._modules.items():
            state = self._fine.graph.get(module)
            meta = state.meta if state is not None else None
            if meta is None or self._overlay.hash_digest(path) != meta.hash:
                yield path


def _loaded(setup: Setup, rebuild: bool) -> tuple[Program, BuildResult]:
    """Return the program of a project as it is in the cache, which is written again if it cannot be loaded.

    Files that mypy cannot read, or that are in the place of Python's library, may have come since it was written.
    """
    program = _program_with_cache(setup, rebuild)
    try:
        return program, program.loaded()
    except (SettingError, SystemExit):
        if rebuild:
            raise
    program = _program_with_cache(setup, rebuild=True)
    return program, program.loaded()


def _program_with_cache(setup: Setup, rebuild: bool) -> Program:
    """Return the program of a project whose cache is there; if it cannot be built as a whole, of its open files."""
    only: list[str] | None = None
    for only in (None, list(setup.texts or {})):
        try:
            program = setup.program(only)
            if rebuild or not program.is_ready():
                write_cache_in_process(setup, only)
            return program
        except SettingError:
            if only is not None:
                raise
    raise AssertionError


def _imported(text: str) -> Iterator[str]:
    try:
        tree = tree_of(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module
