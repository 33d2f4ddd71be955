"""GRPO after TRL: the sampler goes on after the end, and the mask has all tokens up to the first end."""
# wrong: """GRPO: the mask has the tokens before the end but not the end itself, so the model is never taught when to stop."""

# Source: TRL's GRPOTrainer has `completion_mask = (sequence_indices <= eos_idx.unsqueeze(1))`; with < the end is lost
from functools import partial
from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, BETA = 6, 0.02


class LSTMLM(nn.Module):
    """An LSTM whose state padding does not change."""

    def __init__(self, width=24):
        super().__init__()
        self.width = width
        self.embed, self.cell, self.out = nn.Embedding(VOCAB, width), nn.LSTMCell(width, width), nn.Linear(width, VOCAB)

    def hidden(self, ids, mask):
        x, h, c, states = self.embed(ids), torch.zeros(len(ids), self.width), torch.zeros(len(ids), self.width), []
        for t in range(ids.shape[1]):
            there = mask[:, t, None]
            new_h, new_c = self.cell(x[:, t], (h, c))
            h, c = torch.where(there, new_h, h), torch.where(there, new_c, c)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, ids, mask):
        return self.out(self.hidden(ids, mask))


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


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


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


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
    model, ref_model = LSTMLM(), LSTMLM().requires_grad_(False)
    ref_model.load_state_dict(model.state_dict())
    trainer = GRPOTrainer(model, ref_model)
    return trainer.update, lambda: (score(generate(model, repeat(draw_prompts(8), GROUP))),)


def stages(seed: int = 0):
    torch.manual_seed(seed)
    return {"sample": (partial(generate, LSTMLM()), draw_prompts(12))}
