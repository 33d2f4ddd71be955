"""JSON schema of protocols and records, for batches whose arrays are converted to lists."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import numpy as np

from typedbatch._core.kinds import BATCH, DISTRIBUTION, NONE, OBJECT
from typedbatch.schema import schema_of
from typedbatch.schema.dims import Sort
from typedbatch.schema.dtypes import FLOATS, INTEGERS
from typedbatch.schema.fields import Field, Option, Schema

__all__ = ["json_schema"]

_ELEMENTS: Final = {"boolean": ("bool",), "integer": INTEGERS, "number": FLOATS}


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


def _object(schema: Schema, outer: tuple[Schema, ...]) -> dict[str, Any]:
    if schema in outer:  # the schema nests itself: stop here
        return {"type": "object", "title": schema.name}
    return {
        "type": "object",
        "title": schema.name,
        "properties": {field.name: field_schema(field, (*outer, schema)) for field in schema},
        "required": [field.name for field in schema if not field.optional],
    }


def field_schema(field: Field, outer: tuple[Schema, ...] = ()) -> dict[str, Any]:
    """Return the JSON schema of a field of a schema that is nested in the ``outer`` ones."""
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
        each = {} if option.each is None else {"additionalProperties": field_schema(option.each, outer)}
        return {"type": "object", **each}
    inner: dict[str, Any] = {}
    # A variadic element may stand for any number of dimensions, so the nesting after it is unknown.
    if option.shape.variadic is None and option.dtypes is not None:
        takes = option.dtypes
        types = [name for name, members in _ELEMENTS.items() if any(takes[np.dtype(member)] for member in members)]
        if "number" in types and "integer" in types:
            types.remove("integer")  # "number" includes integers
        inner = {"type": types[0] if len(types) == 1 else types} if types else {}
    for dim in reversed(option.shape.before):
        is_fixed = dim.sort is Sort.FIXED and not dim.broadcasts
        inner = {"type": "array", "items": inner} | ({"minItems": dim.size, "maxItems": dim.size} if is_fixed else {})
    return inner
