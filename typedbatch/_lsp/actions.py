"""Code actions: a slip of a name is corrected, and fields are declared as a record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from lsprotocol.types import (
    CodeAction,
    CodeActionKind,
    Diagnostic,
    Position,
    Range,
    TextEdit,
    WorkspaceEdit,
)

_SLIP: Final = re.compile(r'"(?P<wrong>\w+)".*; did you mean "(?P<right>\w+)"\?')


def corrections(diagnostics: Iterable[Diagnostic], uri: str, lines: tuple[str, ...]) -> Iterator[CodeAction]:
    """Yield an action for each diagnostic that says which name was meant."""
    for one in diagnostics:
        slip = _SLIP.search(one.message) if one.source == "typedbatch" else None
        place = _place_of(slip["wrong"], one.range, lines) if slip is not None else None
        if slip is not None and place is not None:
            yield CodeAction(
                title=f'Change "{slip["wrong"]}" to "{slip["right"]}"',
                kind=CodeActionKind.QuickFix,
                diagnostics=[one],
                is_preferred=True,
                edit=WorkspaceEdit(changes={uri: [TextEdit(place, slip["right"])]}),
            )


def _place_of(name: str, within: Range, lines: tuple[str, ...]) -> Range | None:
    """Return the last place of a name in a range."""
    for line in range(min(within.end.line, len(lines) - 1), within.start.line - 1, -1):
        found = [one.start() for one in re.finditer(rf"\b{re.escape(name)}\b", lines[line])]
        found = [at for at in found if line > within.start.line or at >= within.start.character]
        found = [at for at in found if line < within.end.line or at + len(name) <= within.end.character]
        if found:
            return Range(Position(line, found[-1]), Position(line, found[-1] + len(name)))
    return None


def declaration(made: dict[str, Any], edits: dict[str, list[TextEdit]]) -> CodeAction:
    """Return the action that declares fields as a record."""
    return CodeAction(
        title=f"Declare these fields as the record {made['name']}",
        kind=CodeActionKind.RefactorExtract,
        edit=WorkspaceEdit(changes=edits),
    )
