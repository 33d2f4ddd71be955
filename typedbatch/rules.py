"""Rules on values, beyond their structure: ``Finite``, bounds, order, and rules across fields.

Rules read every value, so they are checked only at the level ``"values"``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import BATCH, KINDS, TENSOR
from typedbatch.errors import DeclarationError

__all__ = [
    "Finite", "Rule", "Sorted", "Unique", "chained", "groups_centered", "groups_ordered", "has_counted_token",
    "logp_aligned", "mask_matches", "moves", "one_end", "rule",
]  # fmt: skip

M = TypeVar("M", bound=Callable[[Any], Any])
_MIN_TOKENS = 16
"""Smallest number of tokens from which a shift is inferred: with fewer, a neighbor may be closer by chance."""
_BOUNDS: dict[str, tuple[str, str, str, Callable[[Any, Any], Any]]] = {
    "Ge": ("ge", ">=", "low", lambda values, limit: values >= limit),
    "Gt": ("gt", ">", "low", lambda values, limit: values > limit),
    "Le": ("le", "<=", "high", lambda values, limit: values <= limit),
    "Lt": ("lt", "<", "high", lambda values, limit: values < limit),
}


class Rule(NamedTuple):
    """A rule on the values of one field: ``rew: Annotated[Array, Finite]``.

    Attributes:
        words: Completion of "values must be": ``"finite"``, ``">= 0"``.
        holds: Function of the array or tensor that returns a bool, or a bool for each element, as ``lambda x: x > 0``.
    """

    words: str
    holds: Callable[[Any], Any]


class Got(str):
    """Text about the values, which a rule of this package returns in place of False."""

    __slots__ = ()


class BatchRule(NamedTuple):
    """A rule across fields: a method of the record or protocol, marked with :func:`rule`.

    Attributes:
        name: Name of the method.
        words: Statement that must be true of the batch.
        holds: Function of the batch that returns a bool, a bool for each row, or text for what there is instead.
    """

    name: str
    words: str
    holds: Callable[[Any], Any]


@overload
def rule(words: str, /) -> Callable[[M], M]: ...
@overload
def rule(holds: Callable[[Any], Any], words: str, /) -> Callable[[Any], Any]: ...
def rule(holds: Any, words: Any = None, /) -> Any:
    """Declare a rule across the fields of a record or protocol: mark a method, or assign a function in the class.

    ::

        class GoalRollout(RolloutBatch):
            goal: Array

            @rule("a step is not both terminated and truncated")
            def ends_once(self) -> Array:
                return ~(self.terminated & self.truncated)

            reached = rule(lambda batch: ~batch.terminated | (batch.rew > 0), "what ends an episode has a reward")

    The function is called with a batch whose structure is right. It returns a bool, or an array or tensor of bools, one
    per row; text, in place of False, tells the report what there is, as ``"0.5 nats"``. In a protocol, put it under
    ``if not TYPE_CHECKING``: type checkers would require the method of every class that is to match the protocol.

    Args:
        holds: Function of the batch; omitted if a method is marked.
        words: Statement that must be true of the batch, for reports.

    Raises:
        DeclarationError: ``words`` is not text, as when the parentheses are forgotten, or ``holds`` is not a function.
    """
    if words is not None:
        if not callable(holds) or isinstance(holds, type) or not isinstance(words, str):
            raise DeclarationError(f"rule() takes a function of the batch, then words, got {holds!r} and {words!r}")
        # The mark is set on a new function, because the same function may be used in several rules.
        return _marked(lambda batch: holds(batch), words)
    words = holds
    if not isinstance(words, str):  # it is the method itself if the parentheses are forgotten
        text = 'rule() takes a statement about the batch, as @rule("adv has mean 0") or rule(check, "adv has mean 0")'
        raise DeclarationError(text)
    return partial(_marked, words=words)


def _marked(method: Any, words: str) -> Any:
    if not isinstance(method, FunctionType):
        raise DeclarationError(f"@rule({words!r}) is for a plain method; put it directly above the def")
    method.__typedbatch_rule__ = words  # type: ignore[attr-defined]  # functions take attributes
    return method


def batch_rules(cls: type) -> Iterator[BatchRule]:
    """Yield the rules of a record or protocol, inherited ones first. An overriding method replaces an inherited rule.

    Raises:
        DeclarationError: a rule is a static method or class method.
    """
    members = [(name, value) for base in reversed(cls.__mro__) for name, value in vars(base).items()]
    names = (name for name, value in members if hasattr(getattr(value, "__func__", value), "__typedbatch_rule__"))
    for name in dict.fromkeys(names):
        method = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
        if isinstance(method, (staticmethod, classmethod)):
            text = f"the rule {cls.__name__}.{name} must be a plain method, not a {type(method).__name__}"
            raise DeclarationError(text)
        if hasattr(method, "__typedbatch_rule__"):
            yield BatchRule(name, method.__typedbatch_rule__, method)


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
"""Each value is >= the value in the row above."""

Unique: Rule = Rule("unique", _unique)
"""No two rows are equal."""


def rules_in(metadata: Iterable[object]) -> Iterator[Rule]:
    """Yield the rules in the metadata of ``Annotated``: those of typedbatch and of ``annotated_types``.

    Other metadata is ignored.

    Raises:
        DeclarationError: a rule can never hold, or a class is given instead of an instance, as ``Ge`` for ``Ge(0)``.
    """
    bounds: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, Rule):
            yield item
        elif isinstance(item, type) and item.__module__.partition(".")[0] == "annotated_types":
            raise DeclarationError(f"{item.__name__} is a class; write an instance, as in {item.__name__}(0)")
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
        yield Rule(words, lambda values: _apply_predicate(item.func, values))


def _wide(values: Any) -> Any:
    """Convert small integers of torch to int64, because torch would cast a limit of 256 to uint8, which gives 0."""
    if KINDS[type(values)] is TENSOR and not values.is_floating_point() and values.element_size() < 8:
        return values.to(sys.modules["torch"].int64)
    return values


def _apply_predicate(function: Callable[[Any], Any], values: Any) -> Any:
    """Apply a predicate to an array, or to each value if it takes only numbers, as ``math.isfinite``."""
    numbers = values.detach().cpu() if KINDS[type(values)] is TENSOR else np.asarray(values)
    try:
        return function(numbers)
    except (TypeError, ValueError, AttributeError):
        return np.array([bool(function(value)) for value in numbers.reshape(-1).tolist()]).reshape(values.shape)


def mask_matches(mask: str, length: str, /) -> Any:
    """Return a rule that the number of tokens in each row of a mask is equal to the length of the row.

    ::

        class Rollouts(BatchRecord):
            response_mask: Bool[Tensor, "N R"]
            response_length: Int[Tensor, "N"]
            lengths = mask_matches("response_mask", "response_length")

    Args:
        mask: Name of the mask field, ``(N, ...)``, bool or numbers 0 and 1.
        length: Name of the field of lengths, ``(N,)``.

    Returns:
        The rule, for the body of a record; in a protocol put it under ``if not TYPE_CHECKING``. It is checked per row,
        and holds if any of the fields is absent or None.
    """

    def holds(lengths: Any, tokens: Any) -> Any:
        return flat(tokens).sum(1) == flat(lengths)[:, 0]

    words = f"each row of {mask} has {length} tokens"
    return of_fields(words, holds, length, mask, adjusted=lambda lengths, tokens: flat(tokens).sum(1))


def has_counted_token(mask: str, /, *, each_row: bool = False) -> Any:
    """Return a rule that a mask counts at least one token, so that a mean over it does not divide by 0.

    Args:
        mask: Name of the mask field, ``(N, ...)``, bool or numbers 0 and 1.
        each_row: Whether each row must count a token. By default one token in the whole batch is enough, because masks
            of zeros are used to leave samples out of the loss: truncated ones, and those that ``pad_rows`` adds.

    Returns:
        The rule, used like that of :func:`mask_matches`.
    """

    def holds(tokens: Any) -> Any:
        counts = (flat(tokens) != 0).any(1)
        return counts if each_row else bool(counts.any())

    def adjusted(tokens: Any) -> Any:
        return flat(tokens) + (np.arange(flat(tokens).shape[1]) == 0) * (flat(tokens)[:, :1] == 0)

    return of_fields(f"{mask} counts a token" + " in each row" * each_row, holds, mask, adjusted=adjusted)


def groups_centered(advantage: str, group: str, /, *, mask: str | None = None, tolerance: float = 0.01) -> Any:
    """Return a rule that the advantages of each group have mean 0, as GRPO and RLOO compute them.

    Each row has the same weight: its advantage is the mean over its tokens. Groups of a single row are not checked,
    since they have another baseline. Groups with a row in which no token counts are not checked either.

    Args:
        advantage: Name of the field of advantages, ``(N,)`` or ``(N, R)``.
        group: Name of the field that tells the group of each row, ``(N,)``: numbers or text.
        mask: Name of the field that tells which tokens count, of the shape of ``advantage``; None if all do.
        tolerance: Largest allowed ratio of the mean to the largest absolute advantage in the group.

    Returns:
        The rule, used like that of :func:`mask_matches`. It fails for all rows of a group or for none.
    """

    def holds(advantages: Any, keys: Any, counting: Any = None) -> Any:
        rows, tokens = _means(advantages, counting)
        right = np.ones(len(rows), bool)
        for members in members_of(keys):
            if len(members) > 1 and tokens[members].all():
                of_group = rows[members]
                right[members] = abs(of_group.mean()) <= tolerance * np.abs(of_group).max()
        return right

    def adjusted(advantages: Any, keys: Any, counting: Any = None) -> Any:
        rows = np.clip(np.nan_to_num(flat(advantages)), -64, 64)
        means = _means(rows, counting)[0]
        for members in members_of(keys):
            rows[members] = np.round(rows[members] - means[members].mean(), 6)
        return rows

    words = f"{advantage} has mean 0 in each group of {group}"
    return of_fields(words, holds, advantage, group, mask, adjusted=adjusted)


def groups_ordered(
    advantage: str, reward: str, group: str, /, *, mask: str | None = None, tolerance: float = 1e-3
) -> Any:
    """Return a rule that, in each group, larger rewards have larger advantages, and equal rewards equal ones.

    It holds of GRPO and RLOO, and finds advantages that were computed from rows in another order.

    Args:
        advantage: Name of the field of advantages, ``(N,)`` or ``(N, R)``; a row's is the mean over its tokens.
        reward: Name of the field of rewards, ``(N,)``.
        group: Name of the field that tells the group of each row, ``(N,)``: numbers or text.
        mask: Name of the field that tells which tokens count, of the shape of ``advantage``; None if all do. Rows in
            which no token counts are not checked.
        tolerance: Largest difference of the advantages of equal rewards, as a ratio to the largest absolute advantage,
            and of rewards that may have equal advantages, as a ratio to the largest absolute reward. Values that are
            not finite are not checked.

    Returns:
        The rule, used like that of :func:`mask_matches`. It is checked per row.
    """

    def holds(advantages: Any, rewards: Any, keys: Any, counting: Any = None) -> Any:
        rows, tokens = _means(advantages, counting)
        scores = flat(rewards)[:, 0]
        index = np.zeros(len(rows), np.intp)
        for number, members in enumerate(members_of(keys)):
            index[members] = number
        order = np.lexsort((scores, index))
        order = order[(tokens[order] > 0) & np.isfinite(scores[order]) & np.isfinite(rows[order])]
        rise, step = np.diff(scores[order]), np.diff(rows[order])
        slack = tolerance * np.abs(rows[order]).max(initial=0.0)
        apart = rise > tolerance * np.abs(scores[order]).max(initial=0.0)
        wrong = np.where(apart, step <= 0, np.where(rise > 0, step < -slack, np.abs(step) > slack))
        wrong &= np.diff(index[order]) == 0
        right = np.ones(len(rows), bool)
        right[order[1:][wrong]] = right[order[:-1][wrong]] = False
        return right

    def adjusted(advantages: Any, rewards: Any, *others: Any) -> Any:
        ranks = np.unique(flat(rewards)[:, 0], return_inverse=True)[1]
        return np.broadcast_to(ranks[:, None], flat(advantages).shape)

    words = f"{advantage} is in the order of {reward} in each group of {group}"
    return of_fields(words, holds, advantage, reward, group, mask, adjusted=adjusted)


def members_of(keys: Any) -> list[list[int]]:
    """Return the numbers of the rows of each group."""
    groups: dict[Any, list[int]] = {}
    for row, key in enumerate(listed(keys)):
        groups.setdefault(key, []).append(row)
    return [*groups.values()]


def listed(values: Any) -> list[Any]:
    """Return the values of an array or tensor as a list."""
    found: list[Any] = (values if KINDS[type(values)] is TENSOR else np.asarray(values)).tolist()
    return found


def _means(values: Any, counting: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the mean over the tokens of each row that count, and their number."""
    numbers = flat(values)
    counts = np.ones(numbers.shape, bool) if counting is None else flat(counting) != 0
    tokens = counts.sum(1)
    return np.where(counts, numbers, 0).sum(1) / np.maximum(tokens, 1), tokens


