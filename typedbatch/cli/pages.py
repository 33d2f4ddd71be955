"""Pages of the error codes. The package contains them, so ``typedbatch explain`` needs no network."""

from __future__ import annotations

from pathlib import Path

from typedbatch.errors import SettingError, did_you_mean

_PACKAGE = Path(__file__).parents[1]
PLACES = (_PACKAGE / "error_pages", _PACKAGE.parent / "docs" / "errors")
"""Folders of the pages, in an installed package and in the repository."""


def page_of(code: str) -> str:
    """Return the page of a code, as Markdown.

    Args:
        code: A code such as ``"TB302"``, ``"TB302 dimension-conflict"``, or ``"batch-shape"`` of the mypy plugin, in
            upper or lower case.

    Raises:
        SettingError: The code does not exist.
    """
    pages = {path.stem.lower(): path for folder in PLACES for path in sorted(folder.glob("[!i]*.md"))}  # not index
    words = code.strip("[] ").lower().split()
    if words and words[0] in pages:
        return pages[words[0]].read_text(encoding="utf-8")
    known = sorted(path.stem for path in pages.values())
    raise SettingError(f"expected one of the codes {', '.join(known)}, got {code!r}{did_you_mean(code, known)}")
