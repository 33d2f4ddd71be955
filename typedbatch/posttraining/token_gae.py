"""Generalized advantages of tokens or turns: ``token_gae``."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from torch import Tensor

from typedbatch._core.kinds import describe
from typedbatch._ops.conversion import torch_side
from typedbatch.errors import LeafError, SettingError, StructureError
from typedbatch.posttraining.token_fields import as_bools
from typedbatch.sequences import Lengths, as_lengths, sequence_ids


def token_gae(
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    turns: Tensor | None = None,
    lengths: Lengths | None = None,
) -> tuple[Tensor, Tensor]:
    """Return generalized advantages (arXiv:1506.02438) and value targets of the tokens that count.

    Tokens that do not count, as those of tools and padding, are skipped: the value after a token is that of the next
    one that counts, and 0 after the last, also of a response that was cut. With ``turns`` each turn is one action: its
    rewards are added up, its value is that of its first token that counts, and its tokens share one advantage and one
    target. No gradient flows.

    Args:
        rewards: Reward of each token, in the shape of the values, or else of each sample, ``(N,)``, which its last
            token that counts gets.
        values: Value before each token, as :func:`~typedbatch.posttraining.token_values` returns it: ``(N, R)``, or
            ``(tokens,)`` end to end.
        mask: True for tokens that count, as ``loss_mask``, in the shape of the values.
        gamma: Discount per token, or with ``turns`` per turn, from 0 to 1.
        lam: Weight of longer returns, from 0 to 1.
        turns: Number of the turn of each token, whole numbers in the shape of the values; None for an action per token.
        lengths: Number of tokens of each sequence, for tokens end to end.

    Returns:
        Advantages, not normalized, and targets, each in the shape and dtype of the values, 0 outside of the mask.

    Raises:
        LeafError: An argument is not a tensor, the values are not floating, or the turns not whole numbers.
        StructureError: Shapes differ, a reward other than 0 is at a token that does not count, a sample with a reward
            has no token that counts, a turn is interrupted by another, or a reward or value that counts is not finite.
        SettingError: ``gamma`` or ``lam`` is not from 0 to 1, or ``lengths`` is missing, or
            given for padded tokens.
    """
    settings: dict[str, Any] = {"gamma": gamma, "lam": lam}
    for name, setting in settings.items():
        if isinstance(setting, bool) or not isinstance(setting, Real) or not 0 <= float(setting) <= 1:
            raise SettingError(f"{name}= is a number from 0 to 1, got {setting!r}")
    for name, given in (("rewards", rewards), ("values", values)):
        _require_tensor(given, name)
    if not values.is_floating_point():
        raise LeafError(f"values must be floating, as results have their dtype, got {describe(values)}", "values")
    counts = as_bools(mask, "mask")
    if counts.shape != values.shape or values.ndim not in (1, 2):
        raise StructureError(f"values are {list(values.shape)}, but the mask is {list(counts.shape)}", "values")
    with torch.no_grad():
        number = _sequence_of(counts, lengths)
        now = values.to(torch.promote_types(values.dtype, torch.float32))[counts]
        _require_finite(now, "values")
        earned = _of_tokens(rewards, counts, number, lengths).to(now.dtype)
        begins = _begins(number, turns, counts)
        step = begins.long().cumsum(0) - 1
        total = now.new_zeros(int(begins.sum())).index_add(0, step, earned)
        value, of = now[begins], number[begins]
        goes_on = torch.nn.functional.pad((of[1:] == of[:-1]).to(now.dtype), (0, 1))[: len(of)]
        after = torch.nn.functional.pad(value, (0, 1))[1:]
        adv = _summed(total + gamma * goes_on * after - value, gamma * lam * goes_on, of)
        out = torch.zeros_like(values), torch.zeros_like(values)
        for tensor, result in zip(out, (adv, adv + value), strict=True):
            tensor[counts] = result[step].to(values.dtype)
    return out


def _sequence_of(counts: Tensor, lengths: Lengths | None) -> Tensor:
    """Return the number of the sequence of each token that counts."""
    if counts.ndim == 2:
        if lengths is not None:
            raise SettingError("lengths= is for tokens end to end, (tokens,), and these are (N, R)")
        return counts.nonzero()[:, 0]
    if lengths is None:
        raise SettingError("tokens end to end need lengths=, the number of tokens of each sequence")
    sizes = as_lengths(lengths)
    if int(sizes.sum()) != len(counts):
        text = f"lengths sum up to {int(sizes.sum())}, but there are {len(counts)} tokens"
        raise StructureError(f"{text}; cu_seqlens.diff() has those of a packed batch")
    number: Tensor = torch_side().to_tensor(sequence_ids(sizes)).to(counts.device)
    return number[counts]


def _of_tokens(rewards: Tensor, counts: Tensor, number: Tensor, lengths: Lengths | None) -> Tensor:
    """Return the reward of each token that counts."""
    samples = len(counts) if lengths is None else len(as_lengths(lengths))
    if rewards.shape == counts.shape:
        if len(lost := ((rewards != 0) & ~counts).nonzero()):
            text = (
                f"the reward at {lost[0].tolist()} is at a token that does not count; move it to the last one before "
            )
            raise StructureError(text + "it that does", "rewards")
        earned = rewards[counts]
    elif rewards.shape == (samples,):
        counting = torch.zeros_like(rewards, dtype=torch.bool).index_fill(0, number, True)
        if len(lost := ((rewards != 0) & ~counting).nonzero()):
            raise StructureError(f"sample {int(lost[0])} has a reward, but no token that counts", "rewards")
        is_last = torch.cat([number[1:] != number[:-1], torch.ones_like(number[:1], dtype=torch.bool)])
        earned = torch.where(is_last, rewards[number], 0)
    else:
        expected = f"one for each token, {list(counts.shape)}, or for each sample, {[samples]}"
        raise StructureError(f"it must be {expected}, got {list(rewards.shape)}", "rewards")
    _require_finite(earned, "rewards")
    return earned


def _begins(number: Tensor, turns: Tensor | None, counts: Tensor) -> Tensor:
    """Return True for the tokens that begin an action."""
    begins = torch.ones_like(number, dtype=torch.bool)
    if turns is None:
        return begins
    _require_tensor(turns, "turns")
    if turns.is_floating_point() or turns.dtype == torch.bool:
        raise LeafError(f"it must be whole numbers, got {describe(turns)}", "turns")
    if turns.shape != counts.shape:
        raise StructureError(f"it must be {list(counts.shape)}, as the mask, got {list(turns.shape)}", "turns")
    own = turns[counts]
    begins[1:] = (own[1:] != own[:-1]) | (number[1:] != number[:-1])
    found, times = torch.unique(torch.stack([number[begins], own[begins]]), dim=1, return_counts=True)
    if len(again := found.T[times > 1].tolist()):
        raise StructureError(f"turn {again[0][1]} of sample {again[0][0]} is interrupted by another", "turns")
    return begins


def _summed(errors: Tensor, weights: Tensor, of: Tensor) -> Tensor:
    """Return ``y[t] = errors[t] + weights[t] * y[t + 1]``, in as many rounds as a sequence's length has bits."""
    longest = int(torch.bincount(of).max()) if len(of) else 0
    shift = 1
    while shift < longest:
        errors = errors + weights * torch.nn.functional.pad(errors[shift:], (0, shift))
        weights = weights * torch.nn.functional.pad(weights[shift:], (0, shift))
        shift *= 2
    return errors


def _require_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise LeafError(f"token_gae() takes tensors, got {describe(value)}", name)


def _require_finite(values: Tensor, name: str) -> None:
    if len(wrong := (~values.isfinite()).nonzero()):
        number = int(wrong[0, 0])
        raise StructureError(f"it is {values[number].item()} at token {number} of those that count", name)