def logp_aligned(one: str, other: str, /, *, mask: str | None = None) -> Any:
    """Return a rule that two fields of log-probabilities are not shifted by one token relative to each other.

    The rule compares mean absolute differences, at the same token and at the neighboring token on either side. Data is
    shifted if the difference at a neighbor is less than half of that at the token itself. The log-probabilities of
    another policy pass, since they differ everywhere. The rule applies to all rows together, and to each row with at
    least 16 tokens.

    Args:
        one: Name of a field of log-probabilities, ``(N, R)``, in nats.
        other: Name of another such field, of the same shape.
        mask: Name of the field that tells which tokens count, of that shape; None if all do. Values that are not
            finite never count.

    Returns:
        The rule, used like that of :func:`mask_matches`. It is checked per row.
    """

    def holds(ours: Any, theirs: Any, counting: Any = None) -> Any:
        first, second = flat(ours), flat(theirs)
        counts = np.isfinite(first) & np.isfinite(second)
        if counting is not None:
            counts &= flat(counting) != 0
        both = counts[:, 1:] & counts[:, :-1]
        same = _differences(first, second, counts)
        right = np.ones(len(first), bool)
        for earlier, later in ((first, second), (second, first)):
            shifted = _differences(earlier[:, 1:], later[:, :-1], both)
            right &= ~_is_shifted(same, shifted)
            if _is_shifted(same.sum(0, keepdims=True), shifted.sum(0, keepdims=True))[0]:
                right &= _mean(shifted) >= _mean(same)
        return right

    return of_fields(f"{one} and {other} are of the same tokens", holds, one, other, mask, adjusted=same_numbers)


