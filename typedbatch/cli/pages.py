"""The pages of the error codes, which are in the package too: ``typedbatch explain`` prints them without a network."""

from __future__ import annotations

from pathlib import Path

from typedbatch.errors import SettingError, did_you_mean

_PACKAGE = Path(__file__).parents[1]
PLACES = (_PACKAGE / "error_pages", _PACKAGE.parent / "docs" / "errors")
"""Where the pages are: in an installed package, and beside the sources."""


def page_of(code: str) -> str:
    """The page of a code, as Markdown.

    Args:
        code: ``"TB302"``, ``"TB302 dimension-conflict"``, or ``"batch-shape"`` of the mypy plugin, in any case.

    Raises:
        SettingError: there is no such code.
    """
    pages = {path.stem.lower(): path for folder in PLACES for path in sorted(folder.glob("[!i]*.md"))}  # not index
    words = code.strip("[] ").lower().split()
    if words and words[0] in pages:
        return pages[words[0]].read_text(encoding="utf-8")
    known = sorted(path.stem for path in pages.values())
    raise SettingError(f"there is no code {code!r}, only {', '.join(known)}{did_you_mean(code, known)}")
