"""Shapes of fields with one number per step: one shape in all of them, with which observations and actions begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from typedbatch._core.kinds import ARRAY, BATCH, KINDS, TENSOR, jagged_shape, leading_shape
from typedbatch._core.lengths import leaves
from typedbatch._markers import Steps
from typedbatch.protocols import BatchProtocol
from typedbatch.schema.fields import Field, Schema
from typedbatch.schema.size_conflicts import show_sizes

Sizes = tuple[int, ...]
Found = tuple[str, str, str, str]
"""Dotted name of a field, what is expected of it, what it has, and a hint."""


def is_plain(field: Field) -> bool:
    """Return True if the value of a field certainly has a shape."""
    return not field.optional and bool(field.options) and all(o.kind in (ARRAY, TENSOR) for o in field.options)


def fits(ones: Iterable[Any], firsts: Iterable[Any]) -> bool:
    """Return whether all values with one number per step have one shape, with which the other values begin.

    Values without a shape, such as None, are skipped.
    """
    shapes = {shape[1:] for one in ones if (shape := shape_of(one))}
    if len(shapes) != 1:
        return not shapes
    (rest,) = shapes
    return not rest or all(begins(value, rest) for value in firsts)


def begins(value: Any, rest: Sizes) -> bool:
    """Return whether the shape of a value, or of each leaf in it, has these sizes after that of the rows."""
    return all(not shape or shape[1 : len(rest) + 1] == rest for _, shape in _shapes(value))


def shape_of(value: Any) -> Sizes:
    """Return the shape of an array, tensor or distribution; empty for any other value."""
    if KINDS[type(value)] is TENSOR and value.is_nested:
        return jagged_shape(value)
    return tuple(leading_shape(value)) if KINDS[type(value)] is not BATCH else ()


def _shapes(value: Any) -> Iterator[tuple[str, Sizes]]:
    if KINDS[type(value)] is not BATCH:
        yield "", shape_of(value)
        return
    for name, leaf in leaves(value.__dict__):
        yield f".{name}", shape_of(leaf)


def problems(values: Mapping[str, Any], schema: Schema) -> Iterator[Found]:
    """Yield what is wrong for each field whose shape differs from that of most fields with one number per step.

    Different numbers of rows are left to the check of sizes.
    """
    ones = {name: shape for name in _names(schema, Steps.ONE) if (shape := shape_of(values.get(name)))}
    if not any(shape[1:] for shape in ones.values()):  # one number per row in all of them
        return
    counts = Counter(shape[1:] for shape in ones.values())
    usual = min((rest for rest, count in counts.items() if count == max(counts.values())), key=len)
    like = [name for name, shape in ones.items() if shape[1:] == usual]
    for name, shape in ones.items():
        if shape[1:] != usual:
            expected = f"one number per step, shape {show_sizes((shape[0], *usual))} as {', '.join(like[:3])}"
            yield name, expected, f"shape {show_sizes(shape)}", _hint(name, values[name], shape, usual, schema)
    if not usual:
        return
    wrong = [
        (f"{name}{path}", shape)
        for name in _names(schema, Steps.FIRST)
        for path, shape in _shapes(values.get(name))
        if shape and shape[1 : len(usual) + 1] != usual
    ]
    if wrong and usual[-1] == 1:  # a column per step, beside observations that have none
        for name in like:
            expected = f"one number per step, shape {show_sizes(ones[name][:-1])}"
            yield name, expected, f"shape {show_sizes(ones[name])}", f"batch.{name}.squeeze(-1)"
        return
    for name, shape in wrong:
        begin = show_sizes((shape[0], *usual))
        yield name, f"a shape that begins with {begin}, that of {', '.join(like[:3])}", f"shape {show_sizes(shape)}", ""


@cache
def _names(schema: Schema, steps: Steps) -> tuple[str, ...]:
    return tuple(field.name for field in schema.fields if field.steps is steps)


def _hint(name: str, value: Any, shape: Sizes, usual: Sizes, schema: Schema) -> str:
    """Return how to declare a field with several numbers per step, and how to get rid of an axis of 1."""
    bases = f"{schema.name}, Protocol" if BatchProtocol in schema.target.__mro__ else schema.name
    kind = "Tensor" if KINDS[type(value)] is TENSOR else "NDArray[Any]"
    record = f"class Vector{schema.target.__name__}({bases}): {name}: {kind}"
    if shape[1:] == (*usual, 1):
        return f"batch.{name}.squeeze(-1); or, for several numbers per step, {record}"
    return f"for several numbers per step: {record}"
