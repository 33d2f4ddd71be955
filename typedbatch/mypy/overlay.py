"""Files as mypy reads them, of which some have a text that is not on disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mypy.fscache import FileSystemCache
from mypy.util import hash_digest

SHADOW: Final = ".unsaved"
"""Ending that mypy adds to the path of a file whose text is here, as its parser reads files on disk itself."""


class Overlay(FileSystemCache):
    """Files of a project, some with texts in place of those on disk.

    Args:
        hidden: Absolute paths of files and packages that mypy must not see.
    """

    def __init__(self, hidden: Iterable[str] = ()) -> None:
        super().__init__()
        self._texts: dict[str, bytes] = {}
        self._hidden = {*hidden}

    def hide(self, paths: Iterable[str]) -> None:
        """Hide files and packages, too."""
        self._hidden.update(paths)
        self.flush()

    def hides(self, path: str | None) -> bool:
        """Return whether a file is hidden, or in a hidden package."""
        whole = os.path.abspath(path or "")
        return any(one in self._hidden for one in (whole, *map(str, Path(whole).parents)))

    @property
    def paths(self) -> list[str]:
        """Absolute paths of the files whose text is not that on disk."""
        return list(self._texts)

    def put(self, path: str, text: str | None) -> None:
        """Give a file a text, or None for that on disk, which is read again."""
        if text is None:
            self._texts.pop(os.path.abspath(path), None)
        else:
            self._texts[os.path.abspath(path)] = text.encode("utf-8", "replace")
        for name in (path, os.path.abspath(path)):
            for kept in (self.stat_or_none_cache, self.read_cache, self.read_error_cache, self.hash_cache):
                kept.pop(name, None)
            self.listdir_cache.pop(os.path.normpath(os.path.dirname(name)), None)

    def text_of(self, path: str) -> bytes | None:
        """Return the text that is not on disk; None if there is none."""
        return self._texts.get(os.path.abspath(path.removesuffix(SHADOW)))

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        text = self.text_of(path)
        return super().read(path.removesuffix(SHADOW)) if text is None else text

    def stat_or_none(self, path: str) -> os.stat_result | None:
        """Return the state of a file with the size of its text, or None for a file that does not exist."""
        if self._hidden and self.hides(path):
            return None
        text = self.text_of(path)
        found = super().stat_or_none(path.removesuffix(SHADOW))
        if text is None:
            return found
        values = list(found) if found is not None else [stat.S_IFREG | 0o644, *[0] * 9]
        values[stat.ST_SIZE] = len(text)
        if found is None:
            values[stat.ST_INO] = hash(path.removesuffix(SHADOW))  # Files of one number would be one file.
        return os.stat_result(values)

    def hash_digest(self, path: str) -> str:
        """Return a digest of the content of a file."""
        text = self.text_of(path)
        return super().hash_digest(path.removesuffix(SHADOW)) if text is None else hash_digest(text)
