"""Support for pydantic: protocols and records as types of fields, and models of a batch's fields.

Needs the extra ``pydantic``. ``class Step(BaseModel): rollout: RolloutBatchProtocol`` needs no import from this module,
because pydantic gets the schema from the protocol itself. The same is true for ``TypeAdapter``, ``validate_call`` and
pydantic's dataclasses.
"""

# No `from __future__ import annotations`, because pydantic before 2.13 evaluates an annotation that is text in the
# module of the derived model.
import math
import sys
from collections.abc import Mapping
from functools import partial
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, Self

import numpy as np
import pydantic
from pydantic.errors import PydanticUserError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, ValidationError, core_schema

from typedbatch._core.depth import fields_of, require_depth
from typedbatch._core.kinds import Kind, Tree, describe, is_objects, kind_of
from typedbatch._ops.casting import as_declared
from typedbatch._ops.construct import objects, to_leaf
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.copying import deep_leaf
from typedbatch._report import in_a_line
from typedbatch._validation.validate import validate_at
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError, LeafError, SchemaError, TypedBatchError, for_each, under
from typedbatch.json_schema import field_schema, json_schema
from typedbatch.ragged import Ragged
from typedbatch.records import default_of
from typedbatch.schema import schema_of
from typedbatch.schema.fields import Field, Schema
from typedbatch.schema.paths import parts_of
from typedbatch.schema.values import class_of

__all__ = ["BatchModel", "model_from", "to_batch"]

