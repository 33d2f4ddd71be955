"""Stages of the pipeline, each with the fields that it adds, and what the losses read of them."""

from __future__ import annotations

from typing import Protocol, TypedDict

from jaxtyping import Int
from torch import Tensor
from typing_extensions import override

from typedbatch.posttraining import (
    HasRolloutLogp,
    PackedLossProtocol,
    PolicyLossProtocol,
    Prompts,
    Ready,
    Scored,
    SequenceProtocol,
    logp_close,
    same_in_groups,
    sampled_by,
)
from typedbatch.rules import groups_centered, groups_ordered


class Sampling(TypedDict):
    """The settings that all rows of a batch share."""

    step: int
    temperature: float


class Questions(Prompts):
    """Prompts with the answers that are expected."""

    answers: Int[Tensor, "N"]
    """Token of the right answer."""
    meta: Sampling

    one_answer = same_in_groups("answers")


class Sampled(HasRolloutLogp, Questions):
    """Responses of the policy, with the output of the tool in between."""

    calls: Int[Tensor, "N"]
    """Number of times that the policy called the tool."""

    on_policy = sampled_by("step")


class Graded(Scored, Sampled):
    """Responses with rewards."""


class Learnable(Ready, Graded):
    """Graded responses with all that the losses read."""

    centered = groups_centered("advantages", "uid", mask="loss_mask")
    ordered = groups_ordered("advantages", "rewards", "uid", mask="loss_mask")
    # The sampler and the trainer are one program, so that nothing but rounding is between their log-probabilities.
    logp_is_close = logp_close("old_logp", "rollout_logp", tolerance=1e-3)


class LossInputs(SequenceProtocol, PolicyLossProtocol, Protocol):
    """Fields that the loss reads of padded rows."""

    @property
    @override
    def meta(self) -> Sampling: ...


class PackedLossInputs(PackedLossProtocol, Protocol):
    """Fields that the loss reads of rows end to end, without padding."""

    @property
    @override
    def meta(self) -> Sampling: ...
