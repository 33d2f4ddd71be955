"""GRPO whose reference is renewed every 32 steps (sync_ref_model, arXiv:2404.09656)."""
# wrong: """GRPO: the reference is to be renewed every 32 steps, but steps are counted within an update, so it is renewed in each."""

# Source: TRL's SyncRefModelCallback counts `state.global_step`; a loop of one's own has only the index of the minibatch
import copy
from dataclasses import dataclass

import torch
from torch import nn

from tests.evidence.silent.shared.digits import DIGITS, VOCAB, draw_prompts, sample, token_logp
from tests.evidence.silent.shared.models import LSTMLM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

RESPONSE = 6


@dataclass
class Config:
    group: int = 4
    beta: float = 0.1
    lr: float = 1e-2
    minibatch: int = 16
    ref_sync_steps: int = 32
    ref_mixup_alpha: float = 0.6


def score(rollouts):
    """The share of tokens above the last digit of the prompt."""
    above = (rollouts.response_ids > rollouts.prompt_ids[:, -1:]) & (rollouts.response_ids < DIGITS)
    return extend(rollouts, Scored, rewards=above.sum(1) / rollouts.response_mask.sum(1))


@torch.no_grad()
def mix(reference, model, alpha):
    for slow, fast in zip(reference.parameters(), model.parameters()):
        slow.lerp_(fast, alpha)


class Trainer:
    def __init__(self, config):
        self.config, self.global_step = config, 0
        self.model = LSTMLM(VOCAB)
        self.reference = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.model.parameters(), config.lr)

    def rollout(self):
        return (score(sample(self.model, repeat(draw_prompts(16), self.config.group), RESPONSE)),)

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