def one_end(terminated: str = "terminated", truncated: str = "truncated", /) -> Any:
    """Return a rule that no row is both terminated and truncated.

    Args:
        terminated: Name of the field of flags, ``(N,)``.
        truncated: Name of the other field of flags, ``(N,)``.

    Returns:
        The rule, used like that of :func:`mask_matches`. It is checked per row.
    """

    def holds(cut: Any, ended: Any) -> Any:
        return ~((flat(cut) != 0) & (flat(ended) != 0)).any(1)

    words = f"a row is not both {terminated} and {truncated}"
    return of_fields(words, holds, truncated, terminated, adjusted=lambda cut, ended: flat(cut) * (flat(ended) == 0))


def moves(obs: str = "obs", obs_next: str = "obs_next", /) -> Any:
    """Return a rule that the next observation is another one somewhere, and no copy of that field.

    Args:
        obs: Name of the field of observations: an array, a tensor, or a nested batch.
        obs_next: Name of the field of those after the step.

    Returns:
        The rule, used like that of :func:`mask_matches`. A batch of one row has no such mistake.
    """

    def holds(after: Any, now: Any) -> Any:
        same = _same_rows(after, now)
        return len(same) < 2 or not same.all()

    def adjusted(after: Any, now: Any) -> Any:
        if KINDS[type(after)] is BATCH:
            return None
        return flat(after) + (np.arange(len(flat(after)))[:, None] == 0) * _same_rows(after, now).all()

    return of_fields(f"{obs_next} is not {obs} in all rows", holds, obs_next, obs, adjusted=adjusted)


