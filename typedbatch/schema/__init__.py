"""What run time knows of a protocol or record: read once into a ``Schema``, checked, and explained when it fails.

The modules are imported at the first use of these functions, so that ``import typedbatch`` does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from typedbatch._declaration import number_fields, object_fields, readers

if TYPE_CHECKING:
    from typedbatch.errors import Problem
    from typedbatch.schema.fields import Schema


def schema_of(hint: Any) -> Schema:
    """The schema of a protocol or record; compiled at the first call, the same object ever after.

    Raises:
        DeclarationError: ``hint`` is neither, or a union, or one of its annotations cannot be read.
    """
    from typedbatch.schema import read

    return read.schema_of(hint)


def is_schema(hint: Any) -> bool:
    """True for a protocol or record, parametrised or not, and for ``Batch`` itself."""
    from typedbatch.schema import read

    return read.is_schema(hint)


def options_of(hint: Any) -> tuple[Any, ...]:
    """The schemas that a hint stands for: itself, or the parts of a union; aliases are looked through.

    Raises:
        DeclarationError: a part is neither a schema nor ``NoneType``.
    """
    from typedbatch.schema import read

    return read.options_of(hint)


def class_of(hint: Any) -> Any:
    """The class of a protocol or record, without its parameters."""
    from typedbatch.schema import values

    return values.class_of(hint)


def check_of(schema: Schema) -> Callable[[object], bool]:
    """The function that says whether an object matches; compiled at the first call, the same function ever after."""
    from typedbatch.schema import check

    return check.check_of(schema)


def matches(batch: object, schema: Schema) -> bool:
    """True when ``batch`` is a Batch with all declared fields, each of what it takes, with dimensions that agree."""
    return check_of(schema)(batch)


def find_problems(batch: object, schema: Schema) -> tuple[Problem, ...]:
    """Every way in which ``batch`` differs from ``schema``, in the order of the fields; empty when it matches."""
    from typedbatch.schema import explain

    return explain.find_problems(batch, schema)


def find_violations(batch: Any, schema: Schema) -> tuple[Problem, ...]:
    """Every rule on values that does not hold, for a batch whose structure is right."""
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
