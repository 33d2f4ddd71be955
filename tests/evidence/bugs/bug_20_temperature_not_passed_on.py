"""One backend divides logits by the temperature, the other is not told of it."""

from typing import TypedDict

import torch
from jaxtyping import Float
from torch import Tensor

from typedbatch import Batch, BatchRecord, validate

PROJECT = "verl, OpenRLHF, TRL"
LINK = "https://github.com/verl-project/verl/pull/3133"
CAUGHT_BY = "checker, edge"


def broken() -> str:
    logits, ids = torch.tensor([[2.0, 0.0, -1.0]]), torch.tensor([0])
    meta = {"temperature": 0.6}
    rollout = torch.log_softmax(logits / meta["temperature"], -1)[0, ids]
    meta = {"step": 3}  # made anew on the way to the trainer
    trainer = torch.log_softmax(logits / meta.get("temperature", 1.0), -1)[0, ids]
    ratio = float((trainer - rollout).exp())
    assert abs(ratio - 1) > 0.05
    return f"on policy, ratio {ratio:.2f}"


class SamplingMeta(TypedDict):
    temperature: float


class Ready(BatchRecord):
    logits: Float[Tensor, "N V"]
    meta: SamplingMeta


def typed() -> object:  # of a temperature that is there and not used nothing knows
    return validate(Batch(logits=torch.zeros(1, 3), meta={"step": 3}), Ready)
