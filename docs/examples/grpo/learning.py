"""The loss of GRPO (arXiv:2402.03300) and its gradients, for padded rows and for rows end to end."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from advantages import group_advantages
from model import Model
from records import Graded, Learnable, LossInputs, PackedLossInputs
from typedbatch import checked, extend, validate
from typedbatch.posttraining import aggregate, map_tokens, micro_batches, to_layout, token_logp

EPOCHS, CLIP, LEARNING_RATE, MOST_TOKENS = 2, 0.2, 3e-3, 512


@checked(level="values")
@torch.no_grad()
def prepare(model: Model, graded: Graded) -> Learnable:
    """Add the log-probabilities before the first update, and the advantages."""
    old_logp = map_tokens(graded, MOST_TOKENS, lambda part: token_logp(model, part))
    return extend(graded, Learnable, old_logp=old_logp, advantages=group_advantages(graded))


def token_losses(logp: Tensor, old_logp: Tensor, advantages: Tensor) -> Tensor:
    """Return the clipped loss of each token."""
    ratio = (logp - old_logp).exp()
    return -torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)


def padded_loss(model: Model, batch: LossInputs, total: int) -> Tensor:
    """Return the loss of padded rows, as a part of ``total`` rows."""
    losses = token_losses(token_logp(model, batch), batch.old_logp, batch.advantages)
    return aggregate(losses, batch.loss_mask, "sequence", total=total)


def packed_loss(model: Model, batch: PackedLossInputs, total: int) -> Tensor:
    """Return the loss of rows end to end, as a part of ``total`` rows."""
    losses = token_losses(token_logp(model, batch), batch.old_logp, batch.advantages)
    return aggregate(losses, batch.loss_mask, "sequence", total=total, lengths=batch.cu_seqlens.diff())


def add_gradients(model: Model, batch: Learnable, total: int, *, packed: bool = False) -> None:
    """Add the gradients of a batch that is a part of ``total`` rows, a few tokens at a time."""
    for part in micro_batches(batch, MOST_TOKENS):
        if packed:
            loss = packed_loss(model, validate(to_layout(part.batch, "packed"), PackedLossInputs), total)
        else:
            loss = padded_loss(model, part.batch, total)
        torch.autograd.backward(loss)


def make_optimizer(model: Model) -> torch.optim.Optimizer:
    """Return the optimizer of a model."""
    return torch.optim.Adam(model.parameters(), LEARNING_RATE)


def step(model: Model, optimizer: torch.optim.Optimizer) -> None:
    """Change the weights by the gradients, and set these to zero."""
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
