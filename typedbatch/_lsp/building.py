"""Programs as mypy builds them: once in a process of its own, for the cache, and then from the cache in little time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any, Final

from mypy.build import BuildResult, build
from mypy.errors import CompileError
from mypy.find_sources import InvalidSourceList, create_source_list
from mypy.main import process_options
from mypy.modulefinder import BuildSource
from mypy.options import Options

from typedbatch._lsp.repair import repaired
from typedbatch.cli.mypy_run import (
    CACHE,
    exclusion,
    files_in,
    links_back,
    options_of_mypy,
    python_of,
    shadows_in,
    text_of,
)
from typedbatch.cli.settings import Settings, settings_of
from typedbatch.errors import SettingError
from typedbatch.mypy.command import RECURSION, allow_plugins
from typedbatch.mypy.overlay import SHADOW, Overlay
from typedbatch.mypy.plugin import digest

_READY: Final = "ready"
"""Name of the file in the cache that says what the cache was made with."""
_SHADOWS: Final = "*"
"""A line there, if files in the place of Python's library are hidden, as mypy could not build the program with them."""
_SYNTAX: Final = re.compile(r"^(.*?):(?:\d+:.*\[syntax\]$| error: Cannot decode file: )", re.MULTILINE)
"""An error of mypy's about a file that it cannot read."""


@dataclass(frozen=True)
class Setup:
    """Settings of a build.

    Attributes:
        root: Folder of the project.
        python: Python whose packages the code imports; None for that of the project.
        cache: Folder of the cache; None for one in the root.
        texts: Texts that are not on disk, by paths in the root.
    """

    root: str
    python: str | None = None
    cache: str | None = None
    texts: Mapping[str, str] | None = None

    def program(self, only: list[str] | None = None) -> Program:
        """Return the files and options of the project.

        Args:
            only: Files in place of all of the project.

        Raises:
            SettingError: mypy cannot use the settings or find the files.
        """
        root = Path(self.root)
        settings = settings_of(root)
        cache = Path(self.cache) if self.cache else settings.root / CACHE / "lsp"
        cache.mkdir(parents=True, exist_ok=True)
        python = Path(self.python) if self.python else python_of(settings.root)
        overlay = Overlay()
        unread = [*_without_text()]
        for file in unread:
            if file.is_file():  # Others may import it.
                overlay.put(str(file), "")
        for path, text in (self.texts or {}).items():
            readable = repaired(text)
            overlay.put(path, "" if readable is None else readable.text)
        errors = StringIO()
        try:
            _, options = process_options(
                options_of_mypy(_file_of(settings, cache), python, cache),
                stdout=errors,
                stderr=errors,
                require_targets=False,
                fscache=overlay,
            )
            allow_plugins(options.plugins, str(settings.root))
            options.exclude += [exclusion(path, Path()) for path in (*links_back(Path()), *unread)]
            given = (settings.files_from(root) or ["."]) if only is None else only
            sources = create_source_list(given, options, overlay, allow_empty_dir=True)
            known = {os.path.normpath(one.path) for one in sources if one.path is not None}
            unsaved = [path for path in self.texts or {} if os.path.normpath(path) not in known]
            sources += create_source_list(unsaved, options, overlay)
            if not any(one.module == "typedbatch" for one in sources):  # Files may come to import it later.
                sources.append(BuildSource(None, "typedbatch", None))
        except (SystemExit, InvalidSourceList) as error:
            raise SettingError(f"mypy cannot read the project: {errors.getvalue().strip() or error}") from error
        options.incremental = options.cache_fine_grained = options.local_partial_types = True
        options.num_workers = 0
        return Program(sources, options, overlay, settings, cache, python)


