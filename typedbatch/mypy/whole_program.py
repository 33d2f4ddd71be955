"""Findings of a run of the whole program that lie in the file which mypy checks.

What a run finds depends on the texts of all files of the program and on nothing else, so the verdict on a file is the
same in any order, from the cache and in the daemon. Each file depends on all others of its program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from mypy.errorcodes import ErrorCode
from mypy.errors import ErrorInfo
from mypy.nodes import ClassDef, Context, Decorator, Expression, FuncDef, MypyFile

from typedbatch._program.report import NOTE, UNUSED, Finding, Outcome
from typedbatch._program.source import Program, files_in, programs_of, root_of
from typedbatch.mypy import messages
from typedbatch.mypy.internals import Api, add_note, depend, errors_of, publish, reporting_for
from typedbatch.mypy.settings import wants_own_codes

TEXTS: Final = "_<texts>"
"""Name of the symbol of a file that changes with the texts of its program."""
_SHAPES: Final = {code.code: code for code in (messages.SHAPE, messages.DTYPE)}
_CODES: Final = _SHAPES | {
    code.code: code for code in (messages.FIELD, messages.MAYBE, messages.ARGUMENT, messages.EXTEND, messages.SWAPPED)
}
_QUOTED: Final = re.compile(r'"(\w+)"')
_IGNORED: Final = re.compile(r"#\s*type:\s*ignore\[[^\]]*\b(return-value|assignment|list-item|dict-item|type-var)\b")
"""A comment that ignores what mypy itself says of a batch."""
_LIBRARIES: Final = frozenset({"site-packages", "typeshed"})
_OURS: Final = Path(__file__).parents[1]
"""Folder of this package, which is of no program; beside it, in a checkout, are hundreds of files of tests."""


class _Root:
    """The programs of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.versions = self._listed()
        self.programs = {
            source.path: known for known in map(_Known, programs_of(self.versions)) for source in known.program.sources
        }

    def has_changed(self) -> bool:
        """Return whether a file has changed, or is there or gone since."""
        return self._listed() != self.versions

    def _listed(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in files_in(self._folder) if path.exists()}


