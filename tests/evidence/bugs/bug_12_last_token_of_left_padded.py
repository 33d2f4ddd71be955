"""The reward is read where a right-padded row ends, but the rows are padded on the left."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from typedbatch import Batch, BatchRecord, rule, validate

PROJECT = "TRL"
LINK = "https://github.com/huggingface/trl/issues/2778"
CAUGHT_BY = "rule"

PAD = 0
IDS = torch.tensor([[PAD, PAD, 11, 12], [21, 22, 23, 24]])  # left-padded


def broken() -> str:
    scores = IDS.float()  # the reward model's score of each token
    last = (IDS != PAD).sum(1) - 1  # of a right-padded row
    reward = scores.gather(1, last[:, None]).squeeze(1)
    assert reward.tolist() == [PAD, 24.0]
    return "row 0 is rewarded for a padding token"


class RightPadded(BatchRecord):
    ids: Int[Tensor, "N T"]
    mask: Bool[Tensor, "N T"]

    @rule("sequences are padded on the right")
    def right(self) -> Tensor:
        return (self.mask[:, 1:] <= self.mask[:, :-1]).all(1)


def typed() -> object:
    return validate(Batch(ids=IDS, mask=IDS != PAD), RightPadded, level="values")
