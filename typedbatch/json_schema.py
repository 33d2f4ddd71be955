"""JSON schema of protocols and records, for batches whose arrays are converted to lists."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import numpy as np

from typedbatch._tree.kinds import BATCH, DISTRIBUTION, NONE, OBJECT
from typedbatch.schema.dims import Dim, Shape, Sort
from typedbatch.schema.dtypes import FLOATS, INTEGERS, Dtypes
from typedbatch.schema.fields import Field, Option, Schema
from typedbatch.schema.read import schema_of

_ELEMENTS: Final = {
    "boolean": ("bool",),
    "integer": INTEGERS,
    "number": FLOATS,
}

__all__ = ["json_schema"]


def json_schema(schema: Any) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a protocol or record.

    Arrays and tensors become arrays of arrays. The length is given for dimensions of a fixed size. Named dimensions
    appear only in the description, because JSON schema has no names for sizes. Distributions and objects may be any
    value.

    Args:
        schema: Protocol or record.

    Raises:
        DeclarationError: ``schema`` is neither a protocol nor a record.
    """
    return _object(schema_of(schema), ())


def field_schema(field: Field) -> dict[str, Any]:
    """Return the JSON schema of a field."""
    return _field(field, ())


def _object(schema: Schema, outer: tuple[Schema, ...]) -> dict[str, Any]:
    if schema in outer:  # the schema nests itself: stop here
        return {"type": "object", "title": schema.name}
    return {
        "type": "object",
        "title": schema.name,
        "properties": {field.name: _field(field, (*outer, schema)) for field in schema},
        "required": [field.name for field in schema if not field.optional],
    }


def _field(field: Field, outer: tuple[Schema, ...]) -> dict[str, Any]:
    options = [_option(option, outer) for option in field.options]
    distinct = [option for i, option in enumerate(options) if option not in options[:i]]
    kinds = distinct[0] if len(distinct) == 1 else {"anyOf": distinct} if distinct else {}
    return {**kinds, "description": field.expects()}


def _option(option: Option, outer: tuple[Schema, ...]) -> dict[str, Any]:
    if option.choices:
        plain = all(isinstance(choice, (str, int, float, type(None))) for choice in option.choices)
        plain &= not any(isinstance(choice, Enum) for choice in option.choices)
        return {"enum": list(option.choices)} if plain else {"description": str(option)}
    if option.kind is NONE:
        return {"type": "null"}
    if option.kind in (OBJECT, DISTRIBUTION):
        return {"description": str(option)}
    if option.kind is BATCH:
        if option.schema is not None:
            return _object(option.schema, outer)
        return {"type": "object"} | (
            {} if option.each is None else {"additionalProperties": _field(option.each, outer)}
        )
    return _array(option.shape, _element(option.dtypes))


def _array(shape: Shape, element: dict[str, Any]) -> dict[str, Any]:
    # A variadic element may stand for any number of dimensions, so the nesting after it is unknown.
    inner = element if shape.variadic is None else {}
    for dim in reversed(shape.before):
        inner = {"type": "array", "items": inner, **_length(dim)}
    return inner


def _length(dim: Dim) -> dict[str, int]:
    if dim.sort is not Sort.FIXED or dim.broadcasts:
        return {}
    return {"minItems": dim.size, "maxItems": dim.size}


def _element(dtypes: Dtypes | None) -> dict[str, Any]:
    """Return the JSON type of the elements of an array with one of these dtypes."""
    if dtypes is None:
        return {}
    types = [name for name, members in _ELEMENTS.items() if any(dtypes[np.dtype(member)] for member in members)]
    if "number" in types and "integer" in types:
        types.remove("integer")  # "number" includes integers
    return {"type": types[0] if len(types) == 1 else types} if types else {}
