"""What the stages hand to one another."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from typedbatch import BatchProtocol, BatchRecord


class Responses(BatchRecord):
    input_ids: Tensor
    response_mask: Tensor


class ScoredResponses(Responses):
    scores: Tensor
    old_logp: Tensor
    ref_logp: Tensor
    value: Tensor


class Experience(ScoredResponses):
    rewards: Tensor
    adv: Tensor
    returns: Tensor


class HasKL(BatchProtocol, Protocol):
    @property
    def old_logp(self) -> Tensor: ...
    @property
    def ref_logp(self) -> Tensor: ...
    @property
    def response_mask(self) -> Tensor: ...
