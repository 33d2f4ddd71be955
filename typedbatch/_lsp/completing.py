"""Completion of the fields of plain batches, behind a dot and in brackets."""

from __future__ import annotations

import ast
from typing import Any

from typedbatch._lsp.fields import Shown, fields_of
from typedbatch._lsp.places import Places
from typedbatch._lsp.repair import PLACEHOLDER, cursor_at
from typedbatch._lsp.runs import Runs


def complete(runs: Runs, path: str, text: str, line: int, column: int) -> list[dict[str, Any]]:
    """Return the fields of the plain batch in front of a cursor, or an empty list if it is something else.

    Args:
        runs: The project.
        path: Path of the file.
        text: Text of the file as it is in the editor.
        line: Line of the cursor, from 1.
        column: Column of the cursor in characters, from 0.
    """
    cursor = cursor_at(text, line, column)
    if cursor is None:
        return []
    places = runs.places_with(path, cursor.text, cursor.line)
    seen = places.ending_at(cursor.line, cursor.column)
    if seen is None:  # It may be in parentheses, which it does not include.
        before = cursor.text.split("\n")[cursor.line - 1].encode()[: cursor.column]
        seen = places.ending_at(cursor.line, len(before.rstrip(b") ")))
    if seen is None or seen.fields is None or seen.is_declared:
        return []
    shown = [one for one in fields_of(seen) if one.name != PLACEHOLDER]
    if seen.is_open:
        names = _names_in(places) - {one.name for one in shown} - {PLACEHOLDER}
        shown += [Shown(name, False, "elsewhere in this file") for name in sorted(names)]
    return [
        {"name": one.name, "label": one.label, "text": one.text, "is_sure": one.is_sure}
        for one in shown
        if cursor.is_key or one.name.isidentifier()
    ]


def _names_in(places: Places) -> set[str]:
    """Return the names of the fields of all batches in a file, and of those that are read of them."""
    names = set[str]()
    batches = {node: seen.fields for _, node, seen in places.all() if seen.fields is not None}
    for fields in batches.values():
        names.update(fields)
    for node in places.seen:
        match node:
            case ast.Attribute(value=owner, attr=name) if owner in batches:
                names.add(name)
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))) if owner in batches:
                names.add(name)
            case _:
                pass
    return names
