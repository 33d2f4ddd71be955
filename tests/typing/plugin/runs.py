"""mypy with the plugin, as it is run over a small project: cold, from its cache, in several processes, as a daemon."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.typing.caches import MYPY, PLUGIN
from tests.typing.checkers import run_tool

WITHOUT = MYPY.settings["mypy.ini"]
CONFIG = PLUGIN.settings["mypy.ini"]
# With --show-traceback the plugin hides no fault of its own.
_FLAGS = ["--config-file=mypy.ini", "--show-traceback", "--no-error-summary", "--hide-error-context", "--no-pretty"]
_CRASH = ("Traceback (most recent call last)", "INTERNAL ERROR", "Daemon crashed")

_ASIDE = re.compile(r"^Daemon (re)?started|: note: See https://mypy\.")

Files = Mapping[str, str]


class PluginCrashedError(Exception):
    """mypy or the plugin failed, rather than to report."""


@dataclass(frozen=True)
class Report:
    """What mypy says, less what depends on how it is run, with any plugin and without: the order of its lines.

    Attributes:
        passed: without errors; the status tells errors of syntax from others, but not the daemon's.
    """

    passed: bool
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(["passed" if self.passed else "did not pass", *self.lines])


def report_of(done: subprocess.CompletedProcess[str]) -> Report:
    """What a run of mypy or its daemon said.

    Raises:
        PluginCrashedError: it crashed, or could not be run so.
    """
    said = done.stdout + done.stderr
    if done.returncode not in (0, 1, 2) or any(sign in said for sign in _CRASH) or "usage: " in said:
        raise PluginCrashedError(f"status {done.returncode}\n{said[-6000:]}")
    return Report(done.returncode == 0, tuple(sorted(line for line in said.splitlines() if not _ASIDE.search(line))))


def check(folder: Path, cache: Path, *options: str, names: Iterable[str] = ()) -> Report:
    """What mypy reports of the programs and packages in ``folder``, by the settings in its ``mypy.ini``.

    ``names`` are what is checked, in that order; all of the folder without any.
    """
    command = ["mypy", *_FLAGS, f"--cache-dir={cache}", *options, *(names or _names(folder))]
    return report_of(run_tool(command, folder))


def _names(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.suffix in (".py", ".pyi") or (path / "__init__.py").exists():
            yield path.name


def fill(folder: Path, files: Files) -> None:
    """Make these the texts of a folder; what has not changed stays untouched, and what is not listed goes."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file() and path.name not in files:
            path.unlink()
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


Way = Callable[[Files], Report]
"""A way to run mypy, again and again as the files of its folder change."""


def by_command(folder: Path, cache: Path, *options: str) -> Way:
    """``mypy`` with a cache that it keeps."""

    def run(files: Files) -> Report:
        fill(folder, files)
        return check(folder, cache, *options)

    return run


def cold(folder: Path, base: Path, *options: str) -> Way:
    """``mypy`` with a new copy of a cache each time, so that it remembers nothing of the folder."""

    def run(files: Files) -> Report:
        fill(folder, files)
        with TemporaryDirectory(dir=folder.parent) as fresh:
            return check(folder, shutil.copytree(base, Path(fresh, "cache")), *options)

    return run


@contextmanager
def in_daemon(folder: Path, cache: Path, *options: str) -> Iterator[Way]:
    """``dmypy``, which holds in memory what it found before; it is stopped whatever happens."""
    daemon = Daemon(folder, cache, *options)
    try:
        yield daemon.run
    finally:
        daemon.stop()


class Daemon:
    """A ``dmypy`` of its own for one folder."""

    def __init__(self, folder: Path, cache: Path, *options: str) -> None:
        self._folder = folder
        self._status_file = folder.with_name(f"{folder.name}.daemon.json")
        self._options = [*_FLAGS, f"--cache-dir={cache}", *options]

    def run(self, files: Files) -> Report:
        """What it reports now; the first call starts it."""
        fill(self._folder, files)
        return report_of(self._call("run", "--", *self._options, *_names(self._folder)))

    def stop(self) -> None:
        """It ends, even if it answers no more."""
        self._call("kill")

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_tool(["dmypy", f"--status-file={self._status_file}", *arguments], self._folder)


def differences(expected: Report, found: Report) -> str:
    """What one report has and the other has not; empty when they are the same."""
    lost, new = (
        (Counter(one.lines) - Counter(other.lines)).elements() for one, other in [(expected, found), (found, expected)]
    )
    passed = [f"passed: {expected.passed}, then {found.passed}"] * (expected.passed != found.passed)
    return "\n".join([*passed, *(f"lost: {line}" for line in lost), *(f"new:  {line}" for line in new)])
