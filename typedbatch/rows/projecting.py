"""Functions that use a protocol as the list of fields a stage reads: ``field_names`` and ``project``."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from typing_extensions import TypeForm

from typedbatch._core.kinds import BATCH, kind_of
from typedbatch._validation.validate import first_match, typed_copy, validate_at
from typedbatch.protocols import BatchProtocol
from typedbatch.records import fill_defaults
from typedbatch.schema import schema_of
from typedbatch.schema.fields import Schema

T = TypeVar("T")


@overload
def project(batch: BatchProtocol, into: TypeForm[T], /) -> T: ...
@overload  # for jedi, which does not support TypeForm; checkers never reach this one
def project(batch: BatchProtocol, into: type[T], /) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def project(batch: Any, into: Any, /) -> Any:
    """Return a new, validated batch with only the fields that a protocol or record declares. Memory is shared.

    Nested batches lose the fields that their own declarations do not name.

    Args:
        batch: Any batch.
        into: The protocol or record.

    Returns:
        A batch of the record's class, or an open batch for a protocol. Optional fields that are missing are left out,
        or get their default in a record.

    Raises:
        LeafError: ``batch`` is not a Batch.
        SchemaError: a declared field is missing or differs from its declaration.
        DeclarationError: ``into`` is not a protocol or record.
    """
    schema = schema_of(into)
    result = typed_copy(batch, schema, "project()")
    _keep_declared(result, schema)
    fill_defaults(type(result), result.__dict__)
    return validate_at(result, into, "")


def _keep_declared(tree: Any, schema: Schema) -> None:
    nested = {field.name: field.nested for field in schema.fields}
    for name, value in list(tree.__dict__.items()):
        if name not in nested:
            del tree.__dict__[name]
        elif kind_of(value) is BATCH:
            inner = first_match(value, nested[name])
            if inner is not None:
                _keep_declared(value, inner)


def field_names(schema: object, /) -> tuple[str, ...]:
    """Return the names of the fields that a protocol or record declares, inherited ones first, optional ones included.

    Raises:
        DeclarationError: ``schema`` is not a protocol or record.
    """
    return tuple(field.name for field in schema_of(schema).fields)
