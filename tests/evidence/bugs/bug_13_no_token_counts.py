"""Truncation leaves a batch in which no label counts; 0 / 0, logged as a loss of 0."""

import torch
from jaxtyping import Bool
from torch import Tensor

from typedbatch import Batch, BatchRecord, validate
from typedbatch.rules import has_counted_token

PROJECT = "TRL"
LINK = "https://github.com/huggingface/trl/issues/6668"
CAUGHT_BY = "rule"

MASK = torch.tensor([[0, 0, 0], [0, 0, 0]], dtype=torch.bool)


def broken() -> str:
    loss = (torch.ones(2, 3) * MASK).sum() / MASK.sum()
    assert loss.isnan() and loss.nan_to_num().item() == 0.0
    return "loss nan, or 0.0 in the log of a run that looks healthy"


class LossInputs(BatchRecord):
    loss_mask: Bool[Tensor, "N R"]

    counts = has_counted_token("loss_mask")


def typed() -> object:
    return validate(Batch(loss_mask=MASK), LossInputs, level="values")
