"""Renaming of a field of batches in a project, which is refused where it cannot be certain."""

from __future__ import annotations

import keyword
import re
from typing import Any

from typedbatch._lsp.fields import field_at
from typedbatch._lsp.runs import Runs
from typedbatch._lsp.uses import Uses
from typedbatch.batch import Batch
from typedbatch.errors import SettingError


def rename(runs: Runs, path: str, line: int, column: int, new: str | None) -> dict[str, Any] | None:
    """Return the edits that give a field another name in all plain batches of a project.

    Without a new name, only the place is returned; None if no field of a plain batch is named there.

    Raises:
        SettingError: The new name is not free, or it cannot be told whether a place in the project means the field.
    """
    named = field_at(runs, path, line, column)
    if named is None or named.batch.is_declared:
        return None
    old = named.name
    place = {"name": old, "line": line, "column": named.column, "end_column": named.column + len(old.encode())}
    if new is None:
        return place
    if not new.isidentifier() or keyword.iskeyword(new) or hasattr(Batch, new):
        raise SettingError(f"{new!r} cannot be the name of a field")
    pattern = re.compile(rf"\b(?:{re.escape(old)}|{re.escape(new)})\b")
    edits: list[dict[str, Any]] = []
    texts = {one: text for one in runs.files if pattern.search(text := runs.written(one))}
    seen = runs.all_places_in(texts)
    _refuse([one for one, text in texts.items() if runs.text_of(one) != text], old)  # Lines of it are left out.
    for one, places in sorted(seen.items()):
        text = texts[one]
        uses = Uses(one, text, places, old)
        _refuse(uses.uncertain, old)
        edits += [{"path": one, **edit, "text": new} for edit in uses.edits]
        taken = Uses(one, text, places, new).edits
        if taken:
            raise SettingError(f'a batch has a field "{new}" already: {one}:{taken[0]["line"]}')
    return {**place, "edits": edits}


def _refuse(uncertain: list[str], old: str) -> None:
    if uncertain:
        shown = ", ".join(uncertain[:5]) + (", ..." if len(uncertain) > 5 else "")
        raise SettingError(f'"{old}" cannot be renamed, as these places may or may not mean the field: {shown}')
