"""Losses of tokens added up to one number: ``aggregate``."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from typedbatch._ops.conversion import torch_side
from typedbatch.errors import LeafError, SettingError, StructureError
from typedbatch.posttraining.masks import as_bools
from typedbatch.sequences import Lengths, as_lengths, sequence_ids

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
        A tensor without dimensions; 0 where no token counts. A sequence without a counting token counts as 0.

    Raises:
        LeafError: ``losses`` or ``mask`` is not a tensor.
        StructureError: The two have different shapes, where torch would repeat one of them, or the mask has values
            other than 0 and 1.
        SettingError: ``how`` is something else, or ``total`` or ``lengths`` is missing.
        SizeError: ``lengths`` are not whole numbers from 0 up.
    """
    if not isinstance(losses, Tensor):
        raise LeafError(f"aggregate() takes a tensor of losses, got {type(losses).__name__}")
    counts = as_bools(mask, "mask")
    if counts.shape != losses.shape:
        raise StructureError(f"losses are {list(losses.shape)}, but the mask is {list(counts.shape)}")
    counted = torch.where(counts, losses, 0.0)  # A product would keep what is infinite in tokens that do not count.
    if how == "token":
        return counted.sum() / _divisor(counts.sum() if total is None else total)
    if how == "dr_grpo":
        if total is None:
            raise SettingError("'dr_grpo' divides by a constant; pass total=, sequences times the greatest length")
        return counted.sum() / _divisor(total)
    if how != "sequence":
        raise SettingError(f"how= must be 'token', 'sequence' or 'dr_grpo', got {how!r}")
    sums, sizes = _of_sequences(counted, counts, lengths)
    return (sums / sizes.clamp(min=1)).sum() / _divisor(len(sums) if total is None else total)


def _of_sequences(counted: Tensor, counts: Tensor, lengths: Lengths | None) -> tuple[Tensor, Tensor]:
    """Return the sum and the number of counting tokens of each sequence."""
    if counted.ndim > 1:
        return counted.flatten(1).sum(1), counts.flatten(1).sum(1)
    if lengths is None:
        raise SettingError("'sequence' over tokens end to end needs lengths=, the number of tokens of each sequence")
    sizes = as_lengths(lengths)
    if int(sizes.sum()) != len(counted):
        raise StructureError(f"lengths sum up to {int(sizes.sum())}, but there are {len(counted)} tokens")
    number = torch_side().to_tensor(sequence_ids(sizes)).to(counted.device)
    sums = counted.new_zeros(len(sizes)).index_add(0, number, counted)
    return sums, counts.new_zeros(len(sizes), dtype=torch.long).index_add(0, number, counts.long())


def _divisor(total: float | Tensor) -> float | Tensor:
    """Return a divisor that is not 0, as batches without a counting token have loss 0."""
    return total.clamp(min=1) if isinstance(total, Tensor) else total or 1
