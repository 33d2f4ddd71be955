"""pydantic: protocols and records as types of fields, models of a batch's fields. Needs the extra ``pydantic``.

For ``class Step(BaseModel): rollout: RolloutBatchProtocol`` nothing is imported from here: pydantic asks the protocols
themselves. ``TypeAdapter``, ``validate_call`` and pydantic's dataclasses do the same.
"""

# Annotations stay objects here: pydantic before 2.13 reads the text of one in the module of the derived model.
import sys
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic import Field as ModelField
from pydantic.errors import PydanticUserError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, ValidationError, core_schema

from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.copying import deep_leaf
from typedbatch._report import in_a_line
from typedbatch._tree.depth import fields_of, require_depth
from typedbatch._tree.leaves import (
    ARRAY,
    BATCH,
    DISTRIBUTION,
    MAPPING,
    NONE,
    SCALAR,
    SEQUENCE,
    TENSOR,
    Tree,
    describe,
    kind_of,
)
from typedbatch._validation.validate import validate_at
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError, LeafError, Problem, SchemaError, TypedBatchError, under
from typedbatch.json_schema import field_schema, json_schema
from typedbatch.records import default_of
from typedbatch.schema import class_of, schema_of
from typedbatch.schema.fields import Field
from typedbatch.schema.names import parts_of

__all__ = ["BatchModel", "model_from", "to_batch"]

_BOUNDARY = "pydantic"


def _as_leaf(value: Any) -> Any:
    try:
        return to_leaf(value)
    except TypedBatchError as error:
        raise PydanticCustomError("no_batch", "{reason}", {"reason": error.reason}) from error


def _plain(value: Any) -> Any:
    """A batch or leaf as lists, dicts, text and numbers."""
    kind = kind_of(value)
    if kind is BATCH:
        return _plain_fields(value.__dict__)
    if kind is MAPPING:
        return {str(name): _plain(part) for name, part in value.items()}
    if kind is SEQUENCE:
        return [_plain(part) for part in value]
    if kind is DISTRIBUTION:
        raise LeafError(f"{describe(value)} cannot be written as JSON")
    if kind not in (ARRAY, TENSOR, SCALAR):
        return value
    try:
        array = leaf_to_numpy(value)
    except (TypeError, RuntimeError) as error:  # a sparse tensor, or another that numpy does not know
        raise LeafError(f"{describe(value)} cannot be written as JSON: {error}") from error
    if array.dtype.kind == "c":
        raise LeafError(f"{describe(value)}: JSON has no complex numbers")
    if array.dtype == object:
        return _plain(array.tolist())
    dtype: Any = str if array.dtype.kind in "mM" else float if array.dtype == np.longdouble else array.dtype
    return array.astype(dtype).tolist()


def _plain_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    out = {}
    for name, leaf in fields.items():
        with under(name):
            out[name] = _plain(leaf)
    return out


_Leaf = Annotated[Any, BeforeValidator(_as_leaf), PlainSerializer(_plain, when_used="json")]


