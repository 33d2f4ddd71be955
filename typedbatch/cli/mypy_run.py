"""A run of mypy with the plugin in another process, and the findings of the plugin in it."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import stat
import subprocess
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from typedbatch.cli.diagnostics import Diagnostic, parsed
from typedbatch.cli.settings import Settings, settings_of
from typedbatch.errors import SettingError

CACHE: Final = ".typedbatch_cache"
"""Name of the folder, in the root of a project, in which mypy keeps what it knows for the next run."""
OWN_CODES: Final = "TYPEDBATCH_OWN_CODES"
"""Environment variable for the plugin, by which errors of mypy's own about batches have codes of ours."""
_SHOWN: Final = (
    "--show-error-end", "--hide-error-context", "--no-pretty", "--no-color-output", "--error-summary",
    "--show-error-codes",
)  # fmt: skip
_SUMMARY: Final = re.compile(r"^(?:Found \d+ errors? in |Success: )", re.MULTILINE)
"""The line that mypy prints when it has checked a program; a traceback of Python ends with the same code."""
_CRASH: Final = re.compile(r"^(.+?):(?:(\d+):)? error: INTERNAL ERROR", re.MULTILINE)
_BUILT_IN: Final = {*sys.stdlib_module_names, "typing_extensions", "mypy_extensions", "_typeshed"}
_ENDINGS: Final = (".py", ".pyi")
_HIDDEN: Final = ("venv", "node_modules", "site-packages", "build", "dist")
_MOST_BYTES: Final = 5 * 2**20
"""Size of the largest file that is checked; mypy takes twenty seconds and gigabytes of memory for more."""
_RECURSION: Final = 4000
"""Limit of recursion, with which Python reads sums of 12,000 numbers. mypy crashes at sums of 30,000."""
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
"""Characters in names of files that mypy or a terminal cannot write, such as bytes that are not UTF-8."""


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    Attributes:
        found: Diagnostics, in the order of files and lines.
        failure: What mypy printed when it could not check the program; else empty.
        warnings: What mypy printed beside its findings, and the functions of programs that are not run to the end.
    """

    found: list[Diagnostic]
    failure: str = ""
    warnings: str = ""


def check_types(
    paths: Sequence[Path] = (), *, folder: Path, python: Path | None = None, cache: Path | None = None
) -> Checked:
    """Check files with mypy and the plugin, and return what the plugin finds.

    Where mypy runs with the plugin in a project, its settings hold, and both find the same. Elsewhere, functions
    without annotations are looked at too, missing imports are ignored, and of mypy's settings those are used that say
    where the code is. Files that cannot be read as Python are reported, and the others are checked.

    Arguments, result and errors are those of :func:`typedbatch.cli.check.check`.
    """
    if importlib.util.find_spec("mypy") is None:
        raise SettingError("typedbatch check needs mypy; pip install mypy")
    settings = settings_of(folder)
    given = [str(path) for path in paths] or settings.files_from(folder) or ["."]
    cache = settings.root / CACHE if cache is None else cache
    run = partial(_run, settings, folder, python or python_of(settings.root), cache)
    files = {file for name in given for file in files_in(folder / name)}
    broken = dict(problems_of(files, folder, [folder / path for path in paths], settings))
    left = _readable(folder, given, broken)
    if broken and not left:
        return Checked(in_order(broken.values()))
    unread = {path for path, one in broken.items() if one.code == "unchecked"} if settings.has_plugin else set()
    hidden: set[Path] = set()
    while not _has_summary(done := run(left, broken, hidden | unread)):
        more = {} if settings.has_plugin else {one.file: one for one in parsed(done.stdout) if one.code == "syntax"}
        crash = _CRASH.search(done.stderr)
        if not more and not hidden and (hidden := _shadows(settings, folder, files)):
            text = "it stands in the place of a module of Python's library that mypy needs"
            broken |= {file: _unchecked(file, folder, text) for file in files if hidden & {file, *file.parents}}
            continue
        if not more and crash is not None and folder / crash[1] in files:
            more = {crash[1]: _unchecked(folder / crash[1], folder, "mypy crashes there", int(crash[2] or 1), "error")}
        new = {folder / file: one for file, one in more.items() if folder / file not in broken}
        if not new:
            return Checked([], (done.stdout + done.stderr).strip() or f"mypy ended with {done.returncode}")
        broken |= new  # They may be imported, and none of the files that were given.
        left = _readable(folder, left, broken)
    return Checked(
        in_order([*broken.values(), *(one for one in parsed(done.stdout) if one.code.startswith("batch-"))]),
        warnings=done.stderr.strip(),
    )


def text_of(path: Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: The file has no text to check, because it is not regular, is too large, or cannot be read.
        SyntaxError: It cannot be decoded.
    """
    found = path.stat()
    if _UNPRINTABLE.search(str(path)):
        raise OSError("its name has characters that cannot be written as text")
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it cannot be listed" if path.is_dir() else "it is not a regular file")
    if found.st_size > _MOST_BYTES:
        raise OSError(f"it has {found.st_size:,} bytes, and files of more than {_MOST_BYTES:,} are left out")
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (ValueError, LookupError) as error:
        raise SyntaxError(str(error)) from error


