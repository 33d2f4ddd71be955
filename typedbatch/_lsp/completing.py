"""Completion of the fields of plain batches, behind a dot and in brackets."""

from __future__ import annotations

import ast
import re
from keyword import iskeyword
from typing import Any

from typedbatch._lsp.fields import described
from typedbatch._lsp.places import Field, Places
from typedbatch._lsp.repair import PLACEHOLDER, cursor_at
from typedbatch._lsp.runs import Runs


def complete(runs: Runs, path: str, text: str, line: int, column: int) -> list[dict[str, Any]]:
    """Return the fields of the plain batch in front of a cursor, or an empty list if it is something else.

    The text is that in the editor; lines are counted from 1, columns in characters from 0.
    """
    cursor = cursor_at(text, line, column)
    if cursor is None:
        return []
    places = runs.places_with(path, cursor.text, cursor.line)
    seen = places.ending_at(cursor.line, cursor.column)
    if seen is None:  # It may be in parentheses, which it does not include.
        before = cursor.text.split("\n")[cursor.line - 1].encode()[: cursor.column]
        seen = places.ending_at(cursor.line, len(_unwrapped(before)))
    if seen is None or seen.fields is None or seen.is_declared:
        return []
    fields = {name: one for name, one in seen.fields.items() if name != PLACEHOLDER}
    offered = [_item(one, described(one.value, one.declared)) for one in fields.values()]
    if seen.is_open:
        names = _names_in(places) - fields.keys() - {PLACEHOLDER}
        offered += [_item(Field(name, seen, is_sure=False), "elsewhere in this file") for name in sorted(names)]
    return [one for one in offered if cursor.is_key or one["name"].isidentifier()]


def _unwrapped(line: bytes) -> bytes:
    """Return a line without the parentheses at its end that are around an expression, and are not those of a call."""
    line, depth, at = line.rstrip(), 0, 0
    for at in reversed(range(len(line))):
        depth += (line[at] == ord(")")) - (line[at] == ord("("))
        if not depth:
            break
    before = re.search(rb"(\w+|[)\]])$", line[:at])
    is_call = before is not None and not iskeyword(before[1].decode("latin-1"))
    return line if depth or is_call or not line.endswith(b")") else _unwrapped(line[:-1])


def _item(field: Field, text: str) -> dict[str, Any]:
    return {"name": field.name, "label": field.label, "text": text, "is_sure": field.is_sure}


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
