"""Answers about expressions: a text under the mouse, shapes beside names, the lines that write a field."""

from __future__ import annotations

from typing import Any

from mypy.nodes import MemberExpr, NameExpr

from typedbatch._lsp.checker import Checker
from typedbatch._lsp.fields import Shown, described, field_at, fields_of, has_others
from typedbatch._lsp.places import Seen, Span
from typedbatch._program.arrays.values import Array


def hover(checker: Checker, path: str, line: int, column: int) -> dict[str, Any] | None:
    """Return what is known at a place, as Markdown, and the range that it is about; None if nothing is.

    Args:
        checker: The program.
        path: Path of the file.
        line: Line, from 1.
        column: Column in bytes, from 0.
    """
    named = field_at(checker, path, line, column)
    if named is not None:
        end = named.column + len(named.name.encode())
        one = named.shown
        written = checker.places.at(path, line, column)
        if one is None and written is not None and isinstance(written[1].node, MemberExpr):
            one = Shown(named.name, True, described(written[1].value, written[1].type), line)
        return None if one is None else _answer(_of_field(one), Span(line, named.column, line, end))
    found = checker.places.at(path, line, column)
    if found is None or found[0].line != found[0].end_line:
        return None
    span, seen = found
    text = _of_batch(seen) if seen.batch is not None else _of_array(seen)
    return _answer(text, span) if text else None


def hints(checker: Checker, path: str, first: int, last: int) -> list[dict[str, Any]]:
    """Return the shapes of the arrays that names are bound to in some lines.

    Args:
        checker: The program.
        path: Path of the file.
        first: First line, from 1.
        last: Last line.
    """
    found = []
    for span, seen in checker.places.all_in(path):
        value = seen.value
        is_bound = seen.is_target and isinstance(seen.node, NameExpr) and first <= span.line <= last
        if is_bound and isinstance(value, Array) and value.axes is not None:
            found.append({"line": span.end_line, "column": span.end_column, "text": f": {value}"})
    return found


def definition(checker: Checker, path: str, line: int, column: int) -> list[dict[str, Any]]:
    """Return the places in a file that write the field which is named at a place.

    The place that set it last comes first. Where that is not in sight, all lines of the project are returned that set a
    field of that name of a plain batch.

    Args:
        checker: The program.
        path: Path of the file.
        line: Line, from 1.
        column: Column in bytes, from 0.
    """
    named = field_at(checker, path, line, column)
    if named is None:
        return []
    one = named.shown
    if one is not None and one.line:
        return [_place(checker, path, one.line, named.name)]
    return [_place(checker, other, at, named.name) for other, at in checker.places.writers(named.name)]


def _place(checker: Checker, path: str, line: int, name: str) -> dict[str, Any]:
    """Return the place of a name in a line, or of the line."""
    written = checker.text_of(path).split("\n")[line - 1].encode()
    at = written.find(name.encode())
    at, end = (at, at + len(name.encode())) if at >= 0 else (0, len(written))
    return {"path": path, "line": line, "column": at, "end_column": end}


def _answer(text: str, span: Span) -> dict[str, Any]:
    return {"text": text, **span._asdict()}


def _of_field(one: Shown) -> str:
    text = f"```python\n(field) {one.label}: {one.text or 'unknown'}\n```"
    if one.inner:
        text = f"```python\n(field) {one.label}: Batch\n{_listed(one.inner)}\n```"
    return text + _footnote([one])


def _of_batch(seen: Seen) -> str:
    shown = fields_of(seen)
    lines = _listed(shown) if shown else "    no fields"
    more = "\n    ..." if has_others(seen) else ""
    if not shown and more:
        return ""
    return f"```python\n(batch) Batch\n{lines}{more}\n```{_footnote(shown)}"


def _listed(shown: tuple[Shown, ...], indentation: str = "    ") -> str:
    width = max(len(one.label) for one in shown)
    lines = []
    for one in shown:
        lines.append(f"{indentation}{one.label:{width}}  {one.text if not one.inner else 'Batch'}".rstrip())
        lines += [_listed(one.inner, indentation + "    ")] if one.inner else []
    return "\n".join(lines)


def _footnote(shown: Any) -> str:
    return "\n\n`?`: set on some of the ways to this line" if any(not one.is_sure for one in shown) else ""


def _of_array(seen: Seen) -> str:
    value = seen.value
    if not isinstance(value, Array) or (value.axes is None and value.dtypes is None):
        return ""
    return f"```python\n(array) {described(value, seen.type)}\n```"
