"""GSPO in the manner of verl: one ratio per sequence, the geometric mean of those of its tokens, in shuffled mini-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from typedbatch import BatchRecord, checked, extend

PAD, EOS, VOCAB = 0, 1, 12
N, CLIP_LOW, CLIP_HIGH = 6, 0.08, 0.1


class Generated(BatchRecord):
    prompts: Int[Tensor, "N P"]
    responses: Int[Tensor, "N R"]
    prompt_mask: Bool[Tensor, "N P"]
    response_mask: Bool[Tensor, "N R"]
    group: Int[Tensor, "N"]


class ActorBatch(Generated):
    token_level_scores: Float[Tensor, "N R"]
    old_log_probs: Float[Tensor, "N R"]
    advantages: Float[Tensor, "N R"]


class Actor(nn.Module):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(VOCAB, width), nn.GRUCell(width, width), nn.Linear(width, VOCAB)

    def advance(self, state: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask[:, None], self.cell(self.embed(ids), state), state)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = [torch.zeros(len(ids), self.cell.hidden_size)]
        for t in range(ids.shape[1]):
            states.append(self.advance(states[-1], ids[:, t], mask[:, t]))
        logits: Tensor = self.head(torch.stack(states[1:], 1))
        return logits

    def log_probs(self, batch: Generated) -> Float[Tensor, "N R"]:
        width = batch.prompts.shape[1]
        logits = self(torch.cat([batch.prompts, batch.responses], 1), torch.cat([batch.prompt_mask, batch.response_mask], 1))
        picked = logits[:, width - 1 : -1].log_softmax(-1).gather(-1, batch.responses.unsqueeze(-1))
        return picked.squeeze(-1)


@torch.no_grad()
def generate(actor: Actor, prompts: Tensor, mask: Tensor, max_tokens: int = 9) -> Generated:
    group = torch.arange(len(prompts)).repeat_interleave(N)
    prompts, mask = prompts.repeat_interleave(N, 0), mask.repeat_interleave(N, 0)
    state = torch.zeros(len(prompts), actor.cell.hidden_size)
    for t in range(prompts.shape[1]):
        state = actor.advance(state, prompts[:, t], mask[:, t])
    alive, tokens, masks = torch.ones(len(prompts), dtype=torch.bool), [], []
    for _ in range(max_tokens):
        tokens.append(torch.multinomial(actor.head(state).softmax(-1), 1)[:, 0].masked_fill(~alive, PAD))
        masks.append(alive)
        state = actor.advance(state, tokens[-1], alive)
        alive = alive & (tokens[-1] != EOS)
    responses, response_mask = torch.stack(tokens, 1), torch.stack(masks, 1)
    return Generated(prompts=prompts, prompt_mask=mask, responses=responses, response_mask=response_mask, group=group)


def outcome_scores(batch: Generated) -> Float[Tensor, "N R"]:
    """At the last token of a response: the share of tokens that are congruent to the prompt's last one modulo 3."""
    hits = (batch.responses % 3 == batch.prompts[:, -1:] % 3) & batch.response_mask & (batch.responses > EOS)
    length = batch.response_mask.sum(1)
    return F.one_hot(length - 1, batch.responses.shape[1]) * (hits.sum(1) / length)[:, None]


@checked
def grpo_advantage(scores: Float[Tensor, "N R"], group: Int[Tensor, "N"], mask: Bool[Tensor, "N R"]) -> Float[Tensor, "N R"]:
    outcome = scores.sum(-1)
    advantages = torch.zeros_like(outcome)
    for index in group.unique():
        mine = outcome[group == index]
        advantages[group == index] = (mine - mine.mean()) / (mine.std() + 1e-4)
    return advantages[:, None] * mask


def compute_policy_loss_gspo(old_log_probs: Tensor, log_probs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """The mean over sequences, each of which has one ratio; gradients flow into its tokens alike."""
    log_ratio = log_probs - old_log_probs
    ratio = ((log_ratio * mask).sum(-1) / mask.sum(-1)).exp()
    per_sequence = advantages.sum(-1) / mask.sum(-1)
    losses = torch.max(-per_sequence * ratio, -per_sequence * ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH))
    return losses.mean()


def setup(seed: int = 0) -> tuple[Callable[..., dict[str, float]], Callable[[], tuple[Any, ...]]]:
    torch.manual_seed(seed)
    actor = Actor()
    optimizer = torch.optim.AdamW(actor.parameters(), 5e-3)

    def update(batch: ActorBatch) -> dict[str, float]:
        losses = []
        for mini in batch.split(18, rng=torch.default_generator):
            loss = compute_policy_loss_gspo(mini.old_log_probs, actor.log_probs(mini), mini.advantages, mini.response_mask)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return {"pg_loss": sum(losses) / len(losses), "score": batch.token_level_scores.sum(-1).mean().item()}

    def draw() -> tuple[ActorBatch]:
        mask = torch.arange(4) >= torch.randint(4, (6, 1))
        batch = generate(actor, torch.randint(2, VOCAB, mask.shape).masked_fill(~mask, PAD), mask)
        scores = outcome_scores(batch)
        with torch.no_grad():
            old_log_probs = actor.log_probs(batch)
        advantages = grpo_advantage(scores, batch.group, batch.response_mask)
        return (extend(batch, ActorBatch, token_level_scores=scores, old_log_probs=old_log_probs, advantages=advantages),)

    return update, draw
