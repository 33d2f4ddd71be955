"""Protocols of the fields that each stage of post-training reads.

Few of them inherit from each other, because the stages after a rollout come in any order. Shapes are those of
``typedbatch.posttraining.records``: ``[:, t]`` of every field ``(N, R)`` belongs to ``response_ids[:, t]``.
"""

from __future__ import annotations

from typing import Annotated, Protocol, TypeAlias

from jaxtyping import Bool, Float, Int
from torch import Tensor

from typedbatch._markers import NoGradient
from typedbatch.posttraining.records import FixedPerToken, Ids, Mask, Objects, PerToken, Row
from typedbatch.protocols import BatchProtocol
from typedbatch.rules import Finite

PackedPerToken: TypeAlias = Annotated[Float[Tensor, "tokens"], Finite, NoGradient]
PackedValues: TypeAlias = Annotated[Float[Tensor, "tokens"], Finite]
FixedRow: TypeAlias = Annotated[Row, Finite, NoGradient]


class SequenceProtocol(BatchProtocol, Protocol):
    """Inputs of a forward pass over prompts and responses, for log-probabilities, values or a reward model."""

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
    """Fields from which advantages over groups of samples are computed."""

    @property
    def rewards(self) -> Row:
        """Reward of each sample."""
        ...

    @property
    def uid(self) -> Objects:
        """Identifier of the prompt that the row is a sample for."""
        ...

    @property
    def loss_mask(self) -> Mask:
        """True where a token counts in the loss."""
        ...


class PolicyLossProtocol(BatchProtocol, Protocol):
    """Fields that the losses of PPO, GRPO, RLOO, REINFORCE++, DAPO, GSPO and CISPO read.

    The new log-probabilities, which these losses need as well, come from the model.
    """

    @property
    def old_logp(self) -> FixedPerToken:
        """Log-probability of each token under the trainer's weights before the first update."""
        ...

    @property
    def advantages(self) -> FixedPerToken:
        """Advantage of each token."""
        ...

    @property
    def loss_mask(self) -> Mask:
        """True where a token counts in the loss."""
        ...


class ReferenceProtocol(PolicyLossProtocol, Protocol):
    """Fields of a policy loss with a penalty for the distance to a reference model."""

    @property
    def ref_logp(self) -> FixedPerToken:
        """Log-probability of each token under the reference model."""
        ...


class ValueLossProtocol(BatchProtocol, Protocol):
    """Fields that a critic's loss reads, besides the new values."""

    @property
    def values(self) -> PerToken:
        """Predicted value at each token."""
        ...

    @property
    def returns(self) -> FixedPerToken:
        """Value target at each token."""
        ...

    @property
    def loss_mask(self) -> Mask:
        """True where a token counts in the loss."""
        ...


class PackedSequenceProtocol(BatchProtocol, Protocol):
    """Inputs of a forward pass over the layout ``packed``."""

    @property
    def input_ids(self) -> Int[Tensor, "tokens"]:
        """Tokens of prompts and responses."""
        ...

    @property
    def position_ids(self) -> Int[Tensor, "tokens"]:
        """Position of each token in its sequence, from 0."""
        ...

    @property
    def response_mask(self) -> Bool[Tensor, "tokens"]:
        """True for tokens of the response."""
        ...

    @property
    def cu_seqlens(self) -> Int[Tensor, "ends"]:
        """Start of each sequence, and the number of tokens at the end."""
        ...


class PackedLossProtocol(PackedSequenceProtocol, Protocol):
    """Fields that a policy loss over the layout ``packed`` reads, those of its forward pass included."""

    @property
    def old_logp(self) -> PackedPerToken:
        """Log-probability of each token under the trainer's weights before the first update."""
        ...

    @property
    def advantages(self) -> PackedPerToken:
        """Advantage of each token."""
        ...

    @property
    def loss_mask(self) -> Bool[Tensor, "tokens"]:
        """True where a token counts in the loss."""
        ...


class PackedValueProtocol(PackedSequenceProtocol, Protocol):
    """Fields that a critic's loss over the layout ``packed`` reads, those of its forward pass included."""

    @property
    def values(self) -> PackedValues:
        """Predicted value at each token."""
        ...

    @property
    def returns(self) -> PackedPerToken:
        """Value target at each token."""
        ...

    @property
    def loss_mask(self) -> Bool[Tensor, "tokens"]:
        """True where a token counts in the loss."""
        ...


class PairLossProtocol(BatchProtocol, Protocol):
    """Fields that the loss of DPO reads, besides the log-probabilities under the model."""

    @property
    def chosen_mask(self) -> Bool[Tensor, "N C"]:
        """True where there is a token of the better response."""
        ...

    @property
    def rejected_mask(self) -> Bool[Tensor, "N D"]:
        """True where there is a token of the worse response."""
        ...

    @property
    def ref_chosen_logp(self) -> FixedRow:
        """Log-probability of the whole better response under the reference model."""
        ...

    @property
    def ref_rejected_logp(self) -> FixedRow:
        """Log-probability of the whole worse response under the reference model."""
        ...
