"""Losses of tokens added up to one number: ``aggregate``."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from typedbatch._core.compiling import is_compiling
from typedbatch._ops.ragged_rows import sum_sequences
from typedbatch.errors import LeafError, SettingError, StructureError
from typedbatch.posttraining.token_fields import as_bools
from typedbatch.sequences import Lengths, as_lengths

Aggregation: TypeAlias = Literal["token", "sequence", "dr_grpo"]
"""Rule by which losses of tokens become one number."""


def aggregate(
    losses: Tensor,
    mask: Tensor,
    how: Aggregation = "token",
    *,
    total: float | Tensor | None = None,
    lengths: Lengths | None = None,
) -> Tensor:
    """Return one number for the losses of tokens.

    The sum of the numbers of micro-batches is that of the whole batch if ``total`` is that of the whole batch:
    :func:`micro_batches` has it. The same is true for ranks, if their gradients are added up and not averaged.

    Args:
        losses: Loss of each token, ``(N, R)``, or ``(tokens,)`` end to end.
        mask: True for tokens that count, of the same shape.
        how: ``"token"`` is the sum over tokens divided by the number of tokens, as in DAPO (arXiv:2503.14476).
            ``"sequence"`` is the mean over sequences of their means over tokens, as in GRPO (arXiv:2402.03300).
            ``"dr_grpo"`` is the sum divided by a constant, as in Dr. GRPO (arXiv:2503.20783).
        total: Divisor: by default the number of tokens that count here, or of sequences here. ``"dr_grpo"`` needs it:
            the number of sequences times the greatest length of a response.
        lengths: Number of tokens of each sequence, for ``"sequence"`` over tokens end to end.

    Returns:
        A tensor without dimensions, in float32 for half precision; 0 where no token counts. A sequence without a
        counting token counts as 0.

    Raises:
        LeafError: ``losses`` or ``mask`` is not a tensor.
        StructureError: The two have different shapes, where torch would repeat one of them, or no dimension, or the
            mask has values other than 0 and 1.
        SettingError: ``how`` is something else, ``total`` or ``lengths`` is missing, or ``total`` is not a number from
            0 up, or is 0 though tokens count.
        SizeError: ``lengths`` are not whole numbers from 0 up.
    """
    if not isinstance(losses, Tensor):
        raise LeafError(f"aggregate() takes a tensor of losses, got {type(losses).__name__}")
    counts = as_bools(mask, "mask")
    if counts.shape != losses.shape:
        raise StructureError(f"losses are {list(losses.shape)}, but the mask is {list(counts.shape)}")
    if not losses.ndim:
        raise StructureError("losses have no dimension; pass one for each token, before they are added up")
    wide = losses.to(torch.promote_types(losses.dtype, torch.float32))  # a sum of half precision may be infinite
    counted = torch.where(counts, wide, 0.0)  # A product would keep what is infinite in tokens that do not count.
    if how == "token":
        return counted.sum() / _divisor(total, counts.sum(), counts)
    if how == "dr_grpo":
        if total is None:
            raise SettingError("'dr_grpo' divides by a constant; pass total=, sequences times the greatest length")
        return counted.sum() / _divisor(total, 1, counts)
    if how != "sequence":
        raise SettingError(f"how= must be 'token', 'sequence' or 'dr_grpo', got {how!r}")
    sums, sizes = _of_sequences(counted, counts, lengths)
    return (sums / sizes.clamp(min=1)).sum() / _divisor(total, len(sums), counts)


def _of_sequences(counted: Tensor, counts: Tensor, lengths: Lengths | None) -> tuple[Tensor, Tensor]:
    """Return the sum and the number of counting tokens of each sequence."""
    if counted.ndim > 1:
        return counted.flatten(1).sum(1), counts.flatten(1).sum(1)
    if lengths is None:
        raise SettingError("'sequence' over tokens end to end needs lengths=, the number of tokens of each sequence")
    sizes = as_lengths(lengths)
    if int(sizes.sum()) != len(counted):
        raise StructureError(f"lengths sum up to {int(sizes.sum())}, but there are {len(counted)} tokens")
    return sum_sequences(counted, sizes), sum_sequences(counts, sizes)


def _divisor(total: float | Tensor | None, count: int | Tensor, counts: Tensor) -> float | Tensor:
    """Return the total, or the count without one; 1 for 0, as batches without a counting token have loss 0."""
    if total is None:
        return count.clamp(min=1) if isinstance(count, Tensor) else count or 1
    if is_compiling() and isinstance(total, Tensor):  # torch.compile cannot look at values
        return torch.where(total == 0, 1, total)
    try:
        is_right = 0 <= float(total) < math.inf
    except (TypeError, ValueError, RuntimeError):  # a tensor of several values raises the last
        is_right = False
    if not is_right or (total == 0 and not is_compiling() and bool(counts.any())):
        what = "above 0, as there are tokens that count" if is_right else "from 0 up"
        raise SettingError(f"total= must be one number {what}, got {total!r}")
    return total if total != 0 else 1
