"""Sources of a program: its files, the imports among them, and an index of the names in each.

A program is the files of a project that import each other, directly or not, and among which one imports typedbatch. It
does not depend on the file that one asks for, so the verdict on a file is the same in any order.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
import tokenize
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final, Generic, TypeVar

from typedbatch._program.vocabulary import Vocabulary, absolute, is_plain, vocabulary_of

_IGNORE: Final = re.compile(r"#\s*type:\s*ignore(?:\[(?P<codes>[\w\-\s,]+)\])?")
_WHOLE: Final = re.compile(r"#\s*(?:type:\s*ignore|mypy:\s*ignore-errors)\b(?!\[)")
_PARENTS: Final = {"batch-field": "attr-defined", "batch-argument": "arg-type"}
"""Codes of mypy that a comment may name in place of ours."""
_LIBRARY: Final = "typedbatch"
_LIBRARIES: Final = (_LIBRARY, "jaxtyping")
"""Libraries by whose import a program asks to be checked: batches, and declared shapes."""
_MOST_FOLDERS: Final = 20_000
_MOST_BYTES: Final = 5 * 2**20
RECURSION: Final = 6000
"""Limit of recursion while a file is parsed, and while a program is run."""
_ROOTS: Final = ("pyproject.toml", "setup.cfg", "setup.py", "mypy.ini", ".git")
"""Files that stand in the root of a project."""
_GAP: Final = r"(?:[ \t]|\\\r?\n)*"
_TO_THE_END: Final = r"(?:[^\n;\\]|\\\r?\n)*"
_IMPORTS: Final = re.compile(
    rf"\bfrom{_GAP}(\.*){_GAP}([\w.]*){_GAP}\bimport\b{_GAP}(\([^)]*\)|{_TO_THE_END})|\bimport{_GAP}({_TO_THE_END})"
)
_COMMENT: Final = re.compile(r"#[^\n'\"]*$", re.MULTILINE)
"""A comment without quotation marks, as ``#`` may be inside a text; it may have a bracket that ends an import early."""
_WORD: Final = re.compile(r"\w+")
_DOTTED: Final = re.compile(r"[\w.]+")
_LEFT_OUT: Final = ("venv", "node_modules", "site-packages", "build", "dist", "__pycache__")


Reader = Callable[[Path], str]
Parser = Callable[["Location", str], "Source | None"]
L = TypeVar("L", bound="Location")


@dataclass(frozen=True, eq=False)
class Location:
    """A file by the names under which it may be imported.

    Attributes:
        name: Full name of the module.
        aliases: Other names: with the folders around it.
    """

    path: Path
    name: str
    aliases: tuple[str, ...]
    is_package: bool

    @property
    def package(self) -> str:
        """Name of the package that the module is in, or is; empty if there is none."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


@dataclass(frozen=True, eq=False)
class Source(Location):
    """A file of a program.

    Attributes:
        vocabulary: Names in its text.
        lines: Its lines.
    """

    tree: ast.Module
    vocabulary: Vocabulary
    lines: tuple[str, ...]

    def ignores(self, line: int, code: str) -> bool:
        """Return whether a comment at a line, or one for the whole file, ignores a code, as mypy reads them."""
        if any(_WHOLE.match(text) for text in self.lines[:1]):
            return True
        found = _IGNORE.search(self.lines[line - 1]) if line <= len(self.lines) else None
        names = re.split(r"[\s,]+", found["codes"] or code) if found is not None else []
        return code in names or _PARENTS.get(code, code) in names


class Files(Generic[L]):
    """Files by the names under which they may be imported."""

    def __init__(self, sources: Iterable[L]) -> None:
        self._by_name: dict[str, list[L]] = {}
        for source in sources:
            for name in (source.name, *source.aliases):
                self._by_name.setdefault(name, []).append(source)

    def find(self, name: str, near: Location) -> L | None:
        """Return the module of a name; among several, the nearest to the file that imports it."""
        found = self._by_name.get(name)
        if found is None or len(found) == 1:
            return None if found is None else found[0]
        return max(found, key=lambda one: (len(os.path.commonpath([one.path, near.path])), str(one.path)))

    def along(self, name: str, near: Location) -> Iterator[L]:
        """Yield the modules that a full name is, or is in."""
        parts = name.split(".")
        found = (self.find(".".join(parts[:end]), near) for end in range(len(parts), 0, -1))
        yield from (one for one in found if one is not None)


class Program:
    """A program.

    Attributes:
        sources: Its files, in the order of their paths.
        vocabulary: Names in the texts of all of them.
        lines: Number of lines of all files.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = tuple(sorted(sources, key=lambda one: one.path))
        self.vocabulary = Vocabulary()
        for source in self.sources:
            self.vocabulary.add(source.vocabulary)
        self.lines = sum(len(source.lines) for source in self.sources)
        self._files = Files(self.sources)

    def find(self, name: str, near: Source) -> Source | None:
        """Return the module of a name, or None if it is not of the program."""
        return self._files.find(name, near)

    @cached_property
    def shows_all(self) -> bool:
        """True if a file of the program is run, and its texts name all fields that a batch in it may have."""
        found = self.vocabulary
        return found.is_run and not found.is_open and all(map(self._is_in_sight, self.sources))

    def _is_in_sight(self, source: Source) -> bool:
        return all(is_plain(name) or any(self._files.along(name, source)) for name in source.vocabulary.imports)


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: It cannot be read, is not a regular file, or is too large.
        SyntaxError: It cannot be decoded.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:  # Reading a pipe may never end.
        raise OSError(f"it is not a regular file, or has more than {_MOST_BYTES:,} bytes")
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (ValueError, LookupError) as error:
        raise SyntaxError(str(error)) from error


