"""Pairs of a right program and the same one with a mistake, in one file: the mistake is a mark under the right line.

``# wrong: a line`` is in place of the line above, ``# wrong, too: a line`` is behind it, and
``# wrong: without this line`` takes it out. The mark has the indentation of the wrong line.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"^( *)# wrong(, too)?:(?: (.*))?$")
_WITHOUT = "without this line"


def right_of(text: str) -> str:
    """Return the right program, which is the text without its marks."""
    return "\n".join(line for line in text.split("\n") if not _MARK.match(line))


def wrong_of(text: str) -> str:
    """Return the program with the mistake."""
    lines: list[str] = []
    for line in text.split("\n"):
        mark = _MARK.match(line)
        if mark is None:
            lines.append(line)
            continue
        indent, is_added, wrong = mark[1], mark[2] is not None, mark[3] or ""
        if not is_added:
            del lines[-1]
        if wrong != _WITHOUT:
            lines.append(f"{indent}{wrong}" if wrong else "")
    return "\n".join(lines)


def has_mistake(text: str) -> bool:
    """Return whether a program has a mark, and with it a wrong version."""
    return any(_MARK.match(line) for line in text.split("\n"))
