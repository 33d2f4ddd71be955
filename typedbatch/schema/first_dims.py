"""First dimensions of fields, and the guard for records whose fields do not share the rows."""

from __future__ import annotations

from typing import Any

from typedbatch._core.kinds import ARRAY, BATCH, DISTRIBUTION, RAGGED, TENSOR
from typedbatch.errors import DeclarationError, RowIndexError
from typedbatch.schema import schema_of
from typedbatch.schema.dims import ROWS, Sort
from typedbatch.schema.fields import Schema

Firsts = list[tuple[str, frozenset[str]]]
"""The dotted name of each field that declares its first dimension, and the possible texts of that dimension."""

_SPECIFIC = (Sort.NAMED, Sort.FIXED, Sort.COMPUTED)


def first_dims(schema: Schema, prefix: str = "", outer: tuple[Schema, ...] = ()) -> Firsts:
    """Return the first dimension of each field that declares it, including fields of nested batches."""
    found: Firsts = []
    for field in schema.fields if schema not in outer else ():  # a schema may nest itself
        path = f"{prefix}{field.name}"
        dims: set[str] = set()
        for option in field.options:
            if option.kind is RAGGED or (option.kind is BATCH and option.schema is None):
                dims.add(ROWS)
            elif option.kind in (ARRAY, TENSOR, DISTRIBUTION) and option.shape.dims:
                first = option.shape.dims[0]
                if first.sort not in _SPECIFIC:
                    dims.clear()
                    break
                dims.add(first.text)
        if dims:
            found.append((path, frozenset(dims)))
        for inner in field.nested:
            found += first_dims(inner, f"{path}.", (*outer, schema))
    return found


def guard_rows(cls: Any, schema: Schema) -> None:
    """Make row operations refuse batches of a record whose fields differ in their first dimension."""
    cls._row_guard = None  # a private name, because public names are fields
    firsts = first_dims(schema)
    names = [name for _, dims in firsts for name in dims if name.isidentifier()]
    rows = ROWS if ROWS in names else max(names, key=names.count, default="")
    other = next(((path, dims) for path, dims in firsts if rows not in dims), None)
    if not rows or other is None:
        return
    like = next(path for path, dims in firsts if rows in dims)
    path, dims = other
    reason = (
        f"{schema.target.__name__} declares its first dimension as {' or '.join(sorted(dims))!r}, and that of {like} "
        f"as {rows!r}, so the same index would take unrelated rows of the two; declare values of a different length "
        "per row as Ragged[...], or take rows of the fields of this record one by one"
    )

    def refuse(*_: object, joining: bool = False) -> None:
        raise RowIndexError(reason, path)

    cls._row_guard = staticmethod(refuse)


def guard_when_used(cls: Any) -> None:
    """Like :func:`guard_rows`, for a declaration that refers to later definitions and is read at its first use."""

    def read_and_guard(*trees: object, joining: bool = False) -> None:
        try:
            schema_of(cls)  # replaces this guard
        except DeclarationError:  # the first dimensions are unknown, and unknown is never reported
            cls._row_guard = None
        if (guard := cls._row_guard) is not None:
            guard(*trees, joining=joining)

    cls._row_guard = staticmethod(read_and_guard)
