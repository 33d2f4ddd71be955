"""The process in which mypy checks the types of a project on disk, while its programs are run in another."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from typedbatch._lsp.worker import main
from typedbatch.cli.check import check
from typedbatch.cli.mypy_run import check_types
from typedbatch.errors import SettingError


def check_on_disk(root: str, python: str | None, cache: str | None) -> dict[str, list[dict[str, Any]]]:
    """Return what mypy finds in each file, without the lines in which a run of the program finds something itself.

    Raises:
        SettingError: mypy is not installed, or cannot check the project.
    """
    folder = Path(root)
    place = Path(cache) / "types" if cache else None
    checked = check_types(folder=folder, python=Path(python) if python else None, cache=place)
    if checked.failure:
        raise SettingError(f"mypy could not check the types: {checked.failure}")
    known = {(one.file, one.line) for one in check(folder=folder).found}
    found: dict[str, list[dict[str, Any]]] = {}
    for one in checked.found:
        if (one.file, one.line) not in known and one.code not in ("syntax", "unchecked"):
            found.setdefault(Path(one.file).as_posix(), []).append(one.to_dict())
    return found


if __name__ == "__main__":
    if sys.platform != "win32":
        os.nice(10)
    main({"check": check_on_disk})
