"""Runs of mypy with the plugin, in a process of its own, and what of it is ours."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from typedbatch._check.diagnostics import Diagnostic, parsed
from typedbatch._check.settings import Settings, settings_of
from typedbatch.errors import SettingError

CACHE: Final = ".typedbatch_cache"
"""Name of the folder, in the root of a project, in which mypy keeps what it knows for the next run."""
OWN_CODES: Final = "TYPEDBATCH_OWN_CODES"
"""Environment variable for the plugin, by which errors of mypy's own about batches have codes of ours."""
_SHOWN: Final = (
    "--show-error-end", "--hide-error-context", "--no-pretty", "--no-color-output", "--no-error-summary",
    "--show-error-codes",
)  # fmt: skip
_HIDDEN: Final = ("venv", "node_modules", "site-packages", "build", "dist")


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    Attributes:
        found: Diagnostics, in the order of files and lines.
        failure: What mypy printed when it could not check the program; else empty.
    """

    found: list[Diagnostic]
    failure: str = ""


def check(
    paths: Sequence[Path] = (), *, python: Path | None = None, cache: Path | None = None, folder: Path | None = None
) -> Checked:
    """Check files with mypy and the plugin, and return what the plugin finds.

    Where mypy runs with the plugin in a project, its settings hold, and both find the same. Elsewhere, functions
    without annotations are looked at too, missing imports are ignored, and of mypy's settings those are used that say
    where the code is. Files that cannot be read as Python are reported, and the others are checked.

    Args:
        paths: Files and folders; none for what the settings of mypy name, or else the folder.
        python: Python whose packages the code imports; None for that of the active environment, of a folder
            ``.venv``, or the one that runs this.
        cache: Folder in which mypy keeps what it knows for the next run; None for ``.typedbatch_cache`` in the root of
            the project.
        folder: Folder that paths are relative to; None for the current one.

    Returns:
        Diagnostics, or why mypy could not run.

    Raises:
        SettingError: mypy is not installed, a path does not exist, or settings cannot be read.
    """
    folder = Path.cwd() if folder is None else folder
    if importlib.util.find_spec("mypy") is None:
        raise SettingError("typedbatch check needs mypy; pip install mypy")
    for path in paths:
        if not (folder / path).exists():
            raise SettingError(f"{path} does not exist")
    settings = settings_of(folder)
    given = [str(path) for path in paths] or settings.files_from(folder) or ["."]
    cache = settings.root / CACHE if cache is None else cache
    run = partial(_run, settings, folder, python or python_of(settings.root), cache)
    broken = {} if settings.has_plugin else dict(_broken_files(folder, given, settings))
    left = _readable(folder, given, broken)
    if broken and not left:
        return Checked([*broken.values()])
    done = run(left, broken)
    while done.returncode == 2 and not settings.has_plugin:
        more = {folder / one.file: one for one in parsed(done.stdout) if one.code == "syntax"}
        if not more.keys() - broken.keys():
            break
        broken |= more  # They are imported, and none of the files that were given.
        done = run(left, broken)
    if done.returncode not in (0, 1):
        return Checked([], (done.stdout + done.stderr).strip() or f"mypy ended with {done.returncode}")
    ours = [*broken.values(), *(one for one in parsed(done.stdout) if one.code.startswith("batch-"))]
    return Checked(sorted(ours, key=lambda one: (one.file, one.line, one.column)))


def _run(
    settings: Settings,
    folder: Path,
    python: Path,
    cache: Path,
    given: Sequence[str],
    broken: dict[Path, Diagnostic],
) -> subprocess.CompletedProcess[str]:
    """Run mypy, with the settings of the project or with ours."""
    with TemporaryDirectory() as place:
        file = settings.file
        if file is None or not settings.has_plugin:
            file = Path(place) / "mypy.ini"
            file.write_text(settings.written(_modules(settings, folder, broken)), "utf-8")
        options = options_of_mypy(file, python, cache)
        command = [sys.executable, "-m", "mypy", *options, *_exclusions(broken, folder), "--", *given]
        environment = {**os.environ, OWN_CODES: "1"}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def options_of_mypy(file: Path, python: Path, cache: Path) -> list[str]:
    """Return the options of mypy under which :func:`~typedbatch._check.diagnostics.parsed` reads what it prints."""
    return [*_SHOWN, f"--config-file={file}", f"--cache-dir={cache}", f"--python-executable={python}"]


def _broken_files(folder: Path, given: Sequence[str], settings: Settings) -> Iterator[tuple[Path, Diagnostic]]:
    """Yield the files that cannot be read as Python, one of which would keep mypy from all others."""
    for name in given:
        for path in files_in(folder / name):
            if settings.excludes(path):
                continue
            try:
                with tokenize.open(path) as file:
                    ast.parse(file.read())
            except (SyntaxError, ValueError, UnicodeDecodeError) as error:
                line, column = (getattr(error, "lineno", 1) or 1, getattr(error, "offset", 1) or 1)
                text = getattr(error, "msg", str(error))
                shown = os.path.relpath(path, folder)
                yield path, Diagnostic(shown, line, column, line, column, "error", text, "syntax")


def _readable(folder: Path, given: Sequence[str], broken: dict[Path, Diagnostic]) -> list[str]:
    """Return the paths without those in which nothing is readable, which mypy refuses."""
    return [name for name in given if not (files := {*files_in(folder / name)}) or files - broken.keys()]


def files_in(path: Path) -> Iterator[Path]:
    """Yield the Python files in a folder, but not in hidden folders, environments and builds."""
    if path.is_file():
        yield path
        return
    for current, folders, names in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__pycache__")) and name not in _HIDDEN
            and not (Path(current) / name / "pyvenv.cfg").exists()
        )  # fmt: skip
        yield from (Path(current) / name for name in sorted(names) if name.endswith((".py", ".pyi")))


def _modules(settings: Settings, folder: Path, broken: dict[Path, Diagnostic]) -> list[str]:
    """Return the names under which broken files may be imported."""
    roots = [settings.root / "src", settings.root, folder]
    names = []
    for path in broken:
        root = next((root for root in roots if path.is_relative_to(root)), path.parent)
        parts = path.relative_to(root).with_suffix("").parts
        if all(part.isidentifier() for part in parts):  # No other file can be imported.
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


def _exclusions(broken: dict[Path, Diagnostic], folder: Path) -> list[str]:
    return [f"--exclude=(^|/){_escaped(os.path.relpath(path, folder))}$" for path in broken]


def _escaped(path: str) -> str:
    return "".join(character if character.isalnum() or character in "/_-" else f"[{character}]" for character in path)


def python_of(root: Path) -> Path:
    """Return the Python of the active environment, or of a folder of the project, or the one that runs this."""
    active = os.environ.get("VIRTUAL_ENV")
    for folder in ([Path(active)] if active else []) + [root / ".venv", root / "venv"]:
        for name in ("bin/python", "Scripts/python.exe"):
            if (folder / name).exists():
                return folder / name
    return Path(sys.executable)
