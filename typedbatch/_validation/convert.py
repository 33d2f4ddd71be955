"""From one kind to the other: ``convert`` makes a numpy batch a torch batch, and back, under its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm

from typedbatch._ops.conversion import leaf_to_numpy, leaf_to_torch
from typedbatch._tree.leaves import ARRAY, BATCH, RAGGED, TENSOR, Kind, describe, kind_of, new_sequences, new_tree
from typedbatch._tree.meta import keep_meta
from typedbatch._validation.validate import class_for, validate_at
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, under
from typedbatch.protocols import BatchProtocol
from typedbatch.records import fill_defaults
from typedbatch.schema import schema_of

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device
    from typedbatch.schema.fields import Field, Schema

T = TypeVar("T")
Turn = Callable[[Any], Any]


@overload
def convert(batch: BatchProtocol, into: TypeForm[T], /, *, device: Device | None = None) -> T: ...
@overload  # for jedi, as above
def convert(batch: BatchProtocol, into: type[T], /, *, device: Device | None = None) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def convert(batch: Any, into: Any, /, *, device: Device | None = None) -> Any:
    """The other kind: a new batch whose arrays are tensors, or whose tensors are arrays, as ``into`` asks, validated.

    ``convert(rollout, RolloutBatch[Tensor])`` leaves ``rollout`` as it is. CPU memory is shared where it can be. Each
    declared field becomes what its declaration takes; one that takes both stays; undeclared fields follow the majority.

    Args:
        batch: any batch.
        into: the protocol or record to become.
        device: where tensors go; None leaves them where they are.

    Raises:
        LeafError: a field of a dtype that torch lacks.
        SchemaError: the result does not match ``into``.
    """
    schema = schema_of(into)
    turns: dict[Kind, Turn] = {ARRAY: leaf_to_numpy}
    if any(option.kind is TENSOR for option in schema.every_option()):
        turns[TENSOR] = leaf_to_torch(None, device)
    if not isinstance(batch, Batch):
        raise LeafError(f"convert() takes a Batch, got {describe(batch)}")
    result = new_tree(class_for(schema, batch), _converted(batch, schema, _declared_kind(schema), turns))
    if type(batch.__dict__) is not dict:
        keep_meta(batch, result)
    fill_defaults(type(result), result.__dict__)
    return validate_at(result, into, "")


def _converted(batch: Any, schema: Schema | None, kind: Kind, turns: dict[Kind, Turn]) -> dict[str, Any]:
    declared = {field.name: field for field in schema.fields} if schema is not None else {}
    out = {}
    for name, value in batch.__dict__.items():
        field = declared.get(name)
        with under(name):
            if kind_of(value) is BATCH:
                nested = field.nested[0] if field is not None and field.nested else None
                out[name] = _converted_batch(value, nested, kind, turns)
            elif kind_of(value) is RAGGED:
                nested = next((one.schema for one in field.options if one.kind is RAGGED), None) if field else None
                values = _converted_batch(value.values, nested, kind, turns)
                out[name] = new_sequences(type(value), values, value.sizes)
            else:
                out[name] = turns[_wanted(value, field, kind)](value)
    return out


def _converted_batch(batch: Any, schema: Schema | None, kind: Kind, turns: dict[Kind, Turn]) -> Any:
    inner = _declared_kind(schema) if schema is not None else kind
    cls = type(batch) if schema is None else class_for(schema, batch)
    return new_tree(cls, _converted(batch, schema, inner, turns))


def _wanted(value: Any, field: Field | None, kind: Kind) -> Kind:
    """The kind that a leaf is turned into: what the declaration takes; what it is, if that takes both."""
    takes = field.kinds & {ARRAY, TENSOR} if field is not None and field.kinds is not None else set()
    if len(takes) == 1:
        return next(iter(takes))
    return kind_of(value) if kind_of(value) in takes else kind


def _declared_kind(schema: Schema) -> Kind:
    """What most of the fields take, those of nested schemas included."""
    kinds = [option.kind for option in schema.every_option()]
    return TENSOR if kinds.count(TENSOR) > kinds.count(ARRAY) else ARRAY
