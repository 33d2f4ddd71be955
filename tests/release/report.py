"""The printed report: a line for each check, with its result or its problem."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

P = ParamSpec("P")


class Wrong(Exception):
    """A problem that a check found."""


class Report:
    """Prints each check as it is done, and counts those that found something.

    Attributes:
        failed: how many checks found something wrong.
    """

    def __init__(self) -> None:
        self.failed = 0

    def check(self, what: str, look: Callable[P, str], *arguments: P.args, **options: P.kwargs) -> bool:
        """Call ``look``, which returns what it saw or raises ``Wrong``; whether all is well."""
        start = time.monotonic()
        try:
            seen = look(*arguments, **options)
        except Wrong as wrong:
            self.failed += 1
            print(f"WRONG  {what}:", *str(wrong).splitlines(), sep="\n         ", flush=True)
            return False
        print(f"ok     {what}: {seen}  ({time.monotonic() - start:.0f} s)", flush=True)
        return True

    def note(self, text: str) -> None:
        """Say what was not checked."""
        print(f"note   {text}", flush=True)


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Return the output of a command that runs without the settings of the surrounding Python.

    Raises:
        Wrong: it fails; with the end of what it said.
    """
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAKE"))}
    done = subprocess.run(command, cwd=cwd, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-15:]
        raise Wrong("\n".join([f"{' '.join(map(str, command))} ended with status {done.returncode}", *said]))
    return done.stdout
