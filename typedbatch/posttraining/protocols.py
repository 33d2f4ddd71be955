"""What a stage of post-training reads: flat protocols, as the stages after a rollout come in any order.

Shapes as in ``typedbatch.posttraining.records``: ``[:, t]`` of every field ``(N, R)`` is of ``response_ids[:, t]``.
"""

from __future__ import annotations

from typing import Protocol

from jaxtyping import Bool, Int
from torch import Tensor

from typedbatch.posttraining.records import Ids, Mask, Objects, PerToken, Row
from typedbatch.protocols import BatchProtocol


class SequenceProtocol(BatchProtocol, Protocol):
    """What a forward pass over prompts and responses reads: for log-probabilities, values, a reward model."""

    @property
    def prompt_ids(self) -> Int[Tensor, "N P"]:
        """Tokens of the prompts, padded on the left."""
        ...

    @property
    def prompt_mask(self) -> Bool[Tensor, "N P"]:
        """True where there is a token."""
        ...

    @property
    def response_ids(self) -> Ids:
        """Tokens of the responses, padded on the right."""
        ...

    @property
    def response_mask(self) -> Mask:
        """True where there is a token."""
        ...


class RewardProtocol(BatchProtocol, Protocol):
    """What advantages over groups of samples are made of."""

    @property
    def rewards(self) -> Row:
        """The reward of each sample."""
        ...

    @property
    def uid(self) -> Objects:
        """The prompt that a row is a sample of."""
        ...

    @property
    def loss_mask(self) -> Mask:
        """True where a token counts in the loss."""
        ...


class PolicyLossProtocol(BatchProtocol, Protocol):
    """What the losses of PPO, GRPO, RLOO, REINFORCE++, DAPO, GSPO and CISPO read, beside new log-probabilities."""

    @property
    def old_logp(self) -> PerToken:
        """Log-probability of each token by the trainer's weights before the first update."""
        ...

    @property
    def advantages(self) -> PerToken:
        """Of each token."""
        ...

    @property
    def loss_mask(self) -> Mask:
        """True where a token counts in the loss."""
        ...


class ReferenceProtocol(PolicyLossProtocol, Protocol):
    """The same with a penalty for the distance to a reference model."""

    @property
    def ref_logp(self) -> PerToken:
        """Log-probability of each token by the reference model."""
        ...


class ValueLossProtocol(BatchProtocol, Protocol):
    """What a critic's loss reads, beside new values."""

    @property
    def values(self) -> PerToken:
        """What the critic said."""
        ...

    @property
    def returns(self) -> PerToken:
        """What it is to say."""
        ...

    @property
    def loss_mask(self) -> Mask:
        """True where a token counts in the loss."""
        ...
