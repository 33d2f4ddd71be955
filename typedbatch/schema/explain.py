"""Why a batch does not match: every problem, each with its path. Runs only after a "no"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from typedbatch.errors import Problem, did_you_mean
from typedbatch.leaves import (
    ARRAY,
    BATCH,
    KINDS,
    MAPPING,
    NONE,
    OBJECT,
    TENSOR,
    describe,
    is_reserved,
    leading_shape,
)
from typedbatch.rows import leaves
from typedbatch.schema.check import accepts
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
    try:
        problems = _Explainer(schema.name).fields(batch.__dict__, schema, "", sizes)
    except RecursionError:
        ends = "a batch with an end to its nesting"
        return (Problem("", "TB104 endless-nesting", ends, "one that holds itself, or is too deep", schema.name),)
    return (*problems, *_size_problems(sizes, schema.name))


class _Explainer:
    """Walks a batch beside a schema; ``root`` is the name of the schema that was asked for."""

    def __init__(self, root: str) -> None:
        self.root = root

    def fields(self, fields: Mapping[str, Any], schema: Schema, prefix: str, sizes: Sizes) -> list[Problem]:
        declared = {field.name for field in schema.fields}
        spare = [name for name in fields if name not in declared]
        missing = sum(field.name not in fields for field in schema.fields)
        spare = spare if len(spare) * missing < 2500 else []  # a look at every pair would take seconds
        problems: list[Problem] = []
        for field in schema.fields:
            value = fields.get(field.name, _ABSENT)
            path = prefix + field.name
            if value is not _ABSENT:
                problems += self._value(value, field, path, sizes)
            elif not field.optional:
                where = f"declared in {field.declared_in}"
                near = did_you_mean(field.name, spare).removeprefix("; ")
                hint = f"{near}  ({where})" if near else where
                problems.append(self._problem(path, "TB101 missing-field", field.expects(), "missing", hint))
        return problems

    def _value(self, value: Any, field: Field, path: str, sizes: Sizes) -> Iterator[Problem]:
        kind = KINDS[type(value)]
        if not accepts(field, value):
            if is_reserved(value):
                yield self._problem(path, "TB103 reserved-field", field.expects(), "reserved, without a value")
                return
            yield self._problem(
                path, "TB202 wrong-kind", field.expects(), describe(value), self._stage_hint(value, field)
            )
            if field.rows and leading_shape(value):
                sizes[path] = leading_shape(value)[0]
        elif kind is BATCH and field.nested:
            yield from self._nested(value, field, path, sizes)
        elif kind is BATCH:
            inside = ((f"{path}.{name}", leading_shape(leaf)) for name, leaf in leaves(value.__dict__))
            sizes.update((name, shape[0]) for name, shape in inside if shape)
        elif kind not in (NONE, OBJECT):
            shape = leading_shape(value)
            if shape:
                sizes[path] = shape[0]
            elif not field.numbers:
                hint = "one row keeps its rows as batch[i:i+1]"
                yield self._problem(path, "TB301 no-rows", "one value per row", f"a scalar {describe(value)}", hint)

    def _nested(self, value: Any, field: Field, path: str, sizes: Sizes) -> list[Problem]:
        """Of several nested schemas, the one that comes closest: fewest problems, then fewest different rows."""
        attempts = []
        for schema in field.nested:
            inner: Sizes = {}
            problems = self.fields(value.__dict__, schema, f"{path}.", inner)
            rows = len({*sizes.values(), *inner.values()})
            attempts.append(((len(problems), rows), problems, inner))
        _, problems, inner = min(attempts, key=lambda attempt: attempt[0])
        sizes.update(inner)
        return problems

    def _stage_hint(self, value: Any, field: Field) -> str:
        takes = (field.kinds or frozenset()) & {ARRAY, TENSOR}
        if KINDS[type(value)] not in (ARRAY, TENSOR) or KINDS[type(value)] in takes or not takes:
            return ""
        if KINDS[type(value)] is ARRAY and value.dtype.kind not in "biufc":
            return ""  # no tensor can hold it
        there = "torch" if KINDS[type(value)] is TENSOR else "numpy"
        return f"the field is at the {there} stage; convert(batch, {self.root}) changes it"

    def _problem(self, path: str, code: str, expected: str, got: str, hint: str = "") -> Problem:
        return Problem(path, code, expected, got, self.root, hint)


def _size_problems(sizes: Sizes, schema: str) -> Iterator[Problem]:
    """Blame the minority: the leaves whose rows differ from what most fields have. In a tie every one is named."""
    # A field has one vote for each size in it, so that a nested batch of many leaves does not outvote the others.
    votes = Counter(size for _, size in {(path.split(".")[0], size) for path, size in sizes.items()})
    if len(votes) <= 1:
        return
    most = max(votes.values())
    usual = [size for size, count in votes.items() if count == most]
    by_size: dict[int, list[str]] = {}
    for path, size in sizes.items():
        by_size.setdefault(size, []).append(path)
    for path, size in sizes.items():
        if size not in usual or len(usual) > 1:
            others = ", ".join(f"{other} in {_some(by_size[other])}" for other in usual if other != size)
            yield Problem(path, "TB302 dimension-conflict", "", f"N is {size} here, but {others}", schema)


def _some(paths: list[str]) -> str:
    shown = paths if len(paths) <= 12 else paths[:3]
    return ", ".join(shown) + (f" and {len(paths) - 3} more" if shown is not paths else "")
