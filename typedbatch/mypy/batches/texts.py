"""Texts of files: those on disk, or in an editor that has not saved them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_unsaved: dict[Path, str] = {}


def use_texts(texts: Mapping[Path, str]) -> None:
    """Read files of an editor in place of those on disk.

    Args:
        texts: All such texts, by absolute paths.
    """
    _unsaved.clear()
    _unsaved.update(texts)


def unsaved_in(folder: Path) -> list[Path]:
    """Return the Python files of an editor in a folder, which need not be on disk."""
    return [path for path in _unsaved if path.suffix == ".py" and path.is_relative_to(folder)]


def version_of(path: Path) -> int:
    """Return a number that changes with the text of a file, or 0 for a file that does not exist."""
    text = _unsaved.get(path)
    if text is not None:
        return -1 - (hash(text) & 0xFFFFFFFF)
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def text_in(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read, or if reading may wait or never end, as of a device."""
    if path in _unsaved:
        return _unsaved[path]
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return ""
