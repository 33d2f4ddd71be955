"""Fields of a batch as they are shown: kind, dtype and shape, and where each is set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from typedbatch._lsp.places import Field, Seen, Site
from typedbatch._lsp.runs import Runs
from typedbatch._program.arrays.dtypes import told

_NAME: Final = re.compile(r"\w+")


@dataclass(frozen=True)
class Shown:
    """A field as it is shown.

    Attributes:
        name: Name.
        is_sure: Whether every way to the line has set it.
        text: Kind, dtype and shape, or its annotation; empty if nothing is known.
        sites: Nodes that may have set it.
        inner: Fields of a nested batch.
    """

    name: str
    is_sure: bool
    text: str
    sites: frozenset[Site] = frozenset()
    inner: tuple[Shown, ...] = ()

    @property
    def label(self) -> str:
        """Name, with a question mark behind that of a field which may be missing."""
        return self.name if self.is_sure else f"{self.name}?"


class FieldAt(NamedTuple):
    """A place in a text where a field of a batch is named.

    Attributes:
        batch: What is known of the batch.
        name: Name of the field.
        line: Line, from 1.
        column: Column of the name, from 0.
    """

    batch: Seen
    name: str
    line: int
    column: int

    @property
    def shown(self) -> Shown | None:
        """The field, or None if the batch is not known to have it."""
        return next((one for one in fields_of(self.batch) if one.name == self.name), None)


def fields_of(seen: Seen) -> tuple[Shown, ...]:
    """Return the fields of a batch, in the order in which they were set; none for anything else."""
    return _shown(seen.fields or {})


def _shown(fields: Mapping[str, Field]) -> tuple[Shown, ...]:
    return tuple(
        Shown(name, one.is_sure, described(one.value, one.declared), one.sites, _shown(one.value.fields or {}))
        for name, one in fields.items()
    )


def described(seen: Seen, declared: str = "") -> str:
    """Return kind, dtype and shape of a value, as far as they are known.

    Args:
        seen: The value.
        declared: Annotation that is shown where it says more.
    """
    if seen.fields is not None:
        return f"Batch({', '.join(one.label for one in fields_of(seen))})" if seen.fields else "Batch"
    array = seen.array
    if array is None or (array.axes is None and declared):
        return declared or seen.kind
    dtype = told(array.dtypes) if array.dtypes is not None else ""
    shape = str(array) if array.axes is not None else ""
    return " ".join(part for part in ("Tensor" if array.torch else "ndarray", dtype, shape) if part)


def field_at(runs: Runs, path: str, line: int, column: int) -> FieldAt | None:
    """Return the field of a batch that is named at a place, as ``batch.obs`` or ``batch["obs"]``.

    Args:
        runs: The project.
        path: Path of the file.
        line: Line, from 1.
        column: Column in bytes, from 0.
    """
    lines = runs.text_of(path).split("\n")
    if not 0 < line <= len(lines):
        return None
    written = lines[line - 1].encode("utf-8", "replace")
    # Each byte is one character here, so that places in the text are columns.
    text = written.decode("latin-1")
    word = next((one for one in _NAME.finditer(text) if one.start() <= column <= one.end()), None)
    found = re.search(r"\s*(?:\.\s*|\[\s*['\"])$", text[: word.start()]) if word is not None else None
    if word is None or found is None:
        return None
    seen = runs.places_in(path, line).ending_at(line, found.start())
    if seen is None or seen.fields is None:
        return None
    return FieldAt(seen, written[word.start() : word.end()].decode("utf-8", "replace"), line, word.start())
