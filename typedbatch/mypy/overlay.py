"""Files as mypy reads them, without some that it must not see."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mypy.fscache import FileSystemCache


class Overlay(FileSystemCache):
    """Files of a project.

    Args:
        hidden: Absolute paths of files and packages that mypy must not see.
    """

    def __init__(self, hidden: Iterable[str]) -> None:
        super().__init__()
        self._hidden = {*hidden}

    def hides(self, path: str | None) -> bool:
        """Return whether a file is hidden, or in a hidden package."""
        whole = os.path.abspath(path or "")
        return any(one in self._hidden for one in (whole, *map(str, Path(whole).parents)))

    def stat_or_none(self, path: str) -> os.stat_result | None:
        """Return the state of a file, or None for a file that does not exist or is hidden."""
        return None if self._hidden and self.hides(path) else super().stat_or_none(path)
