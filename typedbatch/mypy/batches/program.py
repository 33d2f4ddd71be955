"""The program that a file belongs to: the file that is run, and those that it imports, directly or through others.

A field that no file of a program makes is in none of its batches, wherever they come from. Only the texts on disk
count, and not what mypy checks, so that the verdict is the same in every run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path

from typedbatch.mypy.batches.texts import text_in, version_of
from typedbatch.mypy.batches.vocabulary import Part, Vocabulary, is_of_library, vocabulary_of

NAMES = "_<names>"
"""Name of the symbol of a file that changes with the names in it."""
_MOST = 200
"""Programs of more files are not looked at as a whole."""
_RUN = re.compile(r"^(?:if .*__name__|for |while |print\()", re.MULTILINE)
"""A line at the top of a file that says that the file is run, and not only imported."""
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)


class Program:
    """A program.

    Args:
        root: folder of its modules.
        files: its files, each with the time of its last change.
        vocabularies: their names; none if others make fields, too.
    """

    def __init__(self, root: Path, files: Mapping[Path, int], vocabularies: Iterable[Vocabulary]) -> None:
        self._root = root
        self._files = files
        self._parts: list[Part] = [part for one in vocabularies for part in one.parts]

    def has_changed(self) -> bool:
        """Return whether one of its files has changed."""
        return any(version_of(path) != time for path, time in self._files.items())

    def has_file(self, path: Path) -> bool:
        """Return whether a file is part of it."""
        return path in self._files

    @property
    def modules(self) -> Iterator[str]:
        """Full names of the program's modules."""
        for path in self._files:
            parts = path.relative_to(self._root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def lacks(self, name: str, function: str) -> bool:
        """Return whether no batch of the program has a field of that name, for sure.

        Args:
            name: name of the field.
            function: name of the function that reads it; empty for the top of a module.
        """
        is_run = not function or function in self._run
        parts = [part for part in self._parts if not is_run or part.name in self._run]
        return bool(parts) and len(name) > 1 and not any(part.may_make(name) for part in parts)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names that fields may have in runs of the program."""
        return frozenset(name for part in self._parts if part.name in self._run for name in part.makes)

    @cached_property
    def digest(self) -> str:
        """Text that changes with all that decides which fields the program makes."""
        seen = sorted((part.name in self._run, name) for part in self._parts for name in (*part.makes, *part.pieces))
        run = sorted({part.name for part in self._parts} & self._run)
        return _digest_of(repr((sorted(set(seen)), run)))

    @cached_property
    def _run(self) -> frozenset[str]:
        """Names of the functions that a run may come to, with the empty one of the top of a module."""
        found: set[str] = set()
        used = {part.name for part in self._parts if part.is_called}
        while used - found:
            found |= used
            used = {name for part in self._parts if part.name in found for name in part.uses}
        return frozenset(found)


def program_of(path: str, module: str) -> Program | None:
    """Return the program that a file belongs to, if there is one."""
    if not path.endswith(".py"):
        return None
    file = Path(path).absolute()
    depth = module.count(".") + (file.name == "__init__.py")
    if file.suffix != ".py" or depth >= len(file.parents) or "site-packages" in file.parts:
        return None
    root, top = file.parents[depth], module.partition(".")[0]
    main = root / top / "__main__.py" if depth else file
    if not (main.is_file() if depth else _may_be_run(file, version_of(file))):
        return None
    entries = (main, *(one for one in _importers(root, top) if one != file))
    found = _programs.get(entries)
    if found is None or found.has_changed():
        found = _programs[entries] = Program(root, *(_without_batches(entries, root) or _reached(entries, root)))
    return found if found.has_file(file) else None


def digest_of_file(path: str) -> str:
    """Return a text that changes with the names of one file."""
    vocabulary = vocabulary_in(Path(path).absolute())
    parts = vocabulary.parts if vocabulary is not None else ()
    seen = [(one.name, one.is_called, sorted(one.makes), sorted(one.pieces), sorted(one.uses)) for one in parts]
    return _digest_of(repr((sorted(seen), sorted(vocabulary.imports) if vocabulary is not None else [])))


_programs: dict[tuple[Path, ...], Program] = {}


def _digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _importers(root: Path, top: str) -> Iterator[Path]:
    """Yield the files beside a program, and its tests, that import it."""
    for folder in (root, root / "tests", root.parent / "tests"):
        for path in sorted(folder.glob("*.py"))[:_MOST]:
            if top in _imported(path, version_of(path)):
                yield path


def _without_batches(entries: tuple[Path, ...], root: Path) -> tuple[dict[Path, int], Collection[Vocabulary]] | None:
    """Return the files of a program in which no text names this package, with no names; None if one does.

    Texts are searched and not parsed, which takes a tenth of the time. Comments and texts may name further files.
    """
    files: dict[Path, int] = {}
    todo = list(entries)
    while todo:
        path = todo.pop()
        if path in files:
            continue
        if len(files) == _MOST:
            return None
        files[path] = version_of(path)
        names, imported = _searched(path, files[path])
        if names:
            return None
        for module, dots in imported:
            todo += _files_of(module, dots, path, root)
    return files, ()


@lru_cache(maxsize=1024)
def _searched(path: Path, version: int) -> tuple[bool, frozenset[tuple[str, int]]]:
    """Return whether a file names this package, and the modules that it may import, each with its number of dots."""
    text = text_in(path) if version else ""
    if "typedbatch" in text:
        return True, frozenset()
    text = _COMMENT.sub("", text)
    found: set[tuple[str, int]] = set()
    for dots, module, inside, plain in _IMPORTS.findall(text):
        if plain:
            found.update((name, 0) for name in _DOTTED.findall(plain))
        else:
            found.add((module, len(dots)))
            found.update((f"{module}.{name}".removeprefix("."), len(dots)) for name in _WORD.findall(inside))
    return False, frozenset(found)


_GAP = r"(?:[ \t]|\\\r?\n)*"
_TO_THE_END = r"(?:[^\n;\\]|\\\r?\n)*"
_IMPORTS = re.compile(
    rf"\bfrom{_GAP}(\.*){_GAP}([\w.]*){_GAP}\bimport\b{_GAP}(\([^)]*\)|{_TO_THE_END})|\bimport{_GAP}({_TO_THE_END})"
)
_COMMENT = re.compile(r"#[^\n'\"]*$", re.MULTILINE)
"""A comment without quotation marks, as ``#`` may be inside a text; it may have a bracket that ends an import early."""
_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"[\w.]+")


