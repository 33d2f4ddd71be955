"""Stages of the pipeline, each with the fields that it adds, and the protocols of the losses."""

from __future__ import annotations

from typing import Protocol, TypedDict

from jaxtyping import Float, Int
from torch import Tensor

from typedbatch.posttraining import (
    HasIsWeights,
    HasPolicyStep,
    HasRolloutLogp,
    HasValues,
    PackedLossProtocol,
    PackedValueProtocol,
    PolicyLossProtocol,
    Prompts,
    SequenceProtocol,
    ValueLossProtocol,
    logp_close,
    sampled_by,
)

LAG = 1
"""Number of updates between the weights that sample a batch and those that learn from it."""


class Sampling(TypedDict):
    """The settings that all rows of a batch share."""

    step: int
    temperature: float


class Games(Prompts):
    """Games that begin."""

    hidden: Int[Tensor, "N"]
    """Number that the policy has to find."""
    meta: Sampling


class Played(HasPolicyStep, HasRolloutLogp, Games):
    """Games that were played, whose tokens are those of the policy and those of the game in turn."""

    turns: Int[Tensor, "N R"]
    """Number of the turn that each token belongs to."""
    turn_rewards: Float[Tensor, "N R"]
    """Reward of each turn, at the last token of the policy in it."""

    on_time = sampled_by("step", lag=LAG)


class Learnable(HasIsWeights, HasValues, Played):
    """Played games with all that the losses read."""

    # The sampler and the trainer are one program: with the same weights, nothing but rounding is between them.
    logp_is_close = logp_close("old_logp", "rollout_logp", tolerance=1e-3, stale=1.0)


class LossInputs(SequenceProtocol, PolicyLossProtocol, ValueLossProtocol, Protocol):
    """Fields that the loss reads of padded games."""

    @property
    def is_weights(self) -> Float[Tensor, "N R"]:
        """Weight of each token, as it was sampled by older weights."""
        ...


class PackedLossInputs(PackedLossProtocol, PackedValueProtocol, Protocol):
    """Fields that the loss reads of games end to end, without padding."""

    @property
    def is_weights(self) -> Float[Tensor, "tokens"]:
        """Weight of each token, as it was sampled by older weights."""
        ...