class BatchModel(BaseModel):
    """What :func:`model_from` makes: a model with the fields of a protocol or record.

    Models are equal when they are of one class and their fields are equal, arrays included.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, extra="allow", protected_namespaces=(), ser_json_inf_nan="constants"
    )

    __pydantic_extra__: dict[str, _Leaf]  # pyright: ignore[reportIncompatibleVariableOverride]  # so pydantic reads it

    batch_schema: ClassVar[Any]
    """The protocol or record that the fields together must match."""

    @model_validator(mode="after")
    def _matches(self) -> Self:
        _validated(to_batch(self), type(self).batch_schema)
        return self

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and to_batch(self) == to_batch(other)

    __hash__ = None  # type: ignore[assignment]  # as every model that may be changed


def model_from(schema: Any, name: str | None = None) -> type[BatchModel]:
    """A pydantic model with the fields of a protocol or record, which are checked together.

    Arrays and tensors are kept as they are, lists become arrays and dicts Batches, so models are read from JSON too;
    ``info`` and the like are Batches. :func:`to_batch` is the way back. Fields that are not declared are kept.

    Args:
        schema: the protocol or record.
        name: the name of the class; None for that of the protocol or record.

    Raises:
        DeclarationError: it is neither, or pydantic does not take the name of a field.
    """
    target = schema_of(schema)
    try:
        model = create_model(
            name or class_of(schema).__name__,
            __base__=BatchModel,
            __module__=sys._getframe(1).f_globals["__name__"],
            **{field.name: _model_field(target.target, field) for field in target},
        )
    except (PydanticUserError, NameError, TypeError, ValueError, AttributeError) as error:
        raise DeclarationError(f"pydantic takes no model with the fields of {target.name}: {error}") from error
    model.batch_schema = schema
    return model


def to_batch(model: Any) -> Batch:
    """The fields of a model as a Batch, those of models inside it as nested ones. Arrays are shared.

    Args:
        model: any model; of one of :func:`model_from`, fields that may be absent are so where they are None.

    Raises:
        LeafError: ``model`` is none, or has a field that no batch holds; the error names it.
        StructureError: models, dicts and lists are nested more than 100 deep.
    """
    if not isinstance(model, BaseModel):
        raise LeafError(f"to_batch() takes a model of pydantic, got {describe(model)}")
    require_depth(model, _parts)
    return _batch_of(model)


def _parts(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if isinstance(value, list):
        return dict(enumerate(value)) if any(isinstance(part, (dict, list, BaseModel)) for part in value) else None
    return value if isinstance(value, dict) else fields_of(value)


def _batch_of(model: BaseModel) -> Batch:
    given = {**model.__dict__, **(model.__pydantic_extra__ or {})}
    if isinstance(model, BatchModel):
        fields = schema_of(type(model).batch_schema)
        absent = {field.name for field in fields if field.optional and NONE not in (field.kinds or {NONE})}
        given = {name: value for name, value in given.items() if value is not None or name not in absent}
    return Batch({name: _without_models(value) for name, value in given.items()})


def _without_models(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _batch_of(value)
    if isinstance(value, dict):
        return {name: _without_models(part) for name, part in value.items()}
    return [_without_models(part) for part in value] if isinstance(value, list) else value


def schema_for(source: Any) -> CoreSchema:
    """What pydantic asks a protocol, a record, or another class of batches for.

    A Batch passes as it is, under a record's class as a view of it; a mapping becomes a Batch unless pydantic is
    strict. Problems become pydantic's errors, each with the field in its ``loc``.
    """
    to_json = core_schema.plain_serializer_function_ser_schema(_plain, when_used="json")
    # the second is what pydantic's own Tag sets: the name in the loc of an error, if this is a part of a union
    metadata = {
        "pydantic_js_functions": [lambda _, __: json_schema(source)],
        "pydantic_internal_union_tag_key": class_of(source).__name__,
    }
    return core_schema.lax_or_strict_schema(
        lax_schema=core_schema.no_info_plain_validator_function(lambda value: _validated(_from_mapping(value), source)),
        strict_schema=core_schema.no_info_plain_validator_function(lambda value: _validated(value, source)),
        serialization=to_json,
        metadata=metadata,
    )


def _from_mapping(value: Any) -> Any:
    if isinstance(value, Tree) or not isinstance(value, Mapping):
        return value
    try:
        require_depth(value, _parts)
        return Batch(value)
    except TypedBatchError as error:
        raise _failed(error, value) from error


def _validated(value: Any, source: Any) -> Any:
    try:
        return validate_at(value, source, _BOUNDARY)
    except SchemaError as error:
        raise ValidationError.from_exception_data(
            error.schema, [_details(problem, value) for problem in error.problems]
        ) from error


def _details(problem: Problem, batch: Any) -> InitErrorDetails:
    location, found = parts_of(problem.path), batch
    for name in location:
        found = found.__dict__.get(name) if isinstance(found, Tree) else None
    number, _, code = problem.code.partition(" ")
    context = {**problem.to_dict(), "code": number, "said": f"{in_a_line(problem)} [{number}]"}
    kind = PydanticCustomError(code.replace("-", "_"), "{said}", context)
    shown = batch if found is None else found  # the text of a whole batch would hide the message
    return InitErrorDetails(type=kind, loc=location, input=describe(shown) if isinstance(shown, Tree) else shown)


def _failed(error: TypedBatchError, value: Any) -> ValidationError:
    kind = PydanticCustomError("no_batch", "{reason}", {"reason": error.reason})
    return ValidationError.from_exception_data(
        "Batch", [InitErrorDetails(type=kind, loc=parts_of(error.path), input=value)]
    )


def _model_field(target: type, field: Field) -> Any:
    hint = Annotated[_Leaf, WithJsonSchema(field_schema(field))]
    if field.optional:
        default = default_of(target, field.name)
        return hint, ModelField(default_factory=lambda: deep_leaf(default, {}), validate_default=False)
    return hint, ModelField()
