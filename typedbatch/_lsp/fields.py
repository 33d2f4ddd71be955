"""Fields of plain batches, in the words that an editor shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from mypy.messages import format_type
from mypy.options import Options
from mypy.types import Type

from typedbatch._lsp.checker import Checker
from typedbatch._lsp.places import Seen
from typedbatch._program.arrays.dtypes import told
from typedbatch._program.arrays.values import Array, Value
from typedbatch.mypy.batches.content import Content, Field
from typedbatch.mypy.types.fields import Rest, alternatives, known_fields
from typedbatch.mypy.wording import plain_words


@dataclass(frozen=True)
class Shown:
    """A field as it is shown.

    Attributes:
        name: Name.
        is_sure: Whether every way to the line has set it.
        text: Kind, dtype and shape; empty if nothing is known.
        line: Line that set it, from 1; 0 if it is not in the file.
        inner: Fields of a nested batch.
    """

    name: str
    is_sure: bool
    text: str
    line: int
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
    """Return the fields of a plain batch, in the order in which they were set; none for anything else."""
    made = seen.batch
    if made is None:
        return ()
    shown = _shown(seen, made, seen.type, 0)
    known = {one.name for one in shown}
    return (*shown, *(Shown(name, True, "", 0) for name in sorted({*seen.elsewhere} - known)))


def has_others(seen: Seen) -> bool:
    """Return whether a batch may have fields beside those that are known."""
    made = seen.batch
    return made is not None and (made.rest is not Rest.NONE or made.escaped)


_DEEPEST = 3


def _shown(seen: Seen, made: Content, type_: Type | None, depth: int) -> tuple[Shown, ...]:
    types: dict[str, Type] = {}
    for one in alternatives(type_):
        known = known_fields(one)
        types.update(known.known if known is not None else {})
    return tuple(_field(seen, name, held, types.get(name), depth) for name, held in made.fields.items())


def _field(seen: Seen, name: str, held: Field, type_: Type | None, depth: int) -> Shown:
    nested = seen.inner(held.value) if depth < _DEEPEST else None
    if nested is None:
        return Shown(name, held.sure, described(held.value, type_), held.line)
    inner = _shown(seen, nested, type_, depth + 1)
    return Shown(name, held.sure, f"Batch({', '.join(one.label for one in inner)})", held.line, inner)


def described(value: Value | Any, type_: Type | None) -> str:
    """Return kind, dtype and shape of a value, as far as they are known."""
    if not isinstance(value, Array):
        text = plain_words(format_type(type_, Options()).strip('"')) if type_ is not None else ""
        return "" if text == "Any" else text
    dtype = told(value.dtypes) if value.dtypes is not None else _dtype_of(type_)
    shape = str(value) if value.axes is not None else ""
    return " ".join(part for part in ("Tensor" if value.torch else "ndarray", dtype, shape) if part)


def _dtype_of(type_: Type | None) -> str:
    """Return the dtype in the type of an array of numpy."""
    found = re.search(r"dtype\[(?:\w+\.)*(\w+)", str(type_)) if type_ is not None else None
    return "" if found is None or found[1] in ("Any", "generic") else found[1]


_NAME = re.compile(r"\w+")


def field_at(checker: Checker, path: str, line: int, column: int) -> FieldAt | None:
    """Return the field of a plain batch that is named at a place, as ``batch.obs`` or ``batch["obs"]``.

    Args:
        checker: The program.
        path: Path of the file.
        line: Line, from 1.
        column: Column in bytes, from 0.
    """
    lines = checker.text_of(path).split("\n")
    if not 0 < line <= len(lines):
        return None
    written = lines[line - 1].encode()
    word = next((one for one in _NAME.finditer(written.decode("latin-1")) if one.start() <= column <= one.end()), None)
    if word is None:
        return None
    before = written[: word.start()].decode("latin-1")
    found = re.search(r"\s*(?:\.\s*|\[\s*['\"])$", before)
    seen = checker.places.ending_at(path, line, found.start()) if found is not None else None
    if seen is None or seen.batch is None:
        return None
    return FieldAt(seen, written[word.start() : word.end()].decode(), line, word.start())
