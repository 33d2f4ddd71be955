"""The length of a response is the span of its mask, so it counts the tools' tokens in between."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from typedbatch import Batch, BatchRecord, validate
from typedbatch.rules import mask_matches

PROJECT = "OpenRLHF"
LINK = "https://github.com/OpenRLHF/OpenRLHF/issues/1243"
CAUGHT_BY = "rule"

MASK = torch.tensor([[0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1]], dtype=torch.bool)


def broken() -> str:
    ones = torch.where(MASK[0])[0]
    batch = {"loss_mask": MASK, "response_length": torch.tensor([int(ones[-1] - ones[0] + 1)])}
    penalty = (batch["response_length"] - 10).clamp(min=0)  # over 10 is too long
    assert batch["response_length"].item() == 12 and penalty.item() == 2 and MASK.sum() == 9
    return "9 sampled tokens, punished as 12"


class Rollouts(BatchRecord):
    loss_mask: Bool[Tensor, "N R"]
    response_length: Int[Tensor, "N"]

    lengths = mask_matches("loss_mask", "response_length")


def typed() -> object:
    return validate(Batch(loss_mask=MASK, response_length=torch.tensor([12])), Rollouts, level="values")
