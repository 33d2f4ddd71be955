"""Why a batch does not match: every problem, each with its path. Runs only after a "no"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from typedbatch.errors import Problem, did_you_mean
from typedbatch.leaves import BATCH, KINDS, MAPPING, NONE, OBJECT, TENSOR, Kind, describe, is_reserved, leading_shape
from typedbatch.rows import leaves
from typedbatch.schema.check import accepts, matches
from typedbatch.schema.fields import Field, Schema

_ABSENT = object()
Sizes = dict[str, int]
"""The rows of each leaf that counts for the shared dimension, by path."""


def find_problems(batch: object, schema: Schema) -> tuple[Problem, ...]:
    """Every way in which ``batch`` differs from ``schema``, in the order of the fields; empty when it matches."""
    if KINDS[type(batch)] is not BATCH:
        hint = "wrap it: Batch(data)" if KINDS[type(batch)] is MAPPING else ""
        return (Problem("", "TB102 not-a-batch", "a Batch", describe(batch), schema.name, hint),)
    sizes: Sizes = {}
    problems = list(_field_problems(batch.__dict__, schema, "", sizes))
    return (*problems, *_size_problems(sizes, schema))


def _field_problems(fields: Mapping[str, Any], schema: Schema, prefix: str, sizes: Sizes) -> Iterator[Problem]:
    for field in schema.fields:
        value = fields.get(field.name, _ABSENT)
        path = prefix + field.name
        if value is not _ABSENT:
            yield from _value_problems(value, field, path, schema, sizes)
        elif not field.optional:
            undeclared = [name for name in fields if all(name != other.name for other in schema.fields)]
            near = did_you_mean(field.name, undeclared).removeprefix("; ")
            where = f"declared in {field.declared_in}"
            hint = f"{near}  ({where})" if near else where
            yield Problem(path, "TB101 missing-field", field.expects(), "missing", schema.name, hint)


def _value_problems(value: Any, field: Field, path: str, schema: Schema, sizes: Sizes) -> Iterator[Problem]:
    kind = KINDS[type(value)]
    if not accepts(field, value):
        if is_reserved(value):
            yield Problem(path, "TB103 reserved-field", field.expects(), "reserved, without a value", schema.name)
        else:
            hint = _stage_hint(kind, field, schema)
            yield Problem(path, "TB202 wrong-kind", field.expects(), describe(value), schema.name, hint)
            if field.has_rows and leading_shape(value):
                sizes[path] = leading_shape(value)[0]
    elif kind is BATCH and field.nested:
        nested = next((one for one in field.nested if matches(value, one)), field.nested[0])
        yield from _field_problems(value.__dict__, nested, f"{path}.", sizes)
    elif kind is BATCH:
        inside = ((f"{path}.{name}", leading_shape(leaf)) for name, leaf in leaves(value.__dict__))
        sizes.update((name, shape[0]) for name, shape in inside if shape)
    elif field.has_rows and kind not in (NONE, OBJECT):
        shape = leading_shape(value)
        if shape:
            sizes[path] = shape[0]
        elif field.kinds is not None:
            yield Problem(path, "TB301 no-rows", "one value per row", f"a scalar {describe(value)}", schema.name)


def _stage_hint(kind: Kind, field: Field, schema: Schema) -> str:
    stages = {Kind.ARRAY, Kind.TENSOR}
    if kind in stages and field.kinds is not None and field.kinds & stages:
        there = "torch" if kind is TENSOR else "numpy"
        return f"the field is at the {there} stage; convert(batch, {schema.name}) changes it"
    return ""


def _size_problems(sizes: Sizes, schema: Schema) -> Iterator[Problem]:
    """Blame the minority: the fields whose rows differ from what most have. In a tie every field is named."""
    counts = Counter(sizes.values())
    if len(counts) <= 1:
        return
    most = max(counts.values())
    usual = [size for size, count in counts.items() if count == most]
    for path, size in sizes.items():
        if size in usual and len(usual) == 1:
            continue
        others = _others(size, sizes, usual)
        yield Problem(path, "TB302 dimension-conflict", "", f"N is {size} here, but {others}", schema.name)


def _others(size: int, sizes: Sizes, usual: list[int]) -> str:
    others = {other: [path for path, n in sizes.items() if n == other] for other in usual if other != size}
    return ", ".join(f"{other} in {', '.join(paths)}" for other, paths in others.items())
