"""Rules on the values of rollouts: masks, padding, log-probabilities, versions of the weights and answers.

The stages declare the first four. A subclass exchanges one by declaring its name again: ``logp_is_close = None`` leaves
it out, ``logp_is_close = logp_close("old_logp", "rollout_logp", tolerance=1.0)`` allows more.
"""

from __future__ import annotations

from collections.abc import Collection
from numbers import Real
from typing import Any

import numpy as np

from typedbatch._core.meta import meta_of
from typedbatch.errors import SettingError
from typedbatch.rules import Got, flat, in_kind_of, listed, members_of, of_fields, rule, same_numbers

_MIN_TOKENS = 8
"""Smallest number of tokens from which missing log-probabilities are inferred: few tokens may have 0 nats."""


def within(inner: str, outer: str, /) -> Any:
    """Return a rule that a mask is True only where another is.

    Args:
        inner: Name of the mask, ``(N, R)``.
        outer: Name of the mask that it must be inside of, of the same shape.

    Returns:
        The rule, for the body of a record; in a protocol put it under ``if not TYPE_CHECKING``. It is checked per row,
        and holds if any of the fields is absent or None.
    """

    def holds(inside: Any, outside: Any) -> Any:
        return ((flat(inside) == 0) | (flat(outside) != 0)).all(1)

    words = f"{inner} is True only where {outer} is"
    return of_fields(words, holds, inner, outer, adjusted=lambda inside, outside: flat(inside) * (flat(outside) != 0))


def ends_at_the_edge(mask: str, /) -> Any:
    """Return a rule that the tokens of each row end at the right edge, as those of prompts that a model continues.

    Args:
        mask: Name of the mask of tokens, ``(N, P)``.

    Returns:
        The rule, used like that of :func:`within`. It holds for rows without tokens.
    """

    def holds(present: Any) -> Any:
        values = flat(present) != 0
        return values[:, -1] | ~values.any(1) if values.shape[1] else np.ones(len(values), bool)

    def adjusted(present: Any) -> Any:
        values = flat(present)
        values[:, -1:] = 1
        return values

    return of_fields(f"{mask} ends at the right edge", holds, mask, adjusted=adjusted)


def logp_of_mask(logp: str, mask: str, /, *, run: int = 32) -> Any:
    """Return a rule that log-probabilities are there for the tokens that count, and 0 elsewhere.

    It finds ids and masks of different lengths, and tokens of tools that the mask counts. A token that is certain has
    0 nats, and so have some tokens beside each other, such as those of an address that is copied. So a sample fails
    only if more than half of its tokens that count have 0, of at least 8, or ``run`` consecutive ones.

    Args:
        logp: Name of the field of log-probabilities, ``(N, R)``.
        mask: Name of the mask of the tokens that count, of the same shape.
        run: Number of consecutive tokens with 0 nats from which they are taken for those of a tool.

    Returns:
        The rule, used like that of :func:`within`.
    """

    def holds(values: Any, counting: Any) -> Any:
        zero, counts = flat(values) == 0, flat(counting) != 0
        total, missing = counts.sum(1), (zero & counts).sum(1)
        is_short = (total < _MIN_TOKENS) | (2 * missing <= total)
        return (zero | counts).all(1) & is_short & (_longest_run(zero & counts) < run)

    def adjusted(values: Any, counting: Any) -> Any:
        return np.where(flat(values) == 0, -1, flat(values)) * (flat(counting) != 0)

    words = f"{logp} has values where {mask} counts a token, and 0 elsewhere"
    return of_fields(words, holds, logp, mask, adjusted=adjusted)


def _longest_run(flags: Any) -> Any:
    """Return the length of the longest run of True of each row."""
    count = flags.cumsum(1)
    before = np.maximum.accumulate(np.where(flags, 0, count), 1)
    return (count - before).max(1, initial=0)


def logp_close(
    one: str,
    other: str,
    /,
    *,
    mask: str = "loss_mask",
    tolerance: float = 0.25,
    stale: float | None = None,
    step: str = "step",
    field: str = "policy_step",
) -> Any:
    """Return a rule that the mean absolute difference of two fields of log-probabilities is small.

    On policy, those of the sampler and those of the trainer differ by the numerics of two engines. Logits that are not
    shifted, the temperature left out, another model or another order of rows make the difference large. So do weights
    that the trainer has changed since: with ``stale``, rows of older weights are measured by themselves, so that the
    tolerance for the others may stay small.

    Args:
        one: Name of a field of log-probabilities, ``(N, R)``, in nats.
        other: Name of another such field, of the same shape.
        mask: Name of the mask of the tokens that count.
        tolerance: Largest allowed mean difference over all tokens that count, in nats.
        stale: The same over rows of older weights, whose ``policy_step`` is below the step of the meta; None for one
            mean over all rows.
        step: Key of the meta that has the step. Without it all rows are of the current weights.
        field: Name of the field with the version of the weights of each row, ``(N,)``.

    Returns:
        The rule, used like that of :func:`within`. It is about all rows together, and names those that differ most.

    Raises:
        SettingError: A tolerance is not a number from 0 up.
    """
    for number in (tolerance, 0.0 if stale is None else stale):
        _require_number(number, "a tolerance")

    def holds(batch: Any) -> Any:
        ours, theirs, counting = (getattr(batch, name, None) for name in (one, other, mask))
        if ours is None or theirs is None or counting is None:
            return True
        counts = flat(counting) != 0
        apart = np.where(counts, np.abs(flat(ours) - flat(theirs)), 0)
        versions, now = getattr(batch, field, None), meta_of(batch).get(step)
        if stale is None or versions is None or now is None:
            return _mean_below(apart, counts, tolerance)
        is_old = flat(versions)[:, 0] < int(now)
        current = _mean_below(
            apart, counts, tolerance, ~is_old, " over rows of current weights" if is_old.any() else ""
        )
        return _mean_below(apart, counts, stale, is_old, " over rows of older weights") if current is True else current

    def adjust(batch: Any, fixed: Collection[str]) -> None:
        ours, theirs = batch.get(one), batch.get(other)
        if ours is None or theirs is None or batch.get(mask) is None:
            return
        for name, value, numbers in zip((one, other), (ours, theirs), same_numbers(ours, theirs), strict=True):
            if name not in fixed:
                batch[name] = in_kind_of(value, numbers)

    words = f"{one} and {other} differ by at most {tolerance:g} nats in the mean"
    marked: Any = rule(words + (f", in rows of older weights by {stale:g}" if stale is not None else ""))(holds)
    marked.__typedbatch_adjust__ = adjust
    marked.__typedbatch_fields__ = (one, other, mask) if stale is None else (one, other, mask, field)
    return marked


