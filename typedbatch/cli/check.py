"""The check of a program: what a run of its text finds, without mypy, or what mypy with the plugin finds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from typedbatch._program.report import Finding, Step
from typedbatch._program.run import run
from typedbatch._program.source import programs_of, root_of
from typedbatch.cli.diagnostics import Diagnostic
from typedbatch.cli.mypy_run import Checked, check_types, files_in, in_order, problems_of, shown
from typedbatch.cli.settings import settings_of
from typedbatch.errors import SettingError


def check(
    paths: Sequence[Path] = (),
    *,
    mypy: bool = False,
    python: Path | None = None,
    cache: Path | None = None,
    folder: Path | None = None,
) -> Checked:
    """Check files, and return what is found in them.

    The text of the program that a file belongs to is run on abstract values: the files of the project that it imports
    or that import it. Nothing is imported or executed. Files that cannot be read as Python are reported, and the others
    are checked.

    Args:
        paths: Files and folders; none for what the settings of mypy name, or else the folder.
        mypy: Whether mypy and its plugin run, too, which know types and shapes.
        python: Python whose packages mypy reads; None for that of the active environment, of a folder ``.venv``, or
            the one that runs this.
        cache: Folder in which mypy keeps what it knows for the next run; None for ``.typedbatch_cache`` in the root of
            the project.
        folder: Folder that paths are relative to; None for the current one.

    Returns:
        Diagnostics, or why mypy could not run.

    Raises:
        SettingError: mypy is needed and not installed, a path does not exist, or settings cannot be read.
    """
    folder = Path.cwd() if folder is None else folder
    for path in paths:
        if not (folder / path).exists():
            raise SettingError(f"{path} does not exist")
    if mypy:
        return check_types(paths, folder=folder, python=python, cache=cache)
    settings = settings_of(folder)
    given = [folder / path for path in paths] or [folder / path for path in settings.files_from(folder)] or [folder]
    files = {file for path in given for file in files_in(path) if not settings.excludes(file)}
    broken = problems_of(files, folder, [folder / path for path in paths], replace(settings, mypy={}))
    asked = {_real(file) for file in files}
    roots = {root_of(file) for file in asked}
    if settings.file is not None and any(file.is_relative_to(settings.root) for file in asked):
        roots.add(settings.root)
    every = {_real(file) for root in roots for file in files_in(root)} | asked
    outcomes = [run(program) for program in programs_of(every, asked=asked)]
    findings = [found for one in outcomes for found in one.findings if found.path in asked and not found.is_ignored]
    warnings = [warning_of(one.unfinished, folder) for one in outcomes if one.unfinished is not None]
    found = [*(one for _, one in broken), *(diagnostic_of(finding, folder) for finding in findings)]
    return Checked(in_order(found), warnings="\n".join(warnings))


def _real(file: Path) -> Path:
    """Return the path behind links; that of a link to itself as it stands, at which ``Path.resolve`` fails."""
    return Path(os.path.realpath(file))


def warning_of(place: Step, folder: Path) -> str:
    """Return a line that names the function in which the steps of a run were used up."""
    return f"{shown(place.path, folder)}:{place.line}: {place.text}, as the program takes too many steps; less is found"


def diagnostic_of(finding: Finding, folder: Path) -> Diagnostic:
    """Return a finding as a diagnostic, with paths relative to a folder."""
    trace = tuple(f"{shown(step.path, folder)}:{step.line}: {step.text}" for step in finding.trace)
    start = (finding.line, finding.column + 1)
    end = (finding.end_line, finding.end_column)
    return Diagnostic(shown(finding.path, folder), *start, *end, "error", finding.message, finding.code, trace)
