"""Run-time schemas of protocols and records: reading a declaration, checking a batch, explaining a failed check.

Each function imports its module when it is first called, so that ``import typedbatch`` does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from typedbatch._declaration import number_fields, object_fields, readers

if TYPE_CHECKING:
    from typedbatch.errors import Problem
    from typedbatch.schema.fields import Schema


def schema_of(hint: Any) -> Schema:
    """Return the schema of a protocol or record. It is read at the first call; later calls return the same object.

    Raises:
        DeclarationError: ``hint`` is neither a protocol nor a record, or is a union, or one of its annotations cannot
            be read.
    """
    from typedbatch.schema import read

    return read.schema_of(hint)


def is_schema(hint: Any) -> bool:
    """Return True for a protocol or record, parametrized or not, and for ``Batch`` itself."""
    from typedbatch.schema import read

    return read.is_schema(hint)


def options_of(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union of schemas, or the schema itself. Aliases are resolved.

    Raises:
        DeclarationError: a member is neither a schema nor ``NoneType``.
    """
    from typedbatch.schema import read

    return read.options_of(hint)


def class_of(hint: Any) -> Any:
    """Return the class of a protocol or record, without its parameters."""
    from typedbatch.schema import values

    return values.class_of(hint)


def check_of(schema: Schema) -> Callable[[object], bool]:
    """Return the function that checks whether an object matches a schema.

    It is compiled at the first call; later calls return the same function.
    """
    from typedbatch.schema import check

    return check.check_of(schema)


def matches(batch: object, schema: Schema) -> bool:
    """Return True if ``batch`` is a Batch whose fields have the declared kinds, dtypes and shapes.

    All required fields must be there, and dimensions of the same name must have the same size.
    """
    return check_of(schema)(batch)


def find_problems(batch: object, schema: Schema) -> tuple[Problem, ...]:
    """Return every difference between ``batch`` and ``schema``, in the order of the fields; empty if it matches."""
    from typedbatch.schema import explain

    return explain.find_problems(batch, schema)


def find_violations(batch: Any, schema: Schema) -> tuple[Problem, ...]:
    """Return the rules on values that do not hold, for a batch whose structure is right."""
    from typedbatch.schema import violations

    return violations.find_violations(batch, schema)


def _read_declared(cls: type) -> None:
    from typedbatch.schema import read

    read.read_at_declaration(cls)


def _object_fields(cls: type) -> frozenset[str]:
    return frozenset(field.name for field in schema_of(cls).fields if field.takes_objects())


def _number_fields(cls: type) -> frozenset[str]:
    return frozenset(field.name for field in schema_of(cls).fields if field.takes_numbers())


readers.append(_read_declared)
object_fields.readers.append(_object_fields)
number_fields.readers.append(_number_fields)