def kl_below(limit: float, /, policy: str = "old_logp", reference: str = "ref_logp", *, mask: str = "loss_mask") -> Any:
    """Return a rule that the KL divergence of the policy from its reference is at most a limit.

    The divergence is estimated as the mean of ``exp(d) - d - 1`` with ``d = reference - policy`` over all tokens that
    count, which is never negative (Schulman, "Approximating KL divergence", 2020). It is biased if the tokens were
    sampled by older weights than those of ``policy``; ``rollout_logp`` has the weights that sampled.

    Args:
        limit: Largest allowed mean, in nats per token.
        policy: Name of the field with log-probabilities of the policy, ``(N, R)``, in nats.
        reference: Name of the field with those of the reference, of the same shape.
        mask: Name of the mask of the tokens that count.

    Returns:
        The rule, used like that of :func:`within`. It is about all rows together, and names those above the limit.

    Raises:
        SettingError: The limit is not a number from 0 up.
    """
    _require_number(limit, "a limit")

    def holds(own: Any, other: Any, counting: Any) -> Any:
        counts = flat(counting) != 0
        apart = np.where(counts, flat(other) - flat(own), 0)
        with np.errstate(over="ignore"):  # an infinite divergence is above any limit
            return _mean_below(np.expm1(apart) - apart, counts, limit)

    words = f"the KL divergence of {policy} from {reference} is at most {limit:g} nats per token"
    return of_fields(words, holds, policy, reference, mask, adjusted=same_numbers)


def _require_number(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        raise SettingError(f"{what} is a number of nats from 0 up, got {value!r}")


def _mean_below(values: Any, counts: Any, limit: float, rows: Any = True, of: str = "") -> Any:
    """Return True if the mean over counting tokens of some rows is at most a limit, else text with the rows above."""
    sums, tokens = np.where(rows, values.sum(1), 0), np.where(rows, counts.sum(1), 0)
    mean = sums.sum() / max(tokens.sum(), 1)
    if mean <= limit:
        return True
    apart = np.nan_to_num(sums / np.maximum(tokens, 1), nan=np.inf, posinf=np.inf)
    most = [row for row in np.argsort(-apart, kind="stable")[:3] if apart[row] > limit]
    listing = ", ".join(f"{row} ({apart[row]:.3g})" for row in most)
    return Got(f"{mean:.3g} nats{of}; most in rows {listing}")


def sampled_by(step: str = "step", /, *, field: str = "policy_step", lag: int = 0) -> Any:
    """Return a rule that rows were sampled by the weights of the batch's step, and not by those of a stale worker.

    Args:
        step: Key of the meta that has the step.
        field: Name of the field with the version of the weights of each row, ``(N,)``.
        lag: Number of versions that a row may be behind.

    Returns:
        The rule, used like that of :func:`within`. It holds if the meta does not have the key.
    """

    def holds(batch: Any) -> Any:
        now, versions = meta_of(batch).get(step), getattr(batch, field, None)
        if now is None or versions is None:
            return True
        behind = int(now) - flat(versions)[:, 0]
        return (behind >= 0) & (behind <= lag)

    def adjust(batch: Any, fixed: Collection[str]) -> None:
        now, versions = meta_of(batch).get(step), batch.get(field)
        if now is not None and versions is not None and field not in fixed:
            batch[field] = in_kind_of(versions, np.full(versions.shape, int(now)))

    marked: Any = rule(f"{field} is meta.{step}" + (f" or at most {lag} less" if lag else ""))(holds)
    marked.__typedbatch_adjust__, marked.__typedbatch_fields__ = adjust, (field,)
    return marked


def same_in_groups(field: str, group: str = "uid", /) -> Any:
    """Return a rule that rows of one group have one value, as the answer that belongs to a prompt.

    Args:
        field: Name of a field of numbers, text or other objects that can be compared, ``(N,)``.
        group: Name of the field that tells the group of each row, ``(N,)``.

    Returns:
        The rule, used like that of :func:`within`. It fails for all rows of a group that differ from its first row.
    """

    def holds(values: Any, keys: Any) -> Any:
        items, right = listed(values), np.ones(len(values), bool)
        for members in members_of(keys):
            right[members] = [bool(items[members[0]] == items[row]) for row in members]
        return right

    def adjusted(values: Any, keys: Any) -> Any:
        items = listed(values)
        for members in members_of(keys):
            for row in members:
                items[row] = items[members[0]]
        return items

    words = f"{field} is the same in each group of {group}"
    return of_fields(words, holds, field, group, adjusted=adjusted)
