"""Subcommand ``check``: the findings of the mypy plugin alone, once or after each change of a file."""

from __future__ import annotations

import os
import time
from enum import StrEnum
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from typedbatch._check.diagnostics import Diagnostic, as_github, as_json, as_sarif, as_text
from typedbatch._check.running import Checked, check, files_in
from typedbatch.errors import SettingError

_PAUSE = 0.5
"""Seconds between two looks at the files."""


class Format(StrEnum):
    """Format of the output."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


Paths = Annotated[list[Path] | None, typer.Argument(help="files and folders; none for those that mypy's settings name")]
Output = Annotated[Format, typer.Option(help="format of the output")]
Python = Annotated[Path | None, typer.Option(help="python whose packages the code imports")]
Cache = Annotated[
    Path | None, typer.Option("--cache-dir", help="folder for the next run; .typedbatch_cache in the root if left out")
]
Watch = Annotated[bool, typer.Option("--watch", help="check again whenever a file changes, until interrupted")]


def run_check(
    paths: Paths = None,
    format: Output = Format.TEXT,
    python: Python = None,
    cache: Cache = None,
    watch: Watch = False,
) -> None:
    """Check code with mypy and the plugin, beside another checker or none, and print what the plugin finds.

    Exit with 0 if there is nothing, 1 if there are findings, 2 if the program cannot be checked.
    """
    given = paths or []
    once = partial(_once, given, format, python, cache)
    code = once()
    while watch:
        _wait(given)
        typer.echo(f"--- {time.strftime('%H:%M:%S')}", err=True)
        code = once()
    raise typer.Exit(code)


def _once(paths: list[Path], format: Format, python: Path | None, cache: Path | None) -> int:
    try:
        checked = check(paths, python=python, cache=cache)
    except SettingError as error:
        checked = Checked([], str(error))
    if checked.failure:
        typer.echo(checked.failure, err=True)
        return 2
    if checked.warnings:
        typer.echo(checked.warnings, err=True)
    text = _printed(checked.found, format)
    if text:
        typer.echo(text)
    if format is Format.TEXT:
        count = len(checked.found)
        typer.echo("no findings" if not count else f"{count} finding{'s' if count > 1 else ''}", err=bool(count))
    return int(any(one.severity == "error" for one in checked.found))


def _printed(found: list[Diagnostic], format: Format) -> str:
    if format is Format.SARIF:
        return as_sarif(found, metadata.version("typedbatch"))
    return {Format.TEXT: as_text, Format.JSON: as_json, Format.GITHUB: as_github}[format](found)


def _wait(paths: list[Path]) -> None:
    """Wait until a file is changed, added or removed."""
    before = _times(paths)
    while _times(paths) == before:
        time.sleep(_PAUSE)


def _times(paths: list[Path]) -> dict[str, int]:
    out = {}
    for path in paths or [Path()]:
        for file in files_in(path):
            try:
                out[str(file)] = os.stat(file).st_mtime_ns
            except FileNotFoundError:
                continue
    return out