@dataclass(frozen=True)
class Program:
    """Files and options that mypy builds.

    Attributes:
        sources: Files of the project.
        options: Options of mypy.
        overlay: Texts of files.
        settings: Settings of the project.
        cache: Folder of the cache.
        python: Python whose packages the code imports.
    """

    sources: list[BuildSource]
    options: Options
    overlay: Overlay
    settings: Settings
    cache: Path
    python: Path

    def key(self) -> str:
        """Return a text that changes with all that the cache depends on, but for the files of the project.

        The folder of the project is left out, so the cache goes with one that is moved.
        """
        folders = self.python.parent.parent.glob("[lL]ib*/**/site-packages")
        installed = sorted((str(path), path.stat().st_mtime_ns) for path in folders)
        settings = Path(str(self.options.config_file)).read_text("utf-8").replace(str(self.settings.root), "")
        return sha256(repr((version("mypy"), digest(), str(self.python), installed, settings)).encode()).hexdigest()

    def is_ready(self) -> bool:
        """Return whether the cache is there."""
        return self._ready()[:1] == [self.key()]

    def _ready(self) -> list[str]:
        """Return the key of the cache and the files that mypy cannot read, or an empty list without a cache."""
        try:
            return (self.cache / _READY).read_text("utf-8").split("\n")
        except OSError:
            return []

    def write_cache(self) -> None:
        """Build the program from its files, and leave the cache.

        Files of the project that Python cannot read are repaired; those of packages that mypy cannot read are empty.

        Raises:
            SettingError: mypy cannot build the program.
        """
        for path in files_in(Path()):
            if self.overlay.text_of(str(path)) is None and (text := _unreadable(path)) is not None:
                self.overlay.put(str(path), text)
        self.options.fine_grained_incremental = False
        changed: list[str] = []
        while True:
            try:
                self._built()
                break
            except (SettingError, SystemExit) as error:
                broken = _SYNTAX.search(str(error.__cause__))
                if broken is not None and self.overlay.text_of(broken[1]) is None:
                    changed.append(broken[1])
                elif broken is None and _SHADOWS not in changed:
                    changed.append(_SHADOWS)
                else:
                    if isinstance(error, SettingError):
                        raise
                    raise SettingError(f"mypy cannot read the project: {error}") from error
                self._leave_out(changed)
        (self.cache / _READY).write_text("\n".join([self.key(), *changed]), "utf-8")

    def loaded(self) -> BuildResult:
        """Return the program as it is in the cache.

        Raises:
            SettingError: mypy cannot build the program.
        """
        self._leave_out(self._ready()[1:])
        self.options.use_fine_grained_cache = self.options.fine_grained_incremental = True
        return self._built()

    def _leave_out(self, paths: Iterable[str]) -> None:
        """Read files as if they were empty; those in the place of Python's library as if they were not there."""
        for path in paths:
            if path == _SHADOWS:
                roots = {self.settings.root, self.settings.root / "src", Path.cwd()}
                self.overlay.hide(map(str, shadows_in(roots)))
            else:
                self.overlay.put(path, "")
        self.sources[:] = [one for one in self.sources if one.path is None or not self.overlay.hides(one.path)]

    def _built(self) -> BuildResult:
        self.options.shadow_file = [[path, path + SHADOW] for path in self.overlay.paths]
        try:
            return build(self.sources, self.options, fscache=self.overlay)
        except CompileError as error:
            text = " ".join(error.messages)
            if 'Cannot find module "typedbatch"' in text:
                text = f"{self.python} has no typedbatch; choose the Python that the project uses"
            raise SettingError(f"the project cannot be read: {text}") from error


def _file_of(settings: Settings, cache: Path) -> Path:
    """Return a file of settings for mypy: that of the project where it has the plugin, or one of ours."""
    if settings.file is not None and settings.has_plugin:
        return settings.file
    file = cache / "mypy.ini"
    file.write_text(settings.written([]), "utf-8")
    return file


def _unreadable(path: Path) -> str | None:
    """Return a readable text for a file that Python cannot read; None if it can."""
    try:
        text = text_of(path)
    except OSError:
        return None
    except SyntaxError:  # a codec that does not exist, or another one
        return ""
    found = repaired(text)
    return "" if found is None else found.text if found.lines else None


def _without_text() -> Iterator[Path]:
    """Yield the files of the project that are not read, such as pipes, dangling links and files of many megabytes."""
    for path in files_in(Path()):
        try:
            text_of(path)
        except OSError:
            yield path
        except SyntaxError:
            continue


def write_cache_in_process(setup: Setup, only: list[str] | None) -> None:
    """Write the cache in another process, as building from files takes three times the memory of loading.

    Raises:
        SettingError: mypy cannot build the program.
    """
    given = json.dumps({"setup": vars(setup), "only": only})
    command = [sys.executable, "-P", "-m", "typedbatch._lsp.building"]
    done = subprocess.run(command, input=given, cwd=setup.root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SettingError((done.stderr or done.stdout).strip().splitlines()[-1])


def _main() -> int:
    given: dict[str, Any] = json.load(sys.stdin)
    os.chdir(given["setup"]["root"])
    sys.setrecursionlimit(RECURSION)
    try:
        Setup(**given["setup"]).program(given["only"]).write_cache()
    except SettingError as error:
        sys.stderr.write(str(error).replace("\n", " "))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main())
