"""What a post-training pipeline makes, stage by stage: prompts, rollouts, scored rollouts, batches ready for a loss.

N rows, P tokens of prompts, padded on the left, R tokens of responses, padded on the right: ``[:, t]`` of every field
``(N, R)`` is of ``response_ids[:, t]``. :func:`~typedbatch.posttraining.to_layout` makes other layouts of it.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Ge
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from typedbatch.records import BatchRecord
from typedbatch.rules import Finite

Objects: TypeAlias = NDArray[np.object_]
Row: TypeAlias = Float[Tensor, "N"]
Ids: TypeAlias = Int[Tensor, "N R"]
Mask: TypeAlias = Bool[Tensor, "N R"]
PerToken: TypeAlias = Annotated[Float[Tensor, "N R"], Finite]


class Prompts(BatchRecord):
    """What the sampler is asked."""

    prompt_ids: Int[Tensor, "N P"]
    """Tokens of the prompts, padded on the left."""
    prompt_mask: Bool[Tensor, "N P"]
    """True where there is a token."""
    uid: Objects
    """The prompt that a row is a sample of, as text or a number. Rows of one ``uid`` are the group of GRPO and RLOO."""


class Rollouts(Prompts):
    """What came back from the sampler."""

    response_ids: Ids
    """Tokens of the responses, padded on the right; those of tools and environments are among them."""
    response_mask: Mask
    """True where there is a token."""
    loss_mask: Mask
    """True where a token counts in the loss, as it was sampled by the policy, and is not a tool's answer."""
    rollout_logp: PerToken | None = None
    """Log-probability of each token by the sampler that drew it, in nats."""
    response_length: Int[Tensor, "N"] | None = None
    """Tokens of each response."""
    truncated: Bool[Tensor, "N"] | None = None
    """True where the sampler stopped for the length."""
    policy_step: Int[Tensor, "N"] | None = None
    """The version of the weights that sampled the row."""


class Scored(Rollouts):
    """Rollouts with rewards."""

    rewards: Annotated[Row, Finite]
    """The reward of each sample."""


class Ready(Scored):
    """All that a policy-gradient loss may read."""

    old_logp: PerToken
    """Log-probability of each token by the trainer's weights before the first update, in nats."""
    advantages: PerToken
    """Of each token; where it is one number a sample, that number at each of its tokens."""
    ref_logp: PerToken | None = None
    """Log-probability of each token by the reference model, in nats."""
    values: PerToken | None = None
    """What the critic says."""
    returns: PerToken | None = None
    """What the critic is to say."""
    is_weights: Annotated[Float[Tensor, "N R"], Ge(0)] | None = None
    """Importance weight of each token, for samples of older weights or of another engine."""


class Pairs(BatchRecord):
    """A better and a worse response to each prompt, for DPO and reward models; each side is padded by itself."""

    prompt_ids: Int[Tensor, "N P"]
    """Tokens of the prompts, padded on the left."""
    prompt_mask: Bool[Tensor, "N P"]
    """True where there is a token."""
    chosen_ids: Int[Tensor, "N C"]
    """Tokens of the better responses, padded on the right."""
    chosen_mask: Bool[Tensor, "N C"]
    """True where there is a token."""
    rejected_ids: Int[Tensor, "N D"]
    """Tokens of the worse responses, padded on the right."""
    rejected_mask: Bool[Tensor, "N D"]
    """True where there is a token."""
    ref_chosen_logp: Row | None = None
    """Log-probability of the whole better response by the reference model, in nats."""
    ref_rejected_logp: Row | None = None
    """Log-probability of the whole worse response by the reference model, in nats."""


class Distillation(Rollouts):
    """Rollouts with what a teacher says of each token."""

    teacher_ids: Int[Tensor, "N R K"]
    """The K tokens that the teacher finds most likely."""
    teacher_logp: Float[Tensor, "N R K"]
    """Their log-probabilities, in nats."""
