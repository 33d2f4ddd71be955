"""RLOO with one ratio per sequence and the KL divergence from the reference in the reward, over the stages of typedbatch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from typedbatch import checked, extend, objects
from typedbatch.posttraining import HasRefLogp, Prompts, Rollouts, Scored, SequenceProtocol
from typedbatch.rows import groups, repeat

PAD, EOS, VOCAB = 0, 1, 18
PROMPTS, K, KL_COEF, CLIP = 6, 4, 0.05, 0.2


class PolicyModel(nn.Module):
    def __init__(self, width: int = 32, longest: int = 16) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(VOCAB, width), nn.Embedding(longest, width)
        self.norm, self.query, self.key, self.value = nn.LayerNorm(width), *(nn.Linear(width, width) for _ in range(3))
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.lm_head = nn.Linear(width, VOCAB)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        size = ids.shape[1]
        allowed = torch.ones(size, size).tril().bool() & mask[:, None] | torch.eye(size).bool()
        x = self.token(ids) + self.position((mask.long().cumsum(1) - 1).clamp(min=0))
        y = self.norm(x)
        scores = self.query(y) @ self.key(y).transpose(1, 2) / y.shape[-1] ** 0.5
        x = x + scores.masked_fill(~allowed, -1e9).softmax(-1) @ self.value(y)
        logits: Tensor = self.lm_head(x + self.mlp(x))
        return logits


def token_logp(model: PolicyModel, batch: SequenceProtocol) -> Float[Tensor, "N R"]:
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    logits = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return logits.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


@torch.no_grad()
def rollout(policy: PolicyModel, prompts: Prompts, budget: int = 8) -> Rollouts:
    ids, mask, width = prompts.prompt_ids, prompts.prompt_mask, prompts.prompt_ids.shape[1]
    going = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(budget):
        token = torch.multinomial(policy(ids, mask)[:, -1].softmax(-1), 1)[:, 0].where(going, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, going[:, None]], 1)
        going = going & (token != EOS)
    there = mask[:, width:]
    return extend(prompts, Rollouts, response_ids=ids[:, width:], response_mask=there, loss_mask=there, truncated=going)


@checked
def score(rollouts: Rollouts) -> Scored:
    """The share of tokens that occur in the prompt, and something for an end."""
    found = rollouts.response_ids[:, :, None] == rollouts.prompt_ids[:, None].where(rollouts.prompt_mask[:, None], -1)
    hits = (found.any(2) & rollouts.response_mask).sum(1) / rollouts.response_mask.sum(1)
    ended = ((rollouts.response_ids == EOS) & rollouts.response_mask).any(1)
    return extend(rollouts, Scored, rewards=2 * hits + 0.5 * ended)


def penalised_rewards(scores: Float[Tensor, "N"], logp: Float[Tensor, "N R"], ref_logp: Float[Tensor, "N R"]) -> Tensor:
    """The score of each response less the estimate of its KL divergence from the reference; both are 0 at padding."""
    kl = logp - ref_logp
    return scores - KL_COEF * kl.sum(1)


@torch.no_grad()
def prepare(policy: PolicyModel, reference: PolicyModel, scored: Scored) -> HasRefLogp:
    old_logp, ref_logp = token_logp(policy, scored), token_logp(reference, scored)
    rewards = penalised_rewards(scored.rewards, old_logp, ref_logp)
    advantages = rewards - groups(scored, "uid", size=K).leave_one_out(rewards)
    return extend(
        scored, HasRefLogp, old_logp=old_logp, ref_logp=ref_logp, advantages=advantages[:, None] * scored.loss_mask
    )


def rloo_loss(policy: PolicyModel, batch: HasRefLogp) -> Tensor:
    """A sequence has one action, the whole response."""
    ratio = (token_logp(policy, batch) - batch.old_logp).sum(1).exp()
    advantages = batch.advantages[:, 0]
    return -torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages).mean()


def draw_prompts() -> Prompts:
    mask = torch.arange(4) >= torch.randint(4, (PROMPTS, 1))
    ids = torch.randint(2, VOCAB, mask.shape).where(mask, PAD)
    return repeat(Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(range(PROMPTS))), K)


def make_models() -> tuple[PolicyModel, PolicyModel]:
    """The policy, which has been trained for a while, and the model that it began as."""
    reference = PolicyModel()
    policy = copy.deepcopy(reference)
    with torch.no_grad():
        for weights in policy.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.03)
    return policy, reference.requires_grad_(False)


def setup(seed: int = 0) -> tuple[Callable[..., dict[str, float]], Callable[[], tuple[Any, ...]]]:
    torch.manual_seed(seed)
    policy, reference = make_models()
    optimizer = torch.optim.Adam(policy.parameters(), 2e-3)

    def update(batch: HasRefLogp) -> dict[str, float]:
        for _ in range(2):
            loss = rloo_loss(policy, batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
        kl = (batch.old_logp - batch.ref_logp).sum(1).mean()
        return {"loss": loss.item(), "kl": kl.item(), "reward": batch.rewards.mean().item()}

    return update, lambda: (prepare(policy, reference, score(rollout(policy, draw_prompts()))),)
