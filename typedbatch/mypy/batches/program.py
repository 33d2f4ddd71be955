"""The program that a file belongs to: the file that is run, and those that it imports, directly or through others.

A field that no file of a program makes is in none of its batches, wherever they come from. Only the texts on disk count,
and not what mypy checks, so that the verdict is the same in every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path

from typedbatch.mypy.batches.vocabulary import Vocabulary, is_of_library, vocabulary_of

_MOST = 200
"""Programs of more files are not looked at as a whole."""
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)

Vocabularies = Mapping[Path, Vocabulary]


class Program:
    """A program.

    Args:
        path: path of one of its files.
        module: full name of that file's module.
    """

    def __init__(self, path: str, module: str) -> None:
        self._file = Path(path).absolute()
        depth = module.count(".") + (self._file.name == "__init__.py")
        self._root = self._file.parents[min(depth, len(self._file.parents) - 1)]
        self._top = module.partition(".")[0]
        self._is_package = depth > 0

    def lacks(self, name: str) -> bool:
        """Return whether no batch of the program has a field of that name, for sure."""
        return bool(self._files) and not any(one.may_make(name) for one in self._files.values())

    @property
    def modules(self) -> list[str]:
        """Full names of the program's modules; none if not all of them are in sight."""
        names = [path.relative_to(self._root).with_suffix("").parts for path in self._files]
        return [".".join(parts[:-1] if parts[-1] == "__init__" else parts) for parts in names]

    @cached_property
    def digest(self) -> str:
        """Text that changes with all that decides which fields the program makes."""
        names = {name for one in self._files.values() for name in (*one.names, *(f"{part}?" for part in one.parts))}
        return " ".join(sorted(names))

    @cached_property
    def _files(self) -> Vocabularies:
        main = self._root / self._top / "__main__.py" if self._is_package else self._file
        run = vocabulary_in(main)
        if run is None or not (self._is_package or run.is_run):
            return {}
        found = _reached([main, *self._importers()], self._root)
        return found if self._file in found else {}

    def _importers(self) -> Iterator[Path]:
        """Yield the files beside the program, and its tests, that import it."""
        beside = [self._root, self._root / "tests", self._root.parent / "tests"]
        for path in (path for folder in beside for path in sorted(folder.glob("*.py"))[:_MOST]):
            if self._top in _imported(path, _time(path)) and path != self._file:
                yield path


def _reached(entries: Iterable[Path], root: Path) -> Vocabularies:
    """Return the names of all files that are imported from some files; nothing if others make fields, too."""
    found: dict[Path, Vocabulary] = {}
    todo = list(entries)
    while todo:
        path = todo.pop()
        if path in found:
            continue
        vocabulary = vocabulary_in(path)
        if vocabulary is None or vocabulary.opens or len(found) > _MOST:
            return {}
        found[path] = vocabulary
        for module, dots in vocabulary.imports:
            files = list(_files_of(module.removesuffix("?"), path.parents[dots - 1] if dots else root))
            if not files and not module.endswith("?") and (dots or not is_of_library(module)):
                return {}
            todo += files
    return found


def _files_of(module: str, base: Path) -> Iterator[Path]:
    """Yield the file of a module, and those of the packages that it is in."""
    if not module and (base / "__init__.py").is_file():
        yield base / "__init__.py"
    for part in module.split(".") if module else ():
        base = base / part
        path = next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)
        if path is None:
            return
        yield path


def vocabulary_in(path: Path) -> Vocabulary | None:
    """Return the names of a file on disk; None if it cannot be read."""
    return _read(path, _time(path))


def _time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1024)
def _read(path: Path, time: int) -> Vocabulary | None:
    try:
        return vocabulary_of(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=1024)
def _imported(path: Path, time: int) -> frozenset[str]:
    try:
        return frozenset(_IMPORTED.findall(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return frozenset()
