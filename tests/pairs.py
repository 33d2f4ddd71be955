"""Programs that share a file, and pairs of a right program and the same one with a mistake, in one text.

In a pair the mistake is a mark under the right line.

``# wrong: a line`` is in place of the line above, ``# wrong, too: a line`` is behind it, and
``# wrong: without this line`` takes it out. The mark has the indentation of the wrong line.
"""

from __future__ import annotations

import re
from pathlib import Path

_MARK = re.compile(r"^( *)# wrong(, too)?:(?: (.*))?$")
_WITHOUT = "without this line"
_NAME = re.compile(r"^# ---- (\w+)\n", re.MULTILINE)
_RUN = '\n\nif __name__ == "__main__":\n    main()\n'


def programs_in(folder: Path) -> dict[str, str]:
    """Return the programs of a folder, by the names of the files that they would be.

    In a file of several, ``# ---- name`` is above each, and all have what is above the first; ``main`` is run.
    """
    found = {}
    for path in sorted(folder.glob("*.py")):
        head, *rest = _NAME.split(path.read_text(encoding="utf-8"))
        if not rest:
            assert head.count("\ndef main(") < 2, f"{path} has several programs without names"
            found[path.name] = head
        for name, text in zip(rest[::2], rest[1::2], strict=True):
            whole = f"{head}\n{text}"
            found[f"{name}.py"] = whole + _RUN if "\ndef main(" in whole else whole
    return found


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
