"""A NaN in a masked slot makes the loss NaN, since NaN * 0 is NaN."""

from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from typedbatch import Batch, BatchRecord, Finite, validate

PROJECT = "OpenRLHF"
LINK = "https://github.com/OpenRLHF/OpenRLHF/pull/1240"
CAUGHT_BY = "rule"

BATCH = {"old_logp": torch.tensor([[0.0, float("nan")]]), "loss_mask": torch.tensor([[True, False]])}


def broken() -> str:
    ratio = (torch.zeros(1, 2) - BATCH["old_logp"]).exp()
    loss = -(ratio * BATCH["loss_mask"]).sum() / BATCH["loss_mask"].sum()
    assert loss.isnan()
    return "loss nan, from a token that does not count"


class LossInputs(BatchRecord):
    old_logp: Annotated[Float[Tensor, "N R"], Finite]
    loss_mask: Bool[Tensor, "N R"]


def typed() -> object:
    return validate(Batch(BATCH), LossInputs, level="values")