def root_of(path: Path) -> Path:
    """Return the root of the project that a file is in: the folder of its settings, or else of its topmost package."""
    folder = path if path.is_dir() else path.parent
    for one in (folder, *folder.parents):
        if any((one / name).exists() for name in _ROOTS):
            return one
    return _above_packages(folder)


def files_in(root: Path) -> Iterator[Path]:
    """Yield the Python files below a folder, without hidden folders, environments and builds.

    Of a folder with very many folders, as a home with settings of its own, those behind the first 20,000 are left out.
    """
    for current, folders, names in islice(os.walk(root), _MOST_FOLDERS):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _LEFT_OUT
            and not os.path.exists(os.path.join(current, name, "pyvenv.cfg"))
        )
        yield from (Path(current) / name for name in sorted(names) if name.endswith(".py"))


def parsed(location: Location, text: str) -> Source | None:
    """Return a file of a program; None if its text is not valid Python."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(RECURSION)  # mypy raises it, and Python crashes on what is nested much deeper.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    finally:
        sys.setrecursionlimit(limit)
    return made_of(location, text, tree)


def made_of(location: Location, text: str, tree: ast.Module) -> Source:
    """Return a file of a program, of its text and syntax."""
    vocabulary = vocabulary_of(tree, location.package)
    vocabulary.is_run = vocabulary.is_run or location.path.name == "__main__.py"
    lines = tuple(text.splitlines())
    return Source(location.path, location.name, location.aliases, location.is_package, tree, vocabulary, lines)


def programs_of(
    files: Iterable[Path],
    read: Reader = read_text,
    asked: Collection[Path] | None = None,
    parse: Parser = parsed,
) -> list[Program]:
    """Return the programs among files, without those that import neither typedbatch nor jaxtyping.

    Files that cannot be read or parsed are left out. Those of which no import leads to these are not parsed.

    Args:
        files: The files.
        read: Function that returns the text of a file.
        asked: Files of which one must be in a program; None for all programs.
        parse: Function that returns a file of its location and text.
    """
    texts: dict[Location, str] = {}
    for file in sorted({*files}):
        location = located(file)
        if location.name.partition(".")[0] != _LIBRARY:
            with suppress(OSError, SyntaxError):
                texts[location] = read(file)
    if not any(map(_may_count, texts.values())):
        return []
    programs: list[Program] = []
    for group in _groups(texts):
        is_asked = asked is None or any(location.path in asked for location in group)
        if is_asked and any(_may_count(texts[location]) for location in group):
            sources = [found for one in group if (found := parse(one, texts[one])) is not None]
            if any(counts(name) for source in sources for name in source.vocabulary.imports):
                programs.append(Program(sources))
    return programs


def counts(name: str) -> bool:
    """Return whether an import by a full name is of batches or declared shapes."""
    return name.partition(".")[0] in _LIBRARIES


def _may_count(text: str) -> bool:
    return any(library in text for library in _LIBRARIES)


def _groups(texts: Mapping[Location, str]) -> Iterable[list[Location]]:
    """Return the files that belong together, as one imports another, found by a search of their texts."""
    known = Files(texts)
    leader = {location: location for location in texts}

    def top(location: Location) -> Location:
        while leader[location] is not location:
            leader[location] = location = leader[leader[location]]
        return location

    for location, text in texts.items():
        for name in _searched(text, location.package):
            for found in known.along(name, location):
                one, other = sorted((top(location), top(found)), key=lambda one: one.path)
                leader[other] = one
    groups: dict[Location, list[Location]] = {}
    for location in texts:
        groups.setdefault(top(location), []).append(location)
    return groups.values()


def _searched(text: str, package: str) -> Iterator[str]:
    """Yield the full names that a text imports, without parsing it; those in comments and strings may be among them."""
    for dots, module, inside, plain in _IMPORTS.findall(_COMMENT.sub("", text)):
        if plain:
            yield from _DOTTED.findall(plain)
        else:
            base = absolute(module, len(dots), package)
            yield from (f"{base}.{name}" if base else name for name in ("", *_WORD.findall(inside)))


def located(path: Path) -> Location:
    """Return a file by its names."""
    above = _above_packages(path.parent)
    parts = path.relative_to(above).with_suffix("").parts
    is_package = parts[-1] == "__init__" and len(parts) > 1
    name = ".".join(parts[:-1] if is_package else parts)
    project = root_of(path)
    around = above.relative_to(project).parts if above.is_relative_to(project) else ()
    aliases = tuple(".".join([*around[at:], name]) for at in range(len(around)))
    return Location(path, name, aliases, is_package)


def _above_packages(folder: Path) -> Path:
    while (folder / "__init__.py").exists() and folder.parent != folder:
        folder = folder.parent
    return folder
