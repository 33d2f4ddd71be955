"""Layouts of rollouts: the token that ``[t]`` of a field belongs to, and a record for each layout.

========== ======================================================== ================================= ==================
layout     ids                                                      fields of tokens                  also used by
========== ======================================================== ================================= ==================
``split``  ``prompt_ids`` (N, P) padded on the left,                (N, R): ``[:, t]`` belongs to     verl's DataProto,
           ``response_ids`` (N, R) padded on the right              ``response_ids[:, t]``            TRL
``left``   ``input_ids`` (N, T) padded on the left                  (N, R), padded on the left:       SkyRL
                                                                    ``[:, -1]`` is the last token's
``right``  ``input_ids`` (N, T) padded on the right                 (N, T): ``[:, t]`` belongs to     NeMo-RL, AReaL
                                                                    ``input_ids[:, t]``
``ragged`` ``tokens.values.input_ids``, end to end                  in ``tokens`` as well             slime, verl v1
``packed`` ``input_ids`` (tokens,), end to end, and ``cu_seqlens``  (tokens,)                         prime-rl
========== ======================================================== ================================= ==================

The last three have values at the tokens of prompts as well. These are 0 (False) after a conversion from one of the
first two. Padded positions are 0 in fields of tokens, and ``pad_token_id`` in ids.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from typedbatch.ragged import Ragged
from typedbatch.records import BatchRecord


class Tokens(BatchRecord):
    """Tokens of several samples end to end: prompt and response of the first, then of the second, and so on."""

    input_ids: Int[Tensor, "tokens"]
    """Tokens of prompts and responses."""
    response_mask: Bool[Tensor, "tokens"]
    """True for tokens of the response."""
    loss_mask: Bool[Tensor, "tokens"] | None = None
    """True where a token counts in the loss."""
    rollout_logp: Float[Tensor, "tokens"] | None = None
    """Log-probability under the sampler."""
    old_logp: Float[Tensor, "tokens"] | None = None
    """Log-probability under the trainer's weights before the first update."""
    ref_logp: Float[Tensor, "tokens"] | None = None
    """Log-probability under the reference model."""
    advantages: Float[Tensor, "tokens"] | None = None
    """Advantage of each token."""
    values: Float[Tensor, "tokens"] | None = None
    """Predicted values."""
    returns: Float[Tensor, "tokens"] | None = None
    """Value targets."""
    is_weights: Float[Tensor, "tokens"] | None = None
    """Importance weights."""


class RaggedRollouts(BatchRecord):
    """Rollouts whose rows are whole sequences, which are indexed, split and joined without padding."""

    tokens: Ragged[Tokens]
    """All tokens, and the number of tokens of each sample."""


class PackedRollouts(Tokens):
    """Rollouts end to end, for attention kernels with variable lengths. They cannot be indexed by row."""

    position_ids: Int[Tensor, "tokens"]
    """Position of each token in its sequence, from 0."""
    cu_seqlens: Int[Tensor, "N+1"]
    """Start of each sequence, and the number of tokens at the end. int32, as FlashAttention requires."""


class LeftPadded(BatchRecord):
    """Rollouts as a block of whole sequences that end at the right edge."""

    input_ids: Int[Tensor, "N T"]
    """Tokens of prompts and responses, padded on the left."""
    attention_mask: Bool[Tensor, "N T"]
    """True where there is a token."""
    response_mask: Bool[Tensor, "N R"]
    """True where there is a token of the response. The last True of a row is its last token."""
    loss_mask: Bool[Tensor, "N R"] | None = None
    """True where a token counts in the loss."""
    rollout_logp: Float[Tensor, "N R"] | None = None
    """Log-probability under the sampler."""
    old_logp: Float[Tensor, "N R"] | None = None
    """Log-probability under the trainer's weights before the first update."""
    ref_logp: Float[Tensor, "N R"] | None = None
    """Log-probability under the reference model."""
    advantages: Float[Tensor, "N R"] | None = None
    """Advantage of each token."""
    values: Float[Tensor, "N R"] | None = None
    """Predicted values."""
    returns: Float[Tensor, "N R"] | None = None
    """Value targets."""
    is_weights: Float[Tensor, "N R"] | None = None
    """Importance weights."""


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
    """Log-probability under the sampler."""
    old_logp: Float[Tensor, "N T"] | None = None
    """Log-probability under the trainer's weights before the first update."""
    ref_logp: Float[Tensor, "N T"] | None = None
    """Log-probability under the reference model."""
    advantages: Float[Tensor, "N T"] | None = None
    """Advantage of each token."""
    values: Float[Tensor, "N T"] | None = None
    """Predicted values."""
    returns: Float[Tensor, "N T"] | None = None
    """Value targets."""
    is_weights: Float[Tensor, "N T"] | None = None
    """Importance weights."""
