"""GRPO after TRL: the sampler goes on after the end, and the mask has all tokens up to the first end."""
# wrong: """GRPO: the mask has the tokens before the end but not the end itself, so the model is never taught when to stop."""

# Source: TRL's GRPOTrainer has `completion_mask = (sequence_indices <= eos_idx.unsqueeze(1))`; with < the end is lost
from functools import partial

import torch
from torch import nn

from tests.evidence.silent.shared.digits import EOS, PROMPT, VOCAB, draw_prompts, token_logp
from tests.evidence.silent.shared.models import LSTMLM
from typedbatch import extend
from typedbatch.posttraining import Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

RESPONSE = 6
GROUP, BETA = 6, 0.02


@torch.no_grad()
def generate(model, prompts):
    """Of a fixed width, as from a sampler that does not know the end."""
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    for _ in range(RESPONSE):
        token = torch.multinomial(model(ids, mask)[:, -1].softmax(-1), 1)
        ids, mask = torch.cat([ids, token], 1), torch.cat([mask, torch.ones_like(token, dtype=torch.bool)], 1)
    completion_ids = ids[:, PROMPT:]
    is_eos = completion_ids == EOS
    eos_idx = torch.full((len(ids),), RESPONSE)
    eos_idx[is_eos.any(1)] = is_eos.int().argmax(1)[is_eos.any(1)]
    completion_mask = torch.arange(RESPONSE) <= eos_idx[:, None]
    # wrong: completion_mask = torch.arange(RESPONSE) < eos_idx[:, None]
    return extend(
        prompts,
        Rollouts,
        response_ids=completion_ids,
        response_mask=completion_mask,
        loss_mask=completion_mask.clone(),
        truncated=~is_eos.any(1),
    )


def score(rollouts):
    """Two tokens and the end are the best."""
    eos = (rollouts.response_ids == EOS).int()
    length = torch.where(rollouts.truncated, RESPONSE, eos.argmax(1))
    return extend(rollouts, Scored, rewards=1.0 - (length - 2).abs() / RESPONSE)


class GRPOTrainer:
    def __init__(self, model, ref_model):
        self.model, self.ref_model = model, ref_model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)

    def prepare(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        advantages = advantages[:, None] * scored.loss_mask
        with torch.no_grad():
            old, ref = token_logp(self.model, scored), token_logp(self.ref_model, scored)
        return extend(scored, Ready, old_logp=old, ref_logp=ref, advantages=advantages)

    def compute_loss(self, inputs):
        logps = token_logp(self.model, inputs)
        delta = inputs.ref_logp - logps
        per_token_kl = delta.exp() - delta - 1
        ratio = (logps - inputs.old_logp).exp()
        gain = torch.min(ratio * inputs.advantages, ratio.clamp(0.8, 1.2) * inputs.advantages)
        per_token_loss = (BETA * per_token_kl - gain) * inputs.loss_mask
        return per_token_loss.sum() / inputs.loss_mask.sum().clamp(min=1)

    def update(self, scored):
        ready = self.prepare(scored)
        for part in ready.split(24, rng=torch.default_generator):
            self.optimizer.zero_grad()
            self.compute_loss(part).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, ref_model = LSTMLM(VOCAB), LSTMLM(VOCAB).requires_grad_(False)
    ref_model.load_state_dict(model.state_dict())
    trainer = GRPOTrainer(model, ref_model)
    return trainer.update, lambda: (score(generate(model, repeat(draw_prompts(8), GROUP))),)


def stages(seed: int = 0):
    torch.manual_seed(seed)
    return {"sample": (partial(generate, LSTMLM(VOCAB)), draw_prompts(12))}
