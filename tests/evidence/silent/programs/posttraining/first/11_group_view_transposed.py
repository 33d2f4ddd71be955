"""GRPO with a rule's reward; the rewards are viewed as (prompts, samples) to normalize them."""
# wrong: """GRPO: rewards of rows a a b b are viewed as (samples, prompts), so mean and std are over rows of different prompts."""

# XU-YIJIE/grpo-flat issue 2: the statistics over another axis than that of the group
import torch

from tests.evidence.silent.shared.digits import draw_prompts, sample, token_logp as logp
from tests.evidence.silent.shared.models import GRULM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import repeat

DIGITS, PROMPT, RESPONSE = 5, 4, 5
VOCAB = DIGITS + 2
PROMPTS, SAMPLES = 6, 8


class GRPO:
    def __init__(self, lr=1e-2, clip_low=0.2, clip_high=0.28):
        self.model = GRULM(VOCAB)
        self.low, self.high = 1 - clip_low, 1 + clip_high
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.0)

    def collect(self):
        rollouts = sample(self.model, repeat(draw_prompts(PROMPTS, DIGITS, (2, PROMPT)), SAMPLES), RESPONSE, DIGITS)
        lengths = rollouts.response_mask.sum(1)
        wanted = rollouts.prompt_mask.sum(1)  # as many tokens as the prompt has
        return (extend(rollouts, Scored, rewards=1.0 - (lengths - wanted).abs() / RESPONSE),)

    def advantages(self, rewards):
        table = rewards.view(-1, SAMPLES)
        # wrong: table = rewards.view(SAMPLES, -1)
        table = (table - table.mean(1, keepdim=True)) / (table.std(1, keepdim=True) + 1e-6)
        # wrong: table = (table - table.mean(0)) / (table.std(0) + 1e-6)
        return table.flatten()

    def update(self, scored):
        with torch.no_grad():
            old_logp = logp(self.model, scored)
        advantages = self.advantages(scored.rewards).unsqueeze(1) * scored.loss_mask
        batch = extend(scored, Ready, old_logp=old_logp, advantages=advantages)
        for _ in range(2):
            for part in batch.split(24, rng=torch.default_generator):
                self.step(part)
        return scored.rewards.mean().item()

    def step(self, part):
        ratio = (logp(self.model, part) - part.old_logp).exp()
        surrogate = torch.min(ratio * part.advantages, ratio.clamp(self.low, self.high) * part.advantages)
        self.optimizer.zero_grad()
        (-(surrogate * part.loss_mask).sum() / part.loss_mask.sum()).backward()
        self.optimizer.step()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = GRPO()
    return trainer.update, trainer.collect