def chained(obs: str = "obs", obs_next: str = "obs_next", /, *ends: str, tolerance: float = 0.0) -> Any:
    """Return a rule that each observation is the next one of the row before, unless an episode begins with it.

    It holds of rows in time order, and of slices of them, but not of rows in another order, such as those that a buffer
    samples. So declare it in a class of its own for whole files, and use the class of the rows from there on.

    Args:
        obs: Name of the field of observations: an array, a tensor, or a nested batch.
        obs_next: Name of the field of those after the step.
        *ends: Names of the fields that are true in the last row of an episode; by default ``terminated`` and
            ``truncated``.
        tolerance: Largest difference of a number.

    Returns:
        The rule, used like that of :func:`mask_matches`. It is checked per row, which is the later one of two.
    """

    def begins(flags: tuple[Any, ...]) -> Any:
        return np.concatenate([[True], np.any([flat(flag)[:-1, 0] != 0 for flag in flags], 0)])

    def holds(now: Any, after: Any, *flags: Any) -> Any:
        if len(flat(flags[0])) < 2:
            return True
        return begins(flags) | np.concatenate([[True], _same_rows(now[1:], after[:-1], tolerance)])

    def adjusted(now: Any, after: Any, *flags: Any) -> Any:
        if KINDS[type(now)] is BATCH or len(flat(now)) < 2:
            return None
        before = np.concatenate([flat(now)[:1], flat(after)[:-1]])
        return np.where(begins(flags)[:, None], flat(now), before)

    words = f"{obs} is {obs_next} of the row before, unless an episode begins"
    return of_fields(words, holds, obs, obs_next, *(ends or ("terminated", "truncated")), adjusted=adjusted)


