"""One rollout class gives tool_output_masks, another does not; the actor finds out after the whole rollout."""

from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from typedbatch import BatchProtocol, BatchRecord, checked

PROJECT = "ToRL (verl)"
LINK = "https://github.com/GAIR-NLP/ToRL/issues/8"
CAUGHT_BY = "checker, edge"


def broken() -> str:
    def rollout() -> dict:  # the class that an older sampler picks
        return {"responses": torch.ones(2, 3, dtype=torch.long), "old_log_probs": torch.zeros(2, 3)}

    def update(batch: dict) -> Tensor:
        return (batch["old_log_probs"] * batch["tool_output_masks"]).sum()

    batch = rollout()  # hours of sampling, rewards, advantages ...
    try:
        update(batch)
    except KeyError as error:
        return f"KeyError {error}, at the very end"
    raise AssertionError


class Rollout(BatchRecord):
    responses: Int[Tensor, "N R"]
    old_logp: Float[Tensor, "N R"]


class UpdateInputs(BatchProtocol, Protocol):
    @property
    def old_logp(self) -> Float[Tensor, "N R"]: ...
    @property
    def loss_mask(self) -> Bool[Tensor, "N R"]: ...


@checked
def update(batch: UpdateInputs) -> None: ...


def typed() -> object:  # every checker reports the call, too
    rollout = Rollout(responses=torch.ones(2, 3, dtype=torch.long), old_logp=torch.zeros(2, 3))
    return update(rollout)  # type: ignore