_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that JSON lacks, as pydantic writes them with ``ser_json_inf_nan="strings"``."""


def _as_leaf(value: Any, field: Field | None = None) -> Any:
    try:
        return _read(value, field)
    except TypedBatchError as error:
        raise PydanticCustomError("no_batch", "{reason}", {"reason": error.reason}) from error


def _read(value: Any, field: Field | None) -> Any:
    """Return what JSON has of a field as the field declares it if it can be, and any leaf or batch as it is."""
    kind, options = kind_of(value), () if field is None else field.options
    has_numbers = field is not None and field.takes_numbers()
    takes_objects = field is not None and field.takes_objects()
    if kind is Kind.MAPPING:
        for option in options:
            if option.kind is Kind.BATCH and option.schema is not None:
                return _read_fields(value, option.schema)
            if option.each is not None:
                return Batch({name: _read(part, option.each) for name, part in value.items()})
    if kind is Kind.SEQUENCE:
        for option in options:
            if option.kind is Kind.RAGGED and option.schema is not None and set(map(kind_of, value)) <= {Kind.MAPPING}:
                none: dict[str, Any] = {one.name: [] for one in option.schema if not one.optional}
                rows = [_read_fields(row, option.schema) for row in value]
                return Ragged.from_lists(rows) if rows else Ragged(_read_fields(none, option.schema), [])
            is_text = option.dtypes is not None and option.dtypes[np.dtype(object)]  # a batch stores text as objects
            if is_text and (not len(value) or takes_objects):
                return objects(value)
    if kind not in (Kind.SEQUENCE, Kind.NUMBER) and not (has_numbers and isinstance(value, str)):
        return to_leaf(value)
    leaf = to_leaf(_WORDS.get(value, value) if isinstance(value, str) else value)
    if is_objects(leaf):
        known: dict[Any, float] = {**_WORDS, None: math.nan} if has_numbers else {**_WORDS}
        given = leaf.ravel().tolist()
        parts: list[Any] = [known.get(part, part) if type(part) in (str, NoneType) else part for part in given]
        if set(map(type, parts)) == {int}:  # which int64 cannot hold
            leaf = np.array(parts, np.uint64).reshape(leaf.shape) if min(parts) >= 0 and max(parts) < 2**64 else leaf
        elif set(map(type, parts)) <= {int, float} and (options or not all(map(_WORDS.__contains__, leaf.ravel()))):
            leaf = np.array(parts, float).reshape(leaf.shape)
    return leaf if field is None else as_declared(leaf, field)


def _read_fields(fields: Mapping[str, Any], schema: Schema) -> Batch:
    """Return the fields of a batch as its schema declares them."""
    declared = {field.name: field for field in schema}
    found = {}
    for name, value in fields.items():
        with under(name):
            found[name] = _read(value, declared.get(name))
    return Batch(found)


def _plain(value: Any, words: bool = False) -> Any:
    """Return a batch or leaf as lists, dicts, text and numbers; with ``words``, numbers that JSON lacks as text."""
    kind = kind_of(value)
    if kind is Kind.BATCH:
        return for_each(value.__dict__, partial(_plain, words=words))
    if kind is Kind.MAPPING:
        return {str(name): _plain(part, words) for name, part in value.items()}
    if kind is Kind.SEQUENCE or (kind is Kind.RAGGED and value.sizes.shape):
        return [_plain(part, words) for part in value]
    if kind is Kind.RAGGED:
        return _plain(value.values, words)
    if kind is Kind.DISTRIBUTION:
        raise LeafError(f"{describe(value)} cannot be written as JSON")
    if kind not in (Kind.ARRAY, Kind.TENSOR, Kind.SCALAR):
        return value
    try:
        array = np.asarray(leaf_to_numpy(value))
    except (TypeError, RuntimeError) as error:  # a tensor that numpy cannot represent, such as a sparse one
        raise LeafError(f"{describe(value)} cannot be written as JSON: {error}") from error
    if array.dtype.kind == "c":
        raise LeafError(f"{describe(value)}: JSON has no complex numbers")
    if array.dtype == object:
        return _plain(array.tolist(), words)
    dtype: Any = str if array.dtype.kind in "mM" else float if array.dtype == np.longdouble else array.dtype
    plain = array.astype(dtype)
    if words and plain.dtype.kind == "f" and not np.isfinite(plain).all():
        texts = plain.astype(object)
        texts[np.isnan(plain)] = "NaN"
        texts[plain == np.inf], texts[plain == -np.inf] = "Infinity", "-Infinity"
        return texts.tolist()
    return plain.tolist()


_TO_JSON: Final = pydantic.PlainSerializer(_plain, when_used="json")
_Leaf = Annotated[Any, pydantic.BeforeValidator(_as_leaf), _TO_JSON]


class BatchModel(pydantic.BaseModel):
    """Base class of the models that :func:`model_from` creates, with the fields of a protocol or record.

    Models are equal if they have the same class and their fields are equal, arrays included.
    """

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(
        arbitrary_types_allowed=True, extra="allow", protected_namespaces=(), ser_json_inf_nan="constants"
    )

    __pydantic_extra__: dict[str, _Leaf]  # pyright: ignore[reportIncompatibleVariableOverride]  # how pydantic declares it

    batch_schema: ClassVar[Any]
    """The protocol or record that the fields together must match."""

    @pydantic.model_validator(mode="after")
    def _matches(self) -> Self:
        _validate(to_batch(self), type(self).batch_schema)
        return self

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and to_batch(self) == to_batch(other)

    __hash__ = None  # type: ignore[assignment]  # models are mutable


def model_from(schema: Any, name: str | None = None) -> type[BatchModel]:
    """Create a pydantic model with the fields of a protocol or record, which are validated together.

    Arrays and tensors are stored as they are. Lists become arrays and dicts become Batches, so models can be read from
    JSON as well; ``info`` and similar fields are Batches. Undeclared fields are stored too. :func:`to_batch` is the
    inverse.

    Args:
        schema: The protocol or record.
        name: Name of the class, or None for that of the protocol or record.

    Raises:
        DeclarationError: ``schema`` is neither a protocol nor a record, or pydantic refuses the name of a field.
    """
    target = schema_of(schema)
    title, module = name or class_of(schema).__name__, sys._getframe(1).f_globals["__name__"]
    try:
        fields: Any = {field.name: _model_field(target.target, field) for field in target}
        model = pydantic.create_model(title, __base__=BatchModel, __module__=module, **fields)
    except (PydanticUserError, NameError, TypeError, ValueError, AttributeError) as error:
        raise DeclarationError(f"pydantic refuses a model with the fields of {target.name}: {error}") from error
    model.batch_schema = schema
    return model


def to_batch(model: Any) -> Batch:
    """Return the fields of a model as a Batch, with nested models as nested batches. Arrays are shared.

    Args:
        model: Any model. If :func:`model_from` created its class, optional fields with the value None are left out
            where their declaration does not allow None.

    Raises:
        LeafError: ``model`` is not a model, or has a field that a batch cannot hold; the error names it.
        StructureError: models, dicts and lists are nested more than 100 deep.
    """
    if not isinstance(model, pydantic.BaseModel):
        raise LeafError(f"to_batch() takes a pydantic model, got {describe(model)}")
    require_depth(model, _parts)
    batch: Batch = _without_models(model)
    return batch


def _parts(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, pydantic.BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if isinstance(value, list):
        has_parts = any(isinstance(part, (dict, list, pydantic.BaseModel)) for part in value)
        return dict(enumerate(value)) if has_parts else None
    return value if isinstance(value, dict) else fields_of(value)


def _without_models(value: Any) -> Any:
    """Return a value with batches in place of models, which may be in dicts and lists."""
    if isinstance(value, list):
        return [_without_models(part) for part in value]
    if not isinstance(value, (dict, pydantic.BaseModel)):
        return value
    parts = {name: _without_models(part) for name, part in (_parts(value) or {}).items()}
    for field in schema_of(type(value).batch_schema) if isinstance(value, BatchModel) else ():
        if parts.get(field.name, field) is None and field.optional and Kind.NONE not in (field.kinds or {Kind.NONE}):
            del parts[field.name]
    return Batch(parts) if isinstance(value, pydantic.BaseModel) else parts


def schema_for(source: Any) -> CoreSchema:
    """Return the pydantic core schema of a protocol, a record, or another class of batches.

    A Batch passes as it is, or as a view of a record's class. A mapping becomes a Batch unless pydantic is strict.
    Problems become pydantic errors, each with the field in its ``loc``.
    """
    to_json = core_schema.plain_serializer_function_ser_schema(partial(_plain, words=True), when_used="json")
    # The second key is the one that pydantic's own Tag sets: the name in an error's loc if this is a member of a union.
    metadata = {
        "pydantic_js_functions": [lambda _, __: json_schema(source)],
        "pydantic_internal_union_tag_key": class_of(source).__name__,
    }

    def strict(value: Any) -> Any:
        return _validate(value, source)

    def lax(value: Any) -> Any:
        return strict(_from_mapping(value, source))

    lax.__name__ = strict.__name__ = class_of(source).__name__  # pydantic shows it in the title of its error
    return core_schema.lax_or_strict_schema(
        lax_schema=core_schema.no_info_plain_validator_function(lax),
        strict_schema=core_schema.no_info_plain_validator_function(strict),
        serialization=to_json,
        metadata=metadata,
    )


def _from_mapping(value: Any, source: Any) -> Any:
    if isinstance(value, Tree) or not isinstance(value, Mapping):
        return value
    try:
        require_depth(value, _parts)
        return _read_fields(value, schema_of(source))
    except TypedBatchError as error:
        kind = PydanticCustomError("no_batch", "{reason}", {"reason": error.reason})
        details = InitErrorDetails(type=kind, loc=parts_of(error.path), input=value)
        raise ValidationError.from_exception_data("Batch", [details]) from error


def _validate(value: Any, source: Any) -> Any:
    try:
        return validate_at(value, source, "pydantic")
    except SchemaError as error:
        details: list[InitErrorDetails] = []
        for problem in error.problems:
            location, found = parts_of(problem.path), value
            for name in location:
                found = found.__dict__.get(name) if isinstance(found, Tree) else None
            number, _, code = problem.code.partition(" ")
            context = {**problem.to_dict(), "code": number, "said": f"{in_a_line(problem)} [{number}]"}
            kind = PydanticCustomError(code.replace("-", "_"), "{said}", context)
            shown = value if found is None else found
            # a batch is only described, since the text of a whole one would hide the message
            given = describe(shown) if isinstance(shown, Tree) else shown
            details.append(InitErrorDetails(type=kind, loc=location, input=given))
        raise ValidationError.from_exception_data(error.schema, details) from error


def _model_field(target: type, field: Field) -> Any:
    read = pydantic.BeforeValidator(partial(_as_leaf, field=field))
    hint = Annotated[Any, read, _TO_JSON, pydantic.WithJsonSchema(field_schema(field))]
    if field.optional:
        default = default_of(target, field.name)
        return hint, pydantic.Field(default_factory=lambda: deep_leaf(default, {}), validate_default=False)
    return hint, pydantic.Field()