def _reached(entries: tuple[Path, ...], root: Path) -> tuple[dict[Path, int], Collection[Vocabulary]]:
    """Return the files that some files lead to, with the times of their last changes, and their names."""
    files: dict[Path, int] = {}
    found: list[Vocabulary] = []
    is_closed, todo = True, list(entries)
    while todo and len(files) < _MOST:
        path = todo.pop()
        if path in files:
            continue
        files[path] = version_of(path)
        vocabulary = vocabulary_in(path)
        if vocabulary is None:
            return files, ()
        found.append(vocabulary)
        is_closed = is_closed and not vocabulary.opens
        for module, dots in vocabulary.imports:
            inside = list(_files_of(module.removesuffix("?"), dots, path, root))
            is_closed = is_closed and (bool(inside) or module.endswith("?") or (not dots and is_of_library(module)))
            todo += inside
    return files, found if is_closed and not todo else ()


def _files_of(module: str, dots: int, path: Path, root: Path) -> Iterator[Path]:
    """Yield the file of a module that a file imports with a number of dots, and those of the packages around it."""
    if dots > len(path.parents):
        return
    base = path.parents[dots - 1] if dots else root
    if not module and (base / "__init__.py").is_file():
        yield base / "__init__.py"
    for part in filter(None, module.split(".")):
        base = base / part
        found = next((one for one in (base / "__init__.py", base.with_suffix(".py")) if one.is_file()), None)
        if found is None:
            return
        yield found


def vocabulary_in(path: Path) -> Vocabulary | None:
    """Return the names of a file on disk; None if it cannot be read."""
    return _read(path, version_of(path))


@lru_cache(maxsize=1024)
def _read(path: Path, version: int) -> Vocabulary | None:
    return vocabulary_of(text_in(path)) if version else None


@lru_cache(maxsize=1024)
def _imported(path: Path, version: int) -> frozenset[str]:
    return frozenset(_IMPORTED.findall(text_in(path)))


@lru_cache(maxsize=1024)
def _may_be_run(path: Path, version: int) -> bool:
    return _RUN.search(text_in(path)) is not None
