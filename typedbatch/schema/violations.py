"""Rules on values, evaluated for a batch whose structure is right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedbatch._core.kinds import ARRAY, BATCH, KINDS, NUMBER, RAGGED, SCALAR, TENSOR
from typedbatch._core.lengths import count_rows, leaves
from typedbatch._core.level import rows_to_check
from typedbatch._ops.indexing import take_basic
from typedbatch._report import cut
from typedbatch.errors import Problem, TypedBatchError
from typedbatch.records import view
from typedbatch.rules import BatchRule, Got, Rule
from typedbatch.schema.explain import alternatives_taken, distance
from typedbatch.schema.fields import Field, Schema, as_read
from typedbatch.schema.paths import child

_MOST_ROWS = 10
"""Largest number of rows that a hint lists."""


def find_violations(batch: Any, schema: Schema) -> tuple[Problem, ...]:
    """Return every rule that does not hold, in the order of the fields. Rules across fields come last in each batch."""
    return tuple(_Rules(batch, schema).in_batch(batch, schema, ""))


class _Rules:
    """An evaluation of the rules of a schema, ``root``, and of the schemas nested in it."""

    def __init__(self, batch: Any, root: Schema) -> None:
        self.root: str = root.name
        self.taken = alternatives_taken(batch, root)
        self.first: int | None = rows_to_check()
        self.seen: set[tuple[int, int]] = set()
        """The batches already checked, by the ids of fields and schema: a batch may occur several times."""

    def in_batch(self, batch: Any, schema: Schema, path: str) -> Iterator[Problem]:
        if (key := (id(batch.__dict__), id(schema))) in self.seen:
            return
        self.seen.add(key)
        fields = as_read(batch, schema.computed[type(batch)])
        for field in schema.fields:
            if field.name in fields:
                yield from self.in_field(fields[field.name], field, child(path, field.name))
        for rule in schema.rules:
            hint = f"the rule {schema.name}.{rule.name}"
            wrong = self.failures(rule, view(batch, schema.target))
            if isinstance(wrong, str):
                yield Problem(path, "TB403 rule-raised", rule.words, wrong, self.root, hint)
            elif wrong is not None:
                unit = "rows" if wrong.dims == 1 else "places"
                got = f"not so: {rule.words}{wrong.where}"
                if wrong.total is not None:
                    got = f"not so in {wrong.count} of {wrong.total} {unit}: {rule.words}{wrong.where}"
                hint += f"  {wrong.rows}" if wrong.rows else ""
                yield Problem(path, "TB402 broken-rule", rule.words, got, self.root, hint)

    def failures(self, rule: Rule | BatchRule, values: Any) -> _Wrong | str | None:
        """Evaluate a rule, for the first rows alone if there are more than the level says.

        A single answer is not used then, since it is for all rows.
        """
        cut_values = values if self.first is None else _first_rows(values, self.first)
        wrong = _failures(rule, cut_values)
        is_whole = isinstance(wrong, _Wrong) and wrong.total is None
        return None if cut_values is not values and (is_whole or isinstance(wrong, str)) else wrong

    def in_field(self, value: Any, field: Field, path: str) -> Iterator[Problem]:
        kind = KINDS[type(value)]
        same = [option for option in field.options if option.kind is (ARRAY if kind is SCALAR else kind)]
        if not same:
            return
        option = same[0]
        if len(same) > 1:  # the one that the walk has found
            taken = self.taken.get((id(value), id(field)))
            option = taken or min(same, key=lambda option: distance(option, value))
        if option.kind is RAGGED:  # the rules apply to its values
            value, path = value.values, f"{path}.values"
        if option.each is not None:
            for name, inner in value.__dict__.items():
                yield from self.in_field(inner, option.each, child(path, name))
        for rule in option.rules:
            values = [(path, value)] if value is not None else []
            if KINDS[type(value)] is BATCH:
                found = ((f"{path}.{name}", leaf) for name, leaf in leaves(value.__dict__))
                values = [(where, leaf) for where, leaf in found if KINDS[type(leaf)] in (ARRAY, TENSOR, SCALAR)]
            for where, leaf in values:
                wrong = self.failures(rule, leaf)
                if isinstance(wrong, str):
                    yield Problem(where, "TB403 rule-raised", rule.words, wrong, self.root)
                elif wrong is not None:
                    count = f"{wrong.count} of {wrong.total} values {'is' if wrong.count == 1 else 'are'}"
                    got = f"{'values are' if wrong.total is None else count} not {rule.words}{wrong.where}"
                    yield Problem(where, "TB401 wrong-values", rule.words, got, self.root)
        if option.schema is not None:
            yield from self.in_batch(value, option.schema, path)


@dataclass(frozen=True, slots=True)
class _Wrong:
    """The False results of a rule.

    Attributes:
        count: Number of False results.
        total: Number of results, or None if the rule returned a single one.
        where: Text for the index of the first one; for a single result what the rule said, or nothing.
        dims: Number of dimensions of the results.
        rows: Text for the indices of the first ones, if the results are one per row and several are False.
    """

    count: int = 1
    total: int | None = None
    where: str = ""
    dims: int = 0
    rows: str = ""


def _first_rows(values: Any, first: int) -> Any:
    """Return the first rows of an array, a tensor or a batch, or the value itself if it has no more."""
    kind = KINDS[type(values)]
    if kind is BATCH:
        with suppress(TypedBatchError):  # A batch with a scalar has no rows.
            if (count_rows(values.__dict__) or 0) > first:
                return take_basic(values, slice(first))
        return values
    has_more = kind in (ARRAY, TENSOR) and values.ndim > 0 and values.shape[0] > first
    return values[:first] if has_more else values


def _failures(rule: Rule | BatchRule, values: Any) -> _Wrong | str | None:
    """Evaluate a rule. Return its False results, a text if it raises an error, or None if it holds."""
    try:
        answer: Any = rule.holds(values)
        if isinstance(answer, Got):
            return _Wrong(where=f", got {answer}")
        if isinstance(answer, (list, tuple)):
            answer = np.asarray(answer)
        kind = KINDS[type(answer)]
        if kind not in (ARRAY, TENSOR, SCALAR, NUMBER):
            raise TypeError(f"a rule must return bools, not {type(answer).__name__}")
        if kind not in (ARRAY, TENSOR) or not answer.shape:
            return None if bool(answer) else _Wrong()
        wrong = ~answer.astype(bool) if kind is ARRAY else answer.logical_not()
        count = int(wrong.sum())
        if not count:
            return None
        at = wrong.nonzero() if kind is ARRAY else wrong.nonzero().T
        first = ", ".join(str(int(axis[0])) for axis in at)
        rows = ""
        if len(at) == 1 and count > 1:
            shown = ", ".join(str(int(row)) for row in at[0][:_MOST_ROWS])
            rows = f"rows {shown}{', ...' if count > _MOST_ROWS else ''}"
        total = wrong.size if kind is ARRAY else wrong.numel()
        return _Wrong(count, total, f", the first at [{first}]", len(at), rows)
    except Exception as error:  # noqa: BLE001  # a predicate is the user's own code and may raise anything
        # Reports never show values. The texts of these two errors name types; those of other errors may have values.
        text = str(error).partition("\n")[0] if isinstance(error, (TypeError, AttributeError)) else ""
        return f"{rule.words}: raises {type(error).__name__}{': ' if text else ''}{cut(text, 100)}"
