"""The program that a file belongs to: the file that is run, and those that it imports, directly or through others.

A field that no file of a program makes is in none of its batches, wherever they come from. Only the texts on disk
count, and not what mypy checks, so that the verdict is the same in every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path

from typedbatch.mypy.batches.vocabulary import Part, Vocabulary, is_of_library, vocabulary_of

NAMES = "_<names>"
"""Name of the symbol of a file that changes with the names in it."""
_MOST = 200
"""Programs of more files are not looked at as a whole."""
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)


class Program:
    """A program whose files are all in sight.

    Args:
        root: folder of its modules.
        files: its files, with their names.
    """

    def __init__(self, root: Path, files: dict[Path, Vocabulary]) -> None:
        self._root = root
        self.files = files
        self._parts: list[Part] = [part for one in files.values() for part in one.parts]

    @property
    def modules(self) -> Iterator[str]:
        """Full names of the program's modules."""
        for path in self.files:
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
        return len(name) > 1 and not any(part.may_make(name) for part in parts)

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
    """Return the program that a file belongs to; None if there is none, or not all of its files are in sight."""
    file = Path(path).absolute()
    depth = module.count(".") + (file.name == "__init__.py")
    if file.suffix != ".py" or depth >= len(file.parents) or "site-packages" in file.parts:
        return None
    root, top = file.parents[depth], module.partition(".")[0]
    main = root / top / "__main__.py" if depth else file
    run = vocabulary_in(main)
    if run is None or not (depth or run.is_run):
        return None
    entries = (main, *(one for one in _importers(root, top) if one != file))
    found = _programs.get(entries)
    if found is None or any(_time(one) != time for one, time in found[1].items()):
        files, times = _reached(entries, root)
        found = _programs[entries] = (Program(root, files) if files else None, times)
    return found[0] if found[0] is not None and file in found[0].files else None


def digest_of_file(path: str) -> str:
    """Return a text that changes with the names of one file."""
    vocabulary = vocabulary_in(Path(path).absolute())
    parts = vocabulary.parts if vocabulary is not None else ()
    seen = [(one.name, one.is_called, sorted(one.makes), sorted(one.pieces), sorted(one.uses)) for one in parts]
    return _digest_of(repr((sorted(seen), sorted(vocabulary.imports) if vocabulary is not None else [])))


_programs: dict[tuple[Path, ...], tuple[Program | None, dict[Path, int]]] = {}


def _digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _importers(root: Path, top: str) -> Iterator[Path]:
    """Yield the files beside a program, and its tests, that import it."""
    for folder in (root, root / "tests", root.parent / "tests"):
        for path in sorted(folder.glob("*.py"))[:_MOST]:
            if top in _imported(path, _time(path)):
                yield path


def _reached(entries: tuple[Path, ...], root: Path) -> tuple[dict[Path, Vocabulary], dict[Path, int]]:
    """Return the names of all files that some files lead to, none if others make fields; and when they were changed."""
    found: dict[Path, Vocabulary] = {}
    times: dict[Path, int] = {}
    todo = list(entries)
    while todo:
        path = todo.pop()
        if path in times:
            continue
        times[path] = _time(path)
        vocabulary = vocabulary_in(path)
        if vocabulary is None or vocabulary.opens or len(found) > _MOST:
            return {}, times
        found[path] = vocabulary
        for module, dots in vocabulary.imports:
            files = list(_files_of(module.removesuffix("?"), path.parents[dots - 1] if dots else root))
            if not files and not module.endswith("?") and (dots or not is_of_library(module)):
                return {}, times
            todo += files
    return found, times


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