def _same_rows(one: Any, other: Any, tolerance: float = 0.0) -> NDArray[np.bool_]:
    """Return which rows of two fields have the same numbers; nested batches have the same fields."""
    if KINDS[type(one)] is BATCH:
        parts = [_same_rows(value, other.__dict__[name], tolerance) for name, value in one.__dict__.items()]
        same: NDArray[np.bool_] = np.all(parts, 0)
        return same
    ours, theirs = flat(one), flat(other)
    rows: NDArray[np.bool_] = np.all((np.abs(ours - theirs) <= tolerance) | (np.isnan(ours) & np.isnan(theirs)), 1)
    return rows


def of_fields(
    words: str, holds: Callable[..., Any], *fields: str | None, adjusted: Callable[..., Any] | None = None
) -> Any:
    """Return a rule across these fields, which holds if any of them is absent or None.

    Args:
        words: Statement that must be true of the fields.
        holds: Function of their values.
        *fields: Names of the fields; None is ignored.
        adjusted: Function of their values that returns numbers for the first fields, in a tuple if there are several,
            for which the rule holds, or None where there are none. By it, examples and strategies of
            ``typedbatch.testing`` get such values.
    """
    names = [name for name in fields if name is not None]

    def holds_for(batch: Any) -> Any:
        values = [getattr(batch, name, None) for name in names]
        return True if any(value is None for value in values) else holds(*values)

    def adjust(batch: Any, fixed: Collection[str]) -> None:
        values = [batch.get(name) for name in names]
        if adjusted is None or any(value is None for value in values):
            return
        found = adjusted(*values)
        for name, value, numbers in zip(names, values, found if isinstance(found, tuple) else (found,), strict=False):
            if name not in fixed and numbers is not None:
                batch[name] = in_kind_of(value, numbers)

    marked: Any = rule(words)(holds_for)
    marked.__typedbatch_adjust__, marked.__typedbatch_fields__ = adjust, names
    return marked


def _differences(one: Any, other: Any, counts: Any) -> Any:
    """Return the sum of absolute differences over the tokens that count, and their number, per row: ``(N, 2)``."""
    apart = np.abs(np.where(counts, one, 0) - np.where(counts, other, 0))
    return np.stack([apart.sum(1), counts.sum(1)], axis=1)


def _mean(sums: Any) -> Any:
    return sums[:, 0] / np.maximum(sums[:, 1], 1)


def _is_shifted(same: Any, shifted: Any) -> Any:
    """Return whether the neighboring token is much closer than the token itself, per row, given enough tokens."""
    return (shifted[:, 1] >= _MIN_TOKENS) & (_mean(shifted) < 0.5 * _mean(same))


def flat(values: Any) -> Any:
    """Return the values as rows of float64 numbers, ``(N, M)``."""
    is_tensor = KINDS[type(values)] is TENSOR
    numbers = values.detach().double().cpu().numpy() if is_tensor else np.asarray(values).astype(float)
    return numbers.reshape(len(numbers), math.prod(numbers.shape[1:]))


def same_numbers(ours: Any, theirs: Any, *others: Any) -> tuple[Any, Any]:
    """Return numbers that two fields of log-probabilities may both have."""
    numbers = flat(theirs)
    numbers = np.where(np.abs(numbers) <= 64, numbers, -1)
    return numbers, numbers


def in_kind_of(values: Any, given: Any) -> Any:
    """Return what is given as an array or tensor with the dtype and the shape of other values."""
    if KINDS[type(values)] is TENSOR:
        return values.new_tensor(np.array(given), dtype=values.dtype).reshape(values.shape)
    return np.asarray(given, values.dtype).reshape(values.shape)
