"""Every step of a trajectory takes the last step's advantages, which lie at the last step's tokens."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from typedbatch import Batch, BatchRecord, rule, validate

PROJECT = "SkyRL"
LINK = "https://github.com/NovaSky-AI/SkyRL/pull/1507"
CAUGHT_BY = "rule"

MASK = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=torch.bool)  # step 1 and step 2 of a trajectory
LAST = 0.5 * MASK[1]


def broken() -> str:
    batch = {"loss_mask": MASK, "advantage": LAST.expand(2, 4)}
    used = batch["advantage"][batch["loss_mask"]]
    assert used.tolist() == [0.0, 0.0, 0.5, 0.5]
    return "step 1 learns with advantage 0 at each of its tokens"


class Ready(BatchRecord):
    loss_mask: Bool[Tensor, "N R"]
    advantage: Float[Tensor, "N R"]

    @rule("advantages are 0 where loss_mask is False")
    def inside(self) -> Tensor:
        return ((self.advantage == 0) | self.loss_mask).all(1)


def typed() -> object:
    return validate(Batch(loss_mask=MASK, advantage=LAST.expand(2, 4)), Ready, level="values")