class _Known:
    """A program, which is run when somebody asks for what is found."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._outcome: Outcome | None = None

    @cached_property
    def digest(self) -> str:
        """Text that changes with the text of any file."""
        found = sha256()
        for source in self.program.sources:
            found.update("\n".join([str(source.path), *source.lines]).encode("utf-8", "surrogatepass"))
        return found.hexdigest()[:16]

    def outcome(self, *, unused_sizes: bool) -> Outcome:
        """Return what a run finds, in all files of the program."""
        from typedbatch._program.run import run  # It takes as long as half of the plugin, and most code has no batches.

        if self._outcome is None:
            self._outcome = run(self.program, unused_sizes=unused_sizes)
        return self._outcome


_roots: dict[Path, _Root] = {}
_root_of_folder: dict[Path, Path] = {}


def forget() -> None:
    """Forget what is known of files, before another run of mypy."""
    _roots.clear()
    _root_of_folder.clear()
    _sent.clear()
    _own_codes.clear()


def digest_of_program(path: str) -> str:
    """Return a text that changes with the program that a file belongs to; empty if there is none."""
    known = _known_of(path)
    return known.digest if known is not None else ""


def _known_of(path: str, *, may_have_changed: bool = False) -> _Known | None:
    if not path.endswith(".py") or _is_of_library(os.path.dirname(path)):
        return None
    file = Path(path).absolute()
    folder = _root_of_folder.get(file.parent)
    if folder is None or may_have_changed:
        folder = _root_of_folder[file.parent] = root_of(file)
    root = _roots.get(folder)
    if root is None or (may_have_changed and root.has_changed()):
        root = _roots[folder] = _Root(folder)
    return root.programs.get(file)


@cache
def _is_of_library(folder: str) -> bool:
    """Return whether a folder is of a library, as are nearly all files of which mypy asks, or of this package."""
    path = Path(folder).absolute()
    return path == _OURS or _OURS in path.parents or not _LIBRARIES.isdisjoint(path.parts)


def is_of_program(tree: MypyFile, api: Api) -> bool:
    """Return whether a file is of a program that uses typedbatch, and have it checked again with the others of it."""
    known = _known_of(tree.path, may_have_changed=api.options.fine_grained_incremental)
    if known is None:
        return False
    publish(api, TEXTS, lambda: sha256("\n".join(_lines_of(known, tree)).encode("utf-8", "surrogatepass")).hexdigest())
    return True


def _lines_of(known: _Known, tree: MypyFile) -> tuple[str, ...]:
    file = Path(tree.path).absolute()
    return next((source.lines for source in known.program.sources if source.path == file), ())


class Wanted(NamedTuple):
    """Choice of what is reported.

    Attributes:
        shapes: Whether shapes that do not fit are.
        unused_sizes: Whether names of sizes are noted that stand once.
    """

    shapes: bool = True
    unused_sizes: bool = False


def report_findings(api: Api, tree: MypyFile, wanted: Wanted) -> None:
    """Report what a run of the program finds in a file, but for what is reported there already."""
    known = _known_of(tree.path, may_have_changed=api.options.fine_grained_incremental)
    if known is None:
        return
    functions = list(_functions_in(tree))
    if api.options.fine_grained_incremental:
        for function in [None, *functions]:
            with reporting_for(api, function):
                for source in known.program.sources:
                    depend(api, source.name, f"{source.name}.{TEXTS}")
    file, texts = Path(tree.path).absolute(), _lines_of(known, tree)
    outcome = known.outcome(unused_sizes=wanted.unused_sizes)
    for finding in (*outcome.findings, *outcome.notes):
        is_of_shapes = finding.code in (*_SHAPES, NOTE, UNUSED)
        if finding.path != file or (is_of_shapes and not wanted.shapes) or _IGNORED.search(texts[finding.line - 1]):
            continue
        infos = [*_infos(api, tree.path)]
        if any(_says(info, finding) for info in infos):
            continue
        place = Context(finding.line, finding.column)
        place.end_line, place.end_column = finding.end_line, finding.end_column
        around = [one for one in functions if one.line <= finding.line <= (one.end_line or one.line)]
        with reporting_for(api, around[-1] if around else None):
            if finding.code in _CODES:
                code = _own_codes.get(tree.path, {}).get((finding.line, finding.column)) or _CODES[finding.code]
                api.fail(finding.message, place, code=code)
            else:
                add_note(api, finding.message, place)
        _sent.setdefault(tree.path, []).extend((info, finding) for info in _infos(api, tree.path)[len(infos) :])


def is_judged(tree: MypyFile, value: Expression, *, is_followed: bool) -> bool:
    """Return whether a run has judged a batch that is handed over.

    Args:
        tree: The file.
        value: The batch.
        is_followed: Whether a run that has not found a mistake is enough; else it must have found that there is none.
    """
    known = _known_of(tree.path)
    if known is None:
        return False
    outcome, place = known.outcome(unused_sizes=False), (Path(tree.path).absolute(), value.line, value.column)
    is_right = place in outcome.needs if is_followed else outcome.needs.get(place, False)
    return is_right or any((one.path, one.line, one.column) == place for one in outcome.findings)


def use_code(api: Api, tree: MypyFile, value: Expression, code: ErrorCode | None) -> None:
    """Report what a run finds about a batch under the code of mypy's own error about it."""
    if code is None or code is messages.ARGUMENT:
        return
    place = (value.line, value.column)
    _own_codes.setdefault(tree.path, {})[place] = code
    infos = _infos(api, tree.path)
    for sent, finding in _sent.get(tree.path, ()):
        if (finding.line, finding.column) == place and sent in infos and sent.code is not code:
            infos.remove(sent)


_own_codes: dict[str, dict[tuple[int, int], ErrorCode]] = {}
"""Codes of errors of mypy's own about batches, by file, line and column."""
_sent: dict[str, list[tuple[ErrorInfo, Finding]]] = {}
"""Reports of findings, by file."""


def supersede(api: Api, file: str, info: ErrorInfo) -> None:
    """Take back the report of a finding if another report says the same, as that knows the types."""
    infos = _infos(api, file)
    for sent, finding in _sent.get(file, ()):
        if sent is not info and sent in infos and _says(info, finding):
            infos.remove(sent)


def _infos(api: Api, file: str) -> list[ErrorInfo]:
    errors = errors_of(api)
    return errors.error_info_map.get(file, []) if errors is not None else []


def _says(info: ErrorInfo, finding: Finding) -> bool:
    """Return whether an error names a field that a finding is about, at its line or at a call that leads there."""
    lines = {finding.line, *(step.line for step in finding.trace if step.path == finding.path)}
    is_shown = not wants_own_codes() or (info.code is not None and info.code.code in _CODES)
    if finding.code not in _CODES:
        return info.line == finding.line and info.message == finding.message
    is_there = info.severity == "error" and info.line in lines and is_shown
    if finding.code in _SHAPES:
        return is_there and info.code is not None and info.code.code in _SHAPES
    return is_there and not finding.names.isdisjoint(_QUOTED.findall(info.message))


def _functions_in(tree: MypyFile | ClassDef) -> Iterator[FuncDef]:
    """Yield the functions and methods of a file, without those in functions."""
    for statement in tree.defs.body if isinstance(tree, ClassDef) else tree.defs:
        if isinstance(statement, ClassDef):
            yield from _functions_in(statement)
        else:
            function = statement.func if isinstance(statement, Decorator) else statement
            if isinstance(function, FuncDef):
                yield function
