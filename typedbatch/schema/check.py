"""The yes or no of validation. It allocates next to nothing; the reasons are found in ``explain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy import ndarray

from typedbatch.leaves import ARRAY, BATCH, DISTRIBUTION, KINDS, NONE, OBJECT, SCALAR, is_reserved, leading_shape
from typedbatch.schema.fields import Field, Schema

_ABSENT = object()


def matches(batch: object, schema: Schema) -> bool:
    """True when ``batch`` is a Batch with all declared fields, each of a declared kind and all with the same rows."""
    if KINDS[type(batch)] is not BATCH:
        return False
    sizes: set[int] = set()
    try:
        return _fields_match(batch.__dict__, schema, sizes) and len(sizes) <= 1
    except RecursionError:  # it holds itself, or is nested too deep to look at
        return False


def _fields_match(fields: Mapping[str, Any], schema: Schema, sizes: set[int]) -> bool:
    for field in schema.fields:
        value = fields.get(field.name, _ABSENT)
        if value is _ABSENT:
            if not field.optional:
                return False
        elif type(value) is ndarray and field.rows and field.kinds is not None and ARRAY in field.kinds and value.shape:
            sizes.add(value.shape[0])
        elif not _value_matches(value, field, sizes):
            return False
    return True


def _value_matches(value: Any, field: Field, sizes: set[int]) -> bool:
    if not accepts(field, value):
        return False
    kind = KINDS[type(value)]
    if kind is BATCH:
        return _nested_matches(value, field, sizes)
    if kind is NONE or kind is OBJECT:
        return True
    shape = leading_shape(value)
    if not shape:
        return field.numbers and kind is not DISTRIBUTION
    sizes.add(shape[0])
    return True


def _nested_matches(value: Any, field: Field, sizes: set[int]) -> bool:
    if not field.nested:
        add_sizes(value.__dict__, sizes)
        return True
    for schema in field.nested:
        attempt = set(sizes)
        if _fields_match(value.__dict__, schema, attempt) and len(attempt) <= 1:
            sizes |= attempt
            return True
    return False


def add_sizes(fields: Mapping[str, Any], sizes: set[int]) -> None:
    """Collect the rows of every leaf of an undeclared nested batch; scalars in it do not count."""
    for value in fields.values():
        if KINDS[type(value)] is BATCH:
            add_sizes(value.__dict__, sizes)
        else:
            sizes.update(leading_shape(value)[:1])


def accepts(field: Field, value: Any) -> bool:
    """True when ``value`` is of a kind that ``field`` declares. A row's numpy scalar passes for an array."""
    if field.kinds is None:
        return True
    kind = KINDS[type(value)]
    if kind is SCALAR:
        kind = ARRAY
    if kind not in field.kinds:
        return False
    if kind is BATCH and is_reserved(value):
        return not field.nested or any(schema.may_be_empty() for schema in field.nested)
    if kind is OBJECT or kind is DISTRIBUTION:
        return not field.classes or isinstance(value, field.classes)
    return field.rows or kind in (BATCH, NONE) or not leading_shape(value)
