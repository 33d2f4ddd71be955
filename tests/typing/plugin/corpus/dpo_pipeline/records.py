"""The stages of a preference batch."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from typedbatch import BatchProtocol, BatchRecord


class Pairs(BatchRecord):
    """Token ids of both answers, padded, and where the answers are."""

    chosen_ids: Tensor
    rejected_ids: Tensor
    chosen_mask: Tensor
    rejected_mask: Tensor


class ScoredPairs(Pairs):
    """With the log-probabilities of the reference model."""

    ref_chosen_logp: Tensor
    ref_rejected_logp: Tensor


class HasMargins(BatchProtocol, Protocol):
    """What the report needs."""

    @property
    def chosen_reward(self) -> Tensor: ...
    @property
    def rejected_reward(self) -> Tensor: ...
