"""Pairs in which the chosen answer has more even tokens."""

from __future__ import annotations

import torch

from dpo_pipeline.records import Pairs
from typedbatch import Batch

VOCAB = 16


def make_pairs(n: int, width: int = 8) -> Pairs:
    chosen = 2 * torch.randint(1, VOCAB // 2, (n, width))
    rejected = torch.randint(1, VOCAB, (n, width))
    mask = (torch.arange(width) >= 2).float().expand(n, width)
    return Pairs(chosen_ids=chosen, rejected_ids=rejected, chosen_mask=mask, rejected_mask=mask)
    #! misspelt-keyword: return Pairs(chosen_ids=chosen, reject_ids=rejected, chosen_mask=mask, rejected_mask=mask)


def describe(pairs: Pairs) -> str:
    stats = Batch(n=len(pairs), even=(pairs.chosen_ids % 2 == 0).float().mean())
    stats.rejected_even = (pairs.rejected_ids % 2 == 0).float().mean()
    return f"{int(stats.n)} pairs, even {float(stats.even):.2f} against {float(stats.rejected_even):.2f}"
    #! misspelt-read: return f"{int(stats.n)} pairs, even {float(stats.even):.2f} against {float(stats.reject_even):.2f}"
