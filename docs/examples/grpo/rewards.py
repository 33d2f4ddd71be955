"""Rewards: whether the policy gives the right answer and then stops."""

from __future__ import annotations

import torch

from records import Graded, Sampled
from tool import END
from typedbatch import checked, extend


@checked
def grade(sampled: Sampled) -> Graded:
    """Give 1 for the right answer and then the end, 0.5 for the right answer to what comes last, and else 0."""
    rows = torch.arange(len(sampled))
    tokens = torch.where(sampled.loss_mask, sampled.response_ids, -1)
    last = sampled.response_mask.sum(1) - 1
    ended = tokens[rows, last] == END
    answer = tokens[rows, (last - ended.long()).clamp(min=0)]
    right = (answer == sampled.answers).float()
    return extend(sampled, Graded, rewards=right * torch.where(ended, 1.0, 0.5))
