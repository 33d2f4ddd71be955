"""The process in which mypy checks the types of a project on disk, while its programs are run in another."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

from typedbatch._lsp.worker import main
from typedbatch._program.report import FIELD, MAYBE, SHAPES
from typedbatch.cli.check import check
from typedbatch.cli.mypy_run import check_types
from typedbatch.errors import SettingError

_OTHERS: Final = (FIELD, MAYBE, *SHAPES, "syntax", "unchecked")
"""Codes of what a run of the program finds, and of what the editor's own Python server says."""


def check_on_disk(root: str, python: str | None, cache: str | None) -> dict[str, list[dict[str, Any]]]:
    """Return what types alone show in each file: nothing in lines in which a run of the program finds something itself.

    Raises:
        SettingError: mypy is not installed, or cannot check the project.
    """
    folder = Path(root)
    place = Path(cache) / "types" if cache else None
    checked = check_types(folder=folder, python=Path(python) if python else None, cache=place)
    if checked.failure:
        raise SettingError(f"mypy could not check the project: {checked.failure}")
    known = {(one.file, one.line) for one in check(folder=folder).found}
    found: dict[str, list[dict[str, Any]]] = {}
    for one in checked.found:
        if one.code not in _OTHERS and (one.file, one.line) not in known:
            found.setdefault(Path(one.file).as_posix(), []).append(one.to_dict())
    return found


if __name__ == "__main__":
    if sys.platform != "win32":
        os.nice(10)
    main({"check": check_on_disk})
