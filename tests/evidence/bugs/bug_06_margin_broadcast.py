"""Rewards (B, 1) minus margins (B,) is (B, B): every pair against every margin."""

import torch
from jaxtyping import Float
from torch import Tensor

from typedbatch import checked

PROJECT = "ms-swift"
LINK = "https://github.com/modelscope/ms-swift/pull/9927"
CAUGHT_BY = "checker, edge"

BATCH = {"chosen": torch.randn(3, 1), "rejected": torch.randn(3, 1), "margin": torch.tensor([0.1, 0.0, 0.3])}


def broken() -> str:
    logits = BATCH["chosen"] - BATCH["rejected"] - BATCH["margin"]
    assert logits.shape == (3, 3)
    return f"{tuple(logits.shape)} instead of (3,); the mean hides it"


@checked
def loss(chosen: Float[Tensor, "N"], rejected: Float[Tensor, "N"], margin: Float[Tensor, "N"]) -> None: ...


def typed() -> object:  # the mypy plugin reports the subtraction itself: (N, 1) and (N,) make (N, N)
    return loss(BATCH["chosen"], BATCH["rejected"], BATCH["margin"])
