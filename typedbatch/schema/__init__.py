"""Run-time schemas of protocols and records: reading a declaration, checking a batch, explaining a failed check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typedbatch.schema.fields import Schema


SCHEMAS: Final[dict[Any, Schema]] = {}
"""The schemas that have been read, by protocol or record."""


def schema_of(hint: Any) -> Schema:
    """Return the schema of a protocol or record. It is read at the first call; later calls return the same object.

    Raises:
        DeclarationError: ``hint`` is neither a protocol nor a record, or is a union, or one of its annotations cannot
            be read.
    """
    try:
        return SCHEMAS[hint]
    except (KeyError, TypeError):
        pass
    from typedbatch.schema import read  # imported here so that ``import typedbatch`` does not wait for it

    return read.read_schema(hint)
