"""Layouts of rollouts: to which token ``[t]`` of a field belongs in each.

========== ======================================================== ================================= ==================
layout     ids                                                      fields of tokens                  as in
========== ======================================================== ================================= ==================
``split``  ``prompt_ids`` (N, P) padded on the left,                (N, R): ``[:, t]`` is of          verl's DataProto,
           ``response_ids`` (N, R) padded on the right              ``response_ids[:, t]``            TRL
``left``   ``input_ids`` (N, T) padded on the left                  (N, R), padded on the left:       SkyRL
                                                                    ``[:, -1]`` is of the last token
``right``  ``input_ids`` (N, T) padded on the right                 (N, T): ``[:, t]`` is of          NeMo-RL, AReaL
                                                                    ``input_ids[:, t]``
``ragged`` ``tokens.values.input_ids``, end to end                  in ``tokens``, too                slime, verl v1
``packed`` ``input_ids`` (tokens,), end to end, and ``cu_seqlens``  (tokens,)                         prime-rl
========== ======================================================== ================================= ==================

The last three have values for prompts as well; what comes from the first two is 0 (False) there. In the first two a
padded place is 0, in all of them padded ids are ``pad_token_id``.
"""

from __future__ import annotations

from typing import Final

from jaxtyping import Bool, Float, Int
from torch import Tensor

from typedbatch.ragged import Ragged
from typedbatch.records import BatchRecord

PER_TOKEN: Final = (
    "response_mask",
    "loss_mask",
    "rollout_logp",
    "old_logp",
    "ref_logp",
    "advantages",
    "values",
    "returns",
    "is_weights",
    "token_rewards",
    "teacher_ids",
    "teacher_logp",
)
"""Fields with a value for each token."""


class Tokens(BatchRecord):
    """Tokens of several samples, end to end: prompt and response of the first, then of the second, and so on."""

    input_ids: Int[Tensor, "tokens"]
    """The tokens."""
    response_mask: Bool[Tensor, "tokens"]
    """True for tokens of the response."""
    loss_mask: Bool[Tensor, "tokens"] | None = None
    """True where a token counts in the loss."""
    rollout_logp: Float[Tensor, "tokens"] | None = None
    """Log-probability by the sampler."""
    old_logp: Float[Tensor, "tokens"] | None = None
    """Log-probability by the trainer's weights before the first update."""
    ref_logp: Float[Tensor, "tokens"] | None = None
    """Log-probability by the reference model."""
    advantages: Float[Tensor, "tokens"] | None = None
    """Of each token."""
    values: Float[Tensor, "tokens"] | None = None
    """What the critic says."""
    returns: Float[Tensor, "tokens"] | None = None
    """What it is to say."""


class RaggedRollouts(BatchRecord):
    """Rollouts whose rows are whole sequences: they are indexed, split and joined without padding."""

    tokens: Ragged[Tokens]
    """All tokens, and how many each sample has."""


class PackedRollouts(Tokens):
    """Rollouts end to end, as attention kernels for variable lengths take them. Rows cannot be taken of it."""

    position_ids: Int[Tensor, "tokens"]
    """The place of each token in its sequence, from 0."""
    cu_seqlens: Int[Tensor, "N+1"]
    """Where each sequence begins, and the number of tokens at the end; int32, as FlashAttention takes it."""


class LeftPadded(BatchRecord):
    """Rollouts as a block of whole sequences that end at the right edge."""

    input_ids: Int[Tensor, "N T"]
    """Tokens of prompts and responses, padded on the left."""
    attention_mask: Bool[Tensor, "N T"]
    """True where there is a token."""
    response_mask: Bool[Tensor, "N R"]
    """True where there is a token of the response; the last of a row is its last token."""
    loss_mask: Bool[Tensor, "N R"] | None = None
    """True where a token counts in the loss."""
    rollout_logp: Float[Tensor, "N R"] | None = None
    """Log-probability by the sampler."""
    old_logp: Float[Tensor, "N R"] | None = None
    """Log-probability by the trainer's weights before the first update."""
    ref_logp: Float[Tensor, "N R"] | None = None
    """Log-probability by the reference model."""
    advantages: Float[Tensor, "N R"] | None = None
    """Of each token."""
    values: Float[Tensor, "N R"] | None = None
    """What the critic says."""
    returns: Float[Tensor, "N R"] | None = None
    """What it is to say."""


class RightPadded(BatchRecord):
    """Rollouts as a block of whole sequences that begin at the left edge."""

    input_ids: Int[Tensor, "N T"]
    """Tokens of prompts and responses, padded on the right."""
    attention_mask: Bool[Tensor, "N T"]
    """True where there is a token."""
    response_mask: Bool[Tensor, "N T"]
    """True for tokens of the response."""
    loss_mask: Bool[Tensor, "N T"] | None = None
    """True where a token counts in the loss."""
    rollout_logp: Float[Tensor, "N T"] | None = None
    """Log-probability by the sampler."""
    old_logp: Float[Tensor, "N T"] | None = None
    """Log-probability by the trainer's weights before the first update."""
    ref_logp: Float[Tensor, "N T"] | None = None
    """Log-probability by the reference model."""
    advantages: Float[Tensor, "N T"] | None = None
    """Of each token."""
    values: Float[Tensor, "N T"] | None = None
    """What the critic says."""
    returns: Float[Tensor, "N T"] | None = None
    """What it is to say."""
