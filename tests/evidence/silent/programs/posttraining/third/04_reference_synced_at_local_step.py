"""GRPO whose reference is renewed every 32 steps (sync_ref_model, arXiv:2404.09656)."""
# wrong: """GRPO: the reference is to be renewed every 32 steps, but steps are counted within an update, so it is renewed in each."""

# Source: TRL's SyncRefModelCallback counts `state.global_step`; a loop of one's own has only the index of the minibatch
import copy
from dataclasses import dataclass
from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2


@dataclass
class Config:
    group: int = 4
    beta: float = 0.1
    lr: float = 1e-2
    minibatch: int = 16
    ref_sync_steps: int = 32
    ref_mixup_alpha: float = 0.6


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
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


def score(rollouts):
    """The share of tokens above the last digit of the prompt."""
    above = (rollouts.response_ids > rollouts.prompt_ids[:, -1:]) & (rollouts.response_ids < DIGITS)
    return extend(rollouts, Scored, rewards=above.sum(1) / rollouts.response_mask.sum(1))


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


@torch.no_grad()
def mix(reference, model, alpha):
    for slow, fast in zip(reference.parameters(), model.parameters()):
        slow.lerp_(fast, alpha)


class Trainer:
    def __init__(self, config):
        self.config, self.global_step = config, 0
        self.model = LSTMLM()
        self.reference = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.model.parameters(), config.lr)

    def rollout(self):
        return (score(generate(self.model, repeat(draw_prompts(16), self.config.group))),)

    def loss(self, part):
        new = token_logp(self.model, part)
        with torch.no_grad():
            ref = token_logp(self.reference, part)
        delta = ref - new
        kl = delta.exp() - delta - 1
        ratio = (new - part.old_logp).exp()
        gain = torch.min(ratio * part.advantages, ratio.clamp(0.8, 1.2) * part.advantages)
        return ((self.config.beta * kl - gain) * part.loss_mask).sum() / part.loss_mask.sum()

    def update(self, scored):
        config = self.config
        by_prompt = groups(scored, "uid", size=config.group)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards))[:, None] * scored.loss_mask
        with torch.no_grad():
            ready = extend(scored, Ready, old_logp=token_logp(self.model, scored), advantages=advantages)
        for step, part in enumerate(ready.split(config.minibatch, rng=torch.default_generator)):
            self.optimizer.zero_grad()
            self.loss(part).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.global_step += 1
            if self.global_step % config.ref_sync_steps == 0:
            # wrong: if step % config.ref_sync_steps == 0:
                mix(self.reference, self.model, config.ref_mixup_alpha)
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = Trainer(Config())
    return trainer.update, trainer.rollout
