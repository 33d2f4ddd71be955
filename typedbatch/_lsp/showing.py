"""Answers about expressions: a text under the mouse, shapes beside names, the lines that write a field.

Lines are counted from 1, columns in bytes from 0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from typedbatch._lsp.fields import described, field_at
from typedbatch._lsp.places import Field, Seen, Site, Span, span_of
from typedbatch._lsp.runs import Runs


def hover(runs: Runs, path: str, line: int, column: int) -> dict[str, Any] | None:
    """Return what is known at a place, as Markdown, and the range that it is about; None if nothing is."""
    found = runs.places_in(path, line).at(line, column)
    named = field_at(runs, path, line, column)
    if named is not None:
        span = Span(line, named.column, line, named.column + len(named.name.encode()))
        field = named.field
        if found is not None and _names_field(found[1], span):  # It may be about to be set.
            field = replace(field or Field(named.name, found[2]), value=found[2])
        return None if field is None else _answer(_of_field(field), span)
    if found is None or found[0].line != found[0].end_line:
        return None
    span, _, seen = found
    text = _of_batch(seen) if seen.fields is not None else _of_array(seen)
    return _answer(text, span) if text else None


def _names_field(node: ast.AST, span: Span) -> bool:
    """Return whether a node is the read of a field, or the target of an assignment to it, whose name is at a place."""
    if isinstance(node, ast.Subscript):
        return span_of(node.slice).covers(*span[:2])
    return isinstance(node, ast.Attribute) and span_of(node)[2:] == span[2:]


def hints(runs: Runs, path: str, first: int, last: int) -> list[dict[str, Any]]:
    """Return the shapes of the arrays that names are bound to in some lines."""
    return [
        {"line": span.end_line, "column": span.end_column, "text": f": {seen.array}"}
        for span, node, seen in runs.places_in(path).all()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and first <= span.line <= last
        if seen.array is not None and seen.array.axes is not None
    ]


def definition(runs: Runs, path: str, line: int, column: int) -> list[dict[str, Any]]:
    """Return the places that write the field which is named at a place.

    Where that is not in sight, all places of the project are returned that set a field of that name.
    """
    named = field_at(runs, path, line, column)
    if named is None:
        return []
    sites = sorted(named.field.sites) if named.field is not None else []
    return [_place(runs, site, named.name) for site in sites or runs.writers_of(named.name)]


def _place(runs: Runs, site: Site, name: str) -> dict[str, Any]:
    """Return the place of a name in the first line of a node, or of the line."""
    path, span = runs.name_of(Path(site.path)), site.span
    written = (runs.written(path).split("\n") + [""] * span.line)[span.line - 1].encode()
    found = re.compile(rb"\b%s\b" % re.escape(name.encode())).search(written, span.column)
    at, end = found.span() if found is not None else (0, len(written))
    return {"path": path, "line": span.line, "column": at, "end_column": end}


def _answer(text: str, span: Span) -> dict[str, Any]:
    return {"text": text, **span._asdict()}


def _of_field(field: Field) -> str:
    inner = field.value.fields
    text = f"Batch\n{_listed(inner)}" if inner else described(field.value, field.declared) or "unknown"
    return f"```python\n(field) {field.label}: {text}\n```" + _footnote([field])


def _of_batch(seen: Seen) -> str:
    fields, is_open = seen.fields or {}, seen.is_open and not seen.is_declared
    if not fields and is_open:
        return ""
    lines = (_listed(fields) if fields else "    no fields") + ("\n    ..." if is_open else "")
    return f"```python\n(batch) {seen.kind or 'Batch'}\n{lines}\n```{_footnote(fields.values())}"


def _listed(fields: Mapping[str, Field], indentation: str = "    ") -> str:
    width = max(len(one.label) for one in fields.values())
    lines: list[str] = []
    for one in fields.values():
        inner = one.value.fields
        text = "Batch" if inner else described(one.value, one.declared)
        lines.append(f"{indentation}{one.label:{width}}  {text}".rstrip())
        lines += [_listed(inner, indentation + "    ")] if inner else []
    return "\n".join(lines)


def _footnote(fields: Iterable[Field]) -> str:
    return "\n\n`?`: set on some of the ways to this line" if any(not one.is_sure for one in fields) else ""


def _of_array(seen: Seen) -> str:
    array = seen.array
    if array is None or (array.axes is None and array.dtypes is None):
        return ""
    return f"```python\n(array) {described(seen)}\n```"
