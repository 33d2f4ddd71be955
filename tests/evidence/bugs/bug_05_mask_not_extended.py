"""A continued response has more tokens than its mask, which was made before the continuation."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from typedbatch import Batch, BatchRecord, validate

PROJECT = "slime"
LINK = "https://github.com/THUDM/slime/issues/1440"
CAUGHT_BY = "edge"


def broken() -> str:
    sample = {"ids": torch.tensor([5, 6]), "mask": torch.tensor([False, False])}  # off-policy part: not in the loss
    sample["ids"] = torch.cat([sample["ids"], torch.tensor([7, 8, 9])])  # continued with the new weights
    mask = torch.zeros(5, dtype=torch.bool)
    mask[: len(sample["mask"])] = sample["mask"]  # the collate function pads what is short
    assert mask.sum() == 0
    return "the three new tokens are not in the loss either"


class Sample(BatchRecord):
    ids: Int[Tensor, "tokens"]
    mask: Bool[Tensor, "tokens"]


def typed() -> object:
    return validate(Batch(ids=torch.tensor([5, 6, 7, 8, 9]), mask=torch.tensor([False, False])), Sample)
