"""A project whose files are checked when they are saved, for versions of mypy that cannot be kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from typedbatch.cli.mypy_run import check_types, files_in
from typedbatch.errors import SettingError


class ProjectOnDisk:
    """A project whose files mypy's own command checks, each time that one has changed on disk.

    Args:
        root: Folder of the project.
        python: Python whose packages the code imports; None for that of the project.
        cache: Folder of the cache; None for one in the root.
        why: Why mypy cannot be kept in memory.
    """

    def __init__(self, root: str, python: str | None, cache: str | None, why: str) -> None:
        self.methods: Mapping[str, Callable[..., Any]] = {"complete": lambda **_: []}
        self.note = (
            f"mypy {version('mypy')} cannot be kept in memory ({why}): "
            "files are checked when they are saved, and nothing else is shown"
        )
        self._root = Path(root)
        self._python = Path(python) if python else None
        self._cache = Path(cache) / "disk" if cache else None
        self._times: dict[Path, int] = {}
        self._found: dict[str, list[dict[str, Any]]] = {}

    def update(self, texts: Mapping[str, str | None]) -> dict[str, Any]:
        """Check all files if one has changed on disk, and return what is found in them.

        Raises:
            SettingError: mypy could not check the project.
        """
        times = {path: path.stat().st_mtime_ns for path in files_in(self._root) if path.exists()}
        if times != self._times:
            checked = check_types(python=self._python, cache=self._cache, folder=self._root)
            if checked.failure:
                raise SettingError(f"mypy could not check the project: {checked.failure}")
            self._times, self._found = times, {}
            for one in checked.found:
                self._found.setdefault(one.file, []).append(one.to_dict())
        return {"found": {**{path: [] for path in texts}, **self._found}, "imports": []}
