"""A protocol as the list of fields that a stage reads: ``field_names`` and ``project``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm

from typedbatch._tree.leaves import BATCH, kind_of
from typedbatch._validation.validate import typed_copy, validate_at
from typedbatch.records import fill_defaults
from typedbatch.schema import matches, schema_of

if TYPE_CHECKING:
    from typedbatch.protocols import BatchProtocol
    from typedbatch.schema.fields import Schema

T = TypeVar("T")


@overload
def project(batch: BatchProtocol, into: TypeForm[T], /) -> T: ...
@overload  # jedi knows no TypeForm; it reads this one, and checkers never reach it
def project(batch: BatchProtocol, into: type[T], /) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def project(batch: Any, into: Any, /) -> Any:
    """A new batch with the fields that a protocol or record declares and no others, validated; memory is shared.

    Nested batches lose what their own declarations do not name.

    Args:
        batch: any batch.
        into: the protocol or record.

    Returns:
        For a record a batch of that class, for a protocol an open one. Optional fields that are not there are left out,
        or have their default in a record.

    Raises:
        LeafError: ``batch`` is not a Batch.
        SchemaError: a declared field is missing, or not as declared.
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
            inner = next((one for one in nested[name] if matches(value, one)), None)
            if inner is not None:
                _keep_declared(value, inner)


def field_names(schema: object, /) -> tuple[str, ...]:
    """The names of the fields that a protocol or record declares, inherited ones first, optional ones too.

    Raises:
        DeclarationError: ``schema`` is not a protocol or record.
    """
    return tuple(field.name for field in schema_of(schema).fields)
