"""Completion of the fields of plain batches, behind a dot and in brackets."""

from __future__ import annotations

from typing import Any

from mypy.nodes import IndexExpr, MemberExpr, StrExpr

from typedbatch._lsp.checker import Checker
from typedbatch._lsp.fields import Shown, fields_of, has_others
from typedbatch._lsp.places import Places, Span
from typedbatch._lsp.repair import PLACEHOLDER, cursor_at


def complete(checker: Checker, path: str, text: str, line: int, column: int) -> list[dict[str, Any]]:
    """Return the fields of the plain batch in front of a cursor, or an empty list if it is something else.

    Args:
        checker: The program.
        path: Path of the file.
        text: Text of the file as it is in the editor.
        line: Line of the cursor, from 1.
        column: Column of the cursor in characters, from 0.
    """
    cursor = cursor_at(text, line, column)
    if cursor is None:
        return []
    beside = checker.check_beside(path, cursor)
    seen = checker.places.ending_at(beside, cursor.line, cursor.column)
    if seen is None:  # It may be in parentheses, which it does not include.
        before = cursor.text.split("\n")[cursor.line - 1].encode()[: cursor.column]
        seen = checker.places.ending_at(beside, cursor.line, len(before.rstrip(b") ")))
    if seen is None or seen.batch is None:
        return []
    shown = [one for one in fields_of(seen) if not one.name.startswith(PLACEHOLDER)]
    shown = [one for one in shown if one.line != line or one.name != cursor.prefix]
    if has_others(seen):
        known = {one.name for one in shown} | seen.batch.absent.keys() | {cursor.prefix}
        names = _names_in(checker.places, path) - known
        shown += [Shown(name, False, "elsewhere in this file", 0) for name in sorted(names)]
    return [
        {"name": one.name, "label": one.label, "text": one.text, "is_sure": one.is_sure}
        for one in shown
        if cursor.is_key or one.name.isidentifier()
    ]


def _names_in(places: Places, path: str) -> set[str]:
    """Return the names of the fields of all plain batches in a file."""
    seen = dict(places.all_in(path))
    batches = {span[2:] for span, one in seen.items() if one.batch is not None}
    names = {one.name for _, held in seen.items() if held.batch is not None for one in fields_of(held)}
    for one in seen.values():
        node = one.node
        if isinstance(node, MemberExpr) and _end_of(node.expr) in batches:
            names.add(node.name)
        elif isinstance(node, IndexExpr) and isinstance(node.index, StrExpr) and _end_of(node.base) in batches:
            names.add(node.index.value)
    return names


def _end_of(node: Any) -> tuple[int, int]:
    return Span(node.line, node.column, node.end_line, node.end_column)[2:]
