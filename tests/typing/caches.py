"""What mypy found out about torch, numpy and typedbatch, kept for all tests: it needs most of its time for these.

There is one cache for each mypy with the plugin, and one without it. mypy uses them only where the settings for all
modules are those of :mod:`tests.typing.checkers`. Programs that need others have a section of their own for them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.typing.checkers import CHECKERS, Checker, CheckerFailedError, call, command_of, with_plugin

MYPY = CHECKERS["mypy"]
PLUGIN = with_plugin(MYPY)

_BASE = """
import abc, asyncio, collections.abc, contextlib, copy, dataclasses, enum, functools, random, sys, typing
import numpy, numpy.typing, torch, torch.distributions, torch.nn.functional, typing_extensions
import typedbatch, typedbatch.buffers
"""


def warm(kept: Path, checker: Checker, into: Path, *options: str) -> Path:
    """A copy of a mypy's cache, for a test that writes to it. Options, if any, are about the cache itself.

    The cache is made, or brought up to date, by the first of all processes of a test run that asks for it.

    Raises:
        CheckerMissingError: this mypy is not installed.
        CheckerFailedError: imports alone are reported.
    """
    plugin = ["plugin"] if "plugins = " in checker.settings["mypy.ini"] else []
    place = kept / "-".join([checker.name, *plugin, *options])
    place.mkdir(parents=True, exist_ok=True)
    with _alone(place / "lock"):
        run, made_by = _this_run(), place / "made by"
        if not made_by.exists() or made_by.read_text(encoding="utf-8") != run:
            _make(place, checker, options)
            made_by.write_text(run, encoding="utf-8")
        return shutil.copytree(place / "cache", into)


@contextmanager
def stored(kept: Path, name: str, into: Path) -> Iterator[Path]:
    """A copy of a folder of caches, which is stored for the next run of the tests as it is in the end."""
    place, lock = kept / name, kept / f"{name}.lock"
    with _alone(lock):
        if place.exists():
            shutil.copytree(place, into)
    yield into
    with _alone(lock):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(into, place)


def _make(place: Path, checker: Checker, options: tuple[str, ...]) -> None:
    (place / "mypy.ini").write_text(checker.settings["mypy.ini"], encoding="utf-8")
    (place / "base.py").write_text(_BASE, encoding="utf-8")
    if checker == PLUGIN:
        options = ("--cache-fine-grained", *options)  # for its daemon
    done = call(checker, [*command_of(checker, place / "cache"), *options, "base.py"], place)
    if done.returncode != 0:
        raise CheckerFailedError(f"imports alone are reported\n{done.stdout}{done.stderr}")


def _this_run() -> str:
    """The same in all processes of a test run."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{sys.executable} {os.getpid()}")


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
