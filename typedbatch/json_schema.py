"""JSON schema of protocols and records: what their batches look like once arrays are lists."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import numpy as np

from typedbatch._tree.leaves import BATCH, DISTRIBUTION, NONE, OBJECT
from typedbatch.schema import schema_of
from typedbatch.schema.dims import Dim, Shape, Sort
from typedbatch.schema.dtypes import FLOATS, INTEGERS, Dtypes
from typedbatch.schema.fields import Field, Option, Schema

_ELEMENTS: Final = {
    "boolean": ("bool",),
    "integer": INTEGERS,
    "number": FLOATS,
}

__all__ = ["json_schema"]


def json_schema(schema: Any) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a protocol or record.

    Arrays and tensors are arrays of arrays; of a dimension that is a number the length is said, of one that has a name
    only the description says it, because JSON schema has no names for sizes. Distributions and objects are anything.

    Args:
        schema: a protocol or record.

    Raises:
        DeclarationError: it is neither.
    """
    return _object(schema_of(schema), ())


def field_schema(field: Field) -> dict[str, Any]:
    """The JSON schema of one field."""
    return _field(field, ())


def _object(schema: Schema, outer: tuple[Schema, ...]) -> dict[str, Any]:
    if schema in outer:  # it holds itself; how deep, data says
        return {"type": "object", "title": schema.name}
    return {
        "type": "object",
        "title": schema.name,
        "properties": {field.name: _field(field, (*outer, schema)) for field in schema},
        "required": [field.name for field in schema if not field.optional],
    }


def _field(field: Field, outer: tuple[Schema, ...]) -> dict[str, Any]:
    options = [_option(option, outer) for option in field.options]
    unlike = [option for i, option in enumerate(options) if option not in options[:i]]
    said = unlike[0] if len(unlike) == 1 else {"anyOf": unlike} if unlike else {}
    return {**said, "description": field.expects()}


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
    # behind a name for any number of dimensions, nothing can be said
    inner = element if shape.variadic is None else {}
    for dim in reversed(shape.before):
        inner = {"type": "array", "items": inner, **_length(dim)}
    return inner


def _length(dim: Dim) -> dict[str, int]:
    if dim.sort is not Sort.FIXED or dim.broadcasts:
        return {}
    return {"minItems": dim.size, "maxItems": dim.size}


def _element(dtypes: Dtypes | None) -> dict[str, Any]:
    """The types of JSON that these dtypes are."""
    if dtypes is None:
        return {}
    fits = [name for name, members in _ELEMENTS.items() if any(dtypes[np.dtype(one)] for one in members)]
    if "number" in fits and "integer" in fits:
        fits.remove("integer")  # it is a number too
    return {"type": fits[0] if len(fits) == 1 else fits} if fits else {}
