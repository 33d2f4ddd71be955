"""What values must fulfil, beyond their structure: ``Finite``, bounds, order, and rules across fields.

Rules are the second tier of validation. They read every value, so they are off unless the level is ``"values"``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from typedbatch._tree.leaves import KINDS, TENSOR
from typedbatch.errors import DeclarationError

M = TypeVar("M", bound=Callable[[Any], Any])


class Rule(NamedTuple):
    """What the values of one field must fulfil: ``rew: Annotated[Array, Finite]``.

    Attributes:
        words: completes "values must be": ``"finite"``, ``">= 0"``.
        holds: from the array or tensor to one answer, or an answer for each element, as ``lambda x: x > 0`` gives.
    """

    words: str
    holds: Callable[[Any], Any]


class BatchRule(NamedTuple):
    """A rule across fields: a method of the record or protocol, marked with :func:`rule`.

    Attributes:
        name: the method's.
        words: what it says must be so.
        holds: from the batch to one answer, or an answer for each row.
    """

    name: str
    words: str
    holds: Callable[[Any], Any]


def rule(words: str, /) -> Callable[[M], M]:
    """Mark a method as a rule across the fields of its record or protocol.

    ::

        class GoalRollout(RolloutBatch):
            goal: Array

            @rule("a step is not both terminated and truncated")
            def ends_once(self) -> Array:
                return ~(self.terminated & self.truncated)

    It is called with a batch whose structure is right, and answers with one bool, or with an array or tensor of bools,
    one per row. In a protocol, put it under ``if not TYPE_CHECKING``: checkers ask every match of a protocol for its
    methods too.

    Args:
        words: what must be so, for the report.

    Raises:
        DeclarationError: ``words`` is not text, as when the parentheses are forgotten.
    """
    if not isinstance(words, str):  # the method itself, when the parentheses are forgotten
        raise DeclarationError('rule() takes what must be so, in words: @rule("adv has mean 0")')

    def mark(method: M) -> M:
        marked: Any = method
        if not isinstance(marked, FunctionType):
            raise DeclarationError(f"@rule({words!r}) marks a plain method, and stands right above its def")
        marked.__typedbatch_rule__ = words  # type: ignore[attr-defined]  # functions take attributes
        return method

    return mark


def batch_rules(cls: type) -> Iterator[BatchRule]:
    """The rules of a record or protocol, inherited ones first; a method that is defined again replaces the first."""
    names = (name for base in reversed(cls.__mro__) for name, value in vars(base).items() if _is_rule(value))
    for name in dict.fromkeys(names):
        method = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
        if isinstance(method, (staticmethod, classmethod)):
            raise DeclarationError(f"the rule {cls.__name__}.{name} is a plain method, no {type(method).__name__}")
        if _is_rule(method):
            yield BatchRule(name, method.__typedbatch_rule__, method)


def _is_rule(value: object) -> bool:
    return hasattr(getattr(value, "__func__", value), "__typedbatch_rule__")


def _finite(values: Any) -> Any:
    if KINDS[type(values)] is TENSOR:
        return sys.modules["torch"].isfinite(values)
    return np.isfinite(values)


def _sorted(values: Any) -> Any:
    right = np.ones(values.shape, bool) if KINDS[type(values)] is not TENSOR else values == values
    right[1:] = values[1:] >= values[:-1]
    return right


def _unique(values: Any) -> Any:
    rows = values.detach().cpu().numpy() if KINDS[type(values)] is TENSOR else values
    first = np.zeros(len(rows), bool)
    first[np.unique(rows, axis=0, return_index=True)[1]] = True
    return first


Finite: Rule = Rule("finite", _finite)
"""Neither infinite nor NaN."""

Sorted: Rule = Rule("in ascending order of rows", _sorted)
"""Nothing is less than what the row before it has in its place."""

Unique: Rule = Rule("unique", _unique)
"""No row twice."""


def rules_in(metadata: Iterable[object]) -> Iterator[Rule]:
    """The rules among what ``Annotated`` holds: ours, and those of ``annotated_types``; all else is left alone.

    Raises:
        DeclarationError: a rule that can never hold, or a class in place of an instance, as ``Ge`` for ``Ge(0)``.
    """
    bounds: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, Rule):
            yield item
        elif isinstance(item, type) and item.__module__.partition(".")[0] == "annotated_types":
            raise DeclarationError(f"{item.__name__} is a class; give it its value, as in {item.__name__}(0)")
        elif getattr(item, "__is_annotated_types_grouped_metadata__", False) and isinstance(item, Iterable):
            yield from rules_in(item)  # Interval(ge=0, le=1), Len(1, 5)
        elif type(item).__module__.partition(".")[0] == "annotated_types":
            yield from _annotated_type(item, bounds)
    low, high = bounds.get("low"), bounds.get("high")
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
        raise DeclarationError(f"no value is both above {low} and below {high}")


def _annotated_type(item: Any, bounds: dict[str, Any]) -> Iterator[Rule]:
    name = type(item).__name__
    if name in _BOUNDS:
        attribute, sign, side, holds = _BOUNDS[name]
        limit = getattr(item, attribute)
        bounds[side] = limit
        yield Rule(f"{sign} {limit}", lambda values: holds(_wide(values), limit))
    elif name == "MultipleOf":
        yield Rule(f"multiples of {item.multiple_of}", lambda values: values % item.multiple_of == 0)
    elif name in ("MinLen", "MaxLen"):
        least, most = getattr(item, "min_length", 0), getattr(item, "max_length", None)
        words = f"at least {least} rows" if most is None else f"at most {most} rows"
        yield Rule(words, lambda values: least <= len(values) and (most is None or len(values) <= most))
    elif name == "Predicate":
        words = f"what {getattr(item.func, '__name__', 'the predicate')}() is true of"
        yield Rule(words, lambda values: _ask(item.func, values))


_BOUNDS: dict[str, tuple[str, str, str, Callable[[Any, Any], Any]]] = {
    "Ge": ("ge", ">=", "low", lambda values, limit: values >= limit),
    "Gt": ("gt", ">", "low", lambda values, limit: values > limit),
    "Le": ("le", "<=", "high", lambda values, limit: values <= limit),
    "Lt": ("lt", "<", "high", lambda values, limit: values < limit),
}


def _wide(values: Any) -> Any:
    """Small integers in torch as int64: torch would turn a limit of 256 into the uint8 that is 0."""
    if KINDS[type(values)] is TENSOR and not values.is_floating_point() and values.element_size() < 8:
        return values.to(sys.modules["torch"].int64)
    return values


def _ask(function: Callable[[Any], Any], values: Any) -> Any:
    """The answer of a predicate to an array; one that knows numbers only, as ``math.isfinite``, is asked of each."""
    numbers = values.detach().cpu() if KINDS[type(values)] is TENSOR else np.asarray(values)
    try:
        return function(numbers)
    except (TypeError, ValueError, AttributeError):
        return np.array([bool(function(value)) for value in numbers.reshape(-1).tolist()]).reshape(values.shape)
