"""Edits of files as ``diff -rn`` writes them, which have line numbers and new lines, and none of the files' own."""

from __future__ import annotations

import re
from collections.abc import Iterator

_HEADING = "diff -n "
_LINE = re.compile(r".*\n|.+")  # other ends of lines than this one are part of a line
_COMMAND = re.compile(r"([ad])(\d+) (\d+)")


class EditError(Exception):
    """Error of edits that do not fit the file or cannot be read."""


def by_file(edits: str) -> dict[str, str]:
    """Return the edits of each file; a line ``diff -n PATH`` stands above them."""
    found: dict[str, str] = {}
    for part in re.split(f"^(?={_HEADING})", edits, flags=re.MULTILINE):
        heading, _, rest = part.partition("\n")
        if heading:
            if not heading.startswith(_HEADING):
                raise EditError(f"a heading such as diff -n learn.py is expected, got {heading!r}")
            found[heading.removeprefix(_HEADING)] = rest
    return found


def edited(source: str, edits: str) -> str:
    """Return a text with edits: ``d3 2`` deletes two lines from the third, ``a4 1`` adds a line behind the fourth."""
    lines = _LINE.findall(source)
    out: list[str] = []
    done = 0  # lines of the source that are behind us
    for command, place, new in commands(edits):
        first, count = place
        kept = first - 1 if command == "d" else first
        if kept < done or kept + (count if command == "d" else 0) > len(lines):
            raise EditError(f"{command}{first} {count} does not fit a file of {len(lines)} lines")
        out += [*lines[done:kept], *new]
        done = kept + (count if command == "d" else 0)
    return "".join([*out, *lines[done:]])


def commands(edits: str) -> Iterator[tuple[str, tuple[int, int], list[str]]]:
    """Yield each command, its line and number of lines, and the lines that it adds."""
    lines = iter(_LINE.findall(edits))
    for line in lines:
        found = _COMMAND.fullmatch(line.rstrip("\n"))
        if found is None:
            raise EditError(f"a command such as d3 2 or a4 1 is expected, got {line!r}")
        first, count = int(found[2]), int(found[3])
        new = [next(lines, None) for _ in range(count if found[1] == "a" else 0)]
        if None in new:
            raise EditError(f"{found[0]} has {new.index(None)} lines behind it")
        yield found[1], (first, count), [one for one in new if one is not None]


def counts(edits: str) -> tuple[int, int]:
    """Return the numbers of lines that are added and deleted in all files."""
    every = [(command, n) for part in by_file(edits).values() for command, (_, n), _ in commands(part)]
    added, deleted = (sum(n for command, n in every if command == which) for which in "ad")
    return added, deleted
