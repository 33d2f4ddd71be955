"""The second tier: rules on values, asked of a batch whose structure is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedbatch._signals import from_outside
from typedbatch._tree.leaves import ARRAY, BATCH, KINDS, NUMBER, SCALAR, TENSOR
from typedbatch._tree.rows import leaves
from typedbatch.errors import Problem
from typedbatch.records import view
from typedbatch.rules import BatchRule, Rule
from typedbatch.schema.explain import choices, distance
from typedbatch.schema.fields import Field, Option, Schema
from typedbatch.schema.names import child
from typedbatch.schema.reading import as_read, computed_in

Place = tuple[Any, Schema, str]
"""A batch, what it must match, and its path."""

Choices = dict[tuple[int, int], Option]
"""The alternative of a union that a value is, by the ids of value and field."""


def find_violations(batch: Any, schema: Schema) -> tuple[Problem, ...]:
    """Every rule that does not hold, in the order of the fields; those across the fields of a batch come last."""
    problems: list[Problem] = []
    seen: set[tuple[int, int]] = set()
    chosen = choices(batch, schema)
    stack = [_in_batch((batch, schema, ""), schema.name, chosen)]
    while stack:  # and no recursion: batches may be nested deeply
        for found in stack[-1]:
            if isinstance(found, Problem):
                problems.append(found)
            elif (key := (id(found[0].__dict__), id(found[1]))) not in seen:
                seen.add(key)
                stack.append(_in_batch(found, schema.name, chosen))
                break
        else:
            stack.pop()
    return tuple(problems)


def _in_batch(place: Place, root: str, chosen: Choices) -> Iterator[Problem | Place]:
    batch, schema, path = place
    names = computed_in(schema)[type(batch)]
    fields = as_read(batch, names) if names else batch.__dict__
    for field in schema.fields:
        if field.name in fields:
            name = child(path, field.name)
            value = fields[field.name]
            yield from _field(value, field, name, root, chosen)
            yield from _nested(value, field, name, chosen)
    for rule in schema.rules:
        yield from _across(batch, schema, rule, path, root)


def _nested(value: Any, field: Field, path: str, chosen: Choices) -> Iterator[Place]:
    option = _option(value, field, chosen)
    if option is not None and option.schema is not None:
        yield value, option.schema, path
    elif option is not None and option.each is not None:
        for name, inner in value.__dict__.items():
            yield from _nested(inner, option.each, child(path, name), chosen)


def _field(value: Any, field: Field, path: str, schema: str, chosen: Choices) -> Iterator[Problem]:
    option = _option(value, field, chosen)
    if option is None:
        return
    if option.each is not None:
        for name, inner in value.__dict__.items():
            yield from _field(inner, option.each, child(path, name), schema, chosen)
    for rule in option.rules:
        if KINDS[type(value)] is BATCH:
            for name, leaf in leaves(value.__dict__, once=True):
                if KINDS[type(leaf)] in (ARRAY, TENSOR, SCALAR):
                    yield from _ask(leaf, rule, f"{path}.{name}", schema)
        elif value is not None:
            yield from _ask(value, rule, path, schema)


def _option(value: Any, field: Field, chosen: Choices) -> Option | None:
    """The alternative that a value is: the one of its kind, or what the walk over the batch decided."""
    kind = KINDS[type(value)]
    same = [option for option in field.options if option.kind is (ARRAY if kind is SCALAR else kind)]
    if len(same) <= 1:
        return same[0] if same else None
    return chosen.get((id(value), id(field))) or min(same, key=lambda option: distance(option, value))


def _ask(values: Any, rule: Rule, path: str, schema: str) -> Iterator[Problem]:
    try:
        wrong = _wrong(rule.holds(values))
    except Exception as error:  # a predicate is the user's own code, and may not like what it gets
        if from_outside(error):
            raise
        yield Problem(path, "TB403 rule-raised", rule.words, f"{rule.words}: {_raises(error)}", schema)
        return
    if wrong is not None:
        says = f"{_some(wrong)} not {rule.words}{wrong.where}"
        yield Problem(path, "TB401 wrong-values", rule.words, says, schema)


def _across(batch: Any, schema: Schema, rule: BatchRule, path: str, root: str) -> Iterator[Problem]:
    hint = f"the rule {schema.name}.{rule.name}"
    try:
        wrong = _wrong(rule.holds(view(batch, schema.target)))
    except Exception as error:  # as above
        if from_outside(error):
            raise
        yield Problem(path, "TB403 rule-raised", rule.words, f"{rule.words}: {_raises(error)}", root, hint)
        return
    if wrong is not None:
        each = "rows" if wrong.dims == 1 else "places"
        says = f"not so: {rule.words}" if wrong.total is None else f"not so in {wrong.count} of {wrong.total} {each}: "
        says += "" if wrong.total is None else f"{rule.words}{wrong.where}"
        yield Problem(path, "TB402 broken-rule", rule.words, says, root, hint)


@dataclass(frozen=True, slots=True)
class _Wrong:
    """How many answers were no, of how many, and where the first is; of a single answer, neither."""

    count: int = 1
    total: int | None = None
    where: str = ""
    dims: int = 0


def _wrong(answer: Any) -> _Wrong | None:
    if isinstance(answer, (list, tuple)):
        answer = np.asarray(answer)
    kind = KINDS[type(answer)]
    if kind not in (ARRAY, TENSOR, SCALAR, NUMBER):
        raise TypeError(f"a rule answers with bools, not with {type(answer).__name__}")
    if kind not in (ARRAY, TENSOR) or not answer.shape:
        return None if bool(answer) else _Wrong()
    wrong = ~answer.astype(bool) if kind is ARRAY else answer.logical_not()
    count = int(wrong.sum())
    if not count:
        return None
    at = wrong.nonzero() if kind is ARRAY else wrong.nonzero().T
    first = ", ".join(str(int(axis[0])) for axis in at)
    return _Wrong(count, wrong.size if kind is ARRAY else wrong.numel(), f", the first at [{first}]", len(at))


def _some(wrong: _Wrong) -> str:
    if wrong.total is None:
        return "values are"
    return f"{wrong.count} of {wrong.total} values {'is' if wrong.count == 1 else 'are'}"


def _raises(error: Exception) -> str:
    # Their text is about types and names; that of other errors may hold values.
    says = str(error).partition("\n")[0] if isinstance(error, (TypeError, AttributeError)) else ""
    return f"raises {type(error).__name__}{': ' if says else ''}{says if len(says) <= 100 else says[:97] + '...'}"
