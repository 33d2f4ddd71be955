"""Fields of a batch as they are shown: kind, dtype and shape."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from typedbatch._lsp.places import Field, Seen
from typedbatch._lsp.runs import Runs
from typedbatch._program.arrays.dtypes import told

_NAME: Final = re.compile(r"\w+")


class FieldAt(NamedTuple):
    """A place in a text where a field of a batch is named.

    Attributes:
        batch: What is known of the batch.
        name: Name of the field.
        field: The field; None if the batch is not known to have it.
        column: Column of the name in bytes, from 0.
    """

    batch: Seen
    name: str
    field: Field | None
    column: int


def described(seen: Seen, declared: str = "") -> str:
    """Return kind, dtype and shape of a value, as far as they are known.

    Args:
        seen: The value.
        declared: Annotation that is shown where it says more.
    """
    if seen.fields is not None:
        return f"Batch({', '.join(one.label for one in seen.fields.values())})" if seen.fields else "Batch"
    array = seen.array
    if array is None or (array.axes is None and declared):
        return declared or seen.kind
    dtype = told(array.dtypes) if array.dtypes is not None else ""
    shape = str(array) if array.axes is not None else ""
    return " ".join(part for part in ("Tensor" if array.torch else "ndarray", dtype, shape) if part)


def field_at(runs: Runs, path: str, line: int, column: int) -> FieldAt | None:
    """Return the field of a batch that is named at a place, as ``batch.obs`` or ``batch["obs"]``."""
    lines = (runs.text_of(path) or "").split("\n")
    written = lines[line - 1].encode("utf-8", "replace") if 0 < line <= len(lines) else b""
    # Each byte is one character here, so that places in the text are columns.
    text = written.decode("latin-1")
    word = next((one for one in _NAME.finditer(text) if one.start() <= column <= one.end()), None)
    found = re.search(r"\s*(?:\.\s*|\[\s*['\"])$", text[: word.start()]) if word is not None else None
    if word is None or found is None:
        return None
    seen = runs.places_in(path, line).ending_at(line, found.start())
    if seen is None or seen.fields is None:
        return None
    name = written[word.start() : word.end()].decode("utf-8", "replace")
    return FieldAt(seen, name, seen.fields.get(name), word.start())