def tree_of(text: str, recursion: int = _RECURSION) -> ast.Module:
    """Return the syntax of a text, without what Python says of the escapes in it.

    Args:
        text: The text.
        recursion: Limit of recursion, by which a text that is nested more deeply is refused.
    """
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(recursion)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except ValueError as error:
        raise SyntaxError(str(error)) from error
    except (RecursionError, MemoryError) as error:
        lines = text.split("\n")
        longest = max(range(len(lines)), key=lambda at: len(lines[at]))  # Python does not say where.
        raise SyntaxError("this is nested too deeply", (None, longest + 1, 1, None)) from error
    finally:
        sys.setrecursionlimit(limit)


def _has_summary(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether mypy has checked a program, and not only ended as if it had."""
    return done.returncode in (0, 1) and _SUMMARY.search(done.stdout) is not None


def in_order(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics in the order of files and lines."""
    return sorted(found, key=lambda one: (one.file, one.line, one.column, one.message))


def _run(
    settings: Settings,
    folder: Path,
    python: Path,
    cache: Path,
    given: Sequence[str],
    broken: Iterable[Path],
    hidden: Iterable[Path],
) -> subprocess.CompletedProcess[str]:
    """Run mypy, with the settings of the project or with ours."""
    with TemporaryDirectory() as place:
        file = settings.file
        if file is None or not settings.has_plugin:
            file = Path(place) / "mypy.ini"
            file.write_text(settings.written(_modules(settings, folder, {*broken} - {*hidden})), "utf-8")
        left_out = [*broken, *(link for name in given for link in links_back(folder / name))]
        options = [*options_of_mypy(file, python, cache), *(f"--exclude={exclusion(one, folder)}" for one in left_out)]
        where = [str(settings.root), json.dumps([*map(str, hidden)])]
        # The module typedbatch.mypy.command imports nothing from the folder it runs in.
        command = [sys.executable, "-P", "-m", "typedbatch.mypy.command", *where, *options, "--", *given]
        environment = {**os.environ, OWN_CODES: "1"}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def options_of_mypy(file: Path, python: Path, cache: Path) -> list[str]:
    """Return the options of mypy under which :func:`~typedbatch.cli.diagnostics.parsed` reads what it prints."""
    return [*_SHOWN, f"--config-file={file}", f"--cache-dir={cache}", f"--python-executable={python}"]


def problems_of(
    files: Iterable[Path], folder: Path, given: Sequence[Path], settings: Settings
) -> Iterator[tuple[Path, Diagnostic]]:
    """Yield the files that cannot be read as Python, one of which would keep mypy from all others.

    Where mypy runs with the plugin, it reports errors of syntax itself.
    """
    for path in files:
        if settings.excludes(path):
            continue
        try:
            text = text_of(path)
            if not settings.has_plugin:
                tree_of(text)
        except OSError as error:
            severity: Literal["error", "note"] = "error" if path in given else "note"
            yield path, _unchecked(path, folder, error.strerror or str(error), severity=severity)
        except SyntaxError as error:
            if not settings.has_plugin:
                line, column = error.lineno or 1, error.offset or 1
                yield path, Diagnostic(shown(path, folder), line, column, line, column, "error", error.msg, "syntax")


def _unchecked(
    path: Path, folder: Path, why: str, line: int = 1, severity: Literal["error", "note"] = "note"
) -> Diagnostic:
    text = f"this file is not checked: {why}"
    return Diagnostic(shown(path, folder), line, 1, line, 1, severity, text, "unchecked")


def shown(path: Path, folder: Path) -> str:
    """Return the path of a file as diagnostics name it."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0]).strip("'"), os.path.relpath(path, folder))


def _shadows(settings: Settings, folder: Path, files: Iterable[Path]) -> set[Path]:
    """Return the files and packages that are imported in place of those of Python's library."""
    roots = {settings.root / "src", settings.root, folder}
    if settings.has_plugin:  # Every folder that is not a package may be one that modules are in.
        roots |= {file.parent for file in files if not (file.parent / "__init__.py").exists()}
    return shadows_in(roots)


def shadows_in(roots: Iterable[Path]) -> set[Path]:
    """Return the files and packages in folders that have the names of modules of Python's library."""
    return {
        path
        for root in roots
        for path in (root.iterdir() if root.is_dir() else ())
        if path.name.partition(".")[0] in _BUILT_IN
        and (path.suffix in _ENDINGS or any((path / f"__init__{ending}").exists() for ending in _ENDINGS))
    }


def _readable(folder: Path, given: Sequence[str], broken: dict[Path, Diagnostic]) -> list[str]:
    """Return the paths without those in which nothing is readable, which mypy refuses."""
    return [name for name in given if not (files := {*files_in(folder / name)}) or files - broken.keys()]


def files_in(path: Path) -> Iterator[Path]:
    """Yield the Python files in a folder, but not in hidden folders, environments and builds; a file for itself."""
    if not path.is_dir():
        yield path
    for current, folders, names in _walk(path):
        yield from (Path(current) / name for name in names if name.endswith(_ENDINGS))
        yield from (Path(current) / name for name in folders if not os.access(Path(current) / name, os.R_OK | os.X_OK))


def links_back(path: Path) -> Iterator[Path]:
    """Yield the links in a folder to it, to folders around it and in it, in which mypy would look for ever."""
    top = path.resolve()
    for current, folders, _ in _walk(path):
        for link in (Path(current) / name for name in folders if (Path(current) / name).is_symlink()):
            if top in (found := link.resolve(), *found.parents) or found in top.parents:
                yield link


def _walk(path: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    for current, folders, names in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__pycache__")) and name not in _HIDDEN
            and not os.path.exists(os.path.join(current, name, "pyvenv.cfg"))
        )  # fmt: skip
        yield current, folders, sorted(name for name in names if not name.startswith("."))


def _modules(settings: Settings, folder: Path, broken: Iterable[Path]) -> list[str]:
    """Return the names under which broken files may be imported."""
    roots = [settings.root / "src", settings.root, folder]
    names = []
    for path in broken:
        root = next((root for root in roots if path.is_relative_to(root)), path.parent)
        parts = path.relative_to(root).with_suffix("").parts
        if all(part.isidentifier() for part in parts):  # No other file can be imported.
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


def exclusion(path: Path, folder: Path) -> str:
    """Return the pattern by which mypy leaves out a file or a folder."""
    name = os.path.relpath(path, folder)
    escaped = "".join(one if one.isalnum() or one in "/_-" else f"[{one}]" for one in name)
    return f"(^|/){escaped}/?$"


def python_of(root: Path) -> Path:
    """Return the Python of the active environment, or of a folder of the project, or the one that runs this."""
    active = os.environ.get("VIRTUAL_ENV")
    for folder in ([Path(active)] if active else []) + [root / ".venv", root / "venv"]:
        for name in ("bin/python", "Scripts/python.exe"):
            if (folder / name).exists():
                return folder / name
    return Path(sys.executable)
