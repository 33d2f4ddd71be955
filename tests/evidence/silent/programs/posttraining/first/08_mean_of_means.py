"""GRPO with gradient accumulation: each micro-batch adds its sum, divided by the tokens of the whole batch."""
# wrong: """GRPO: each micro-batch takes the mean over its own tokens, so tokens of short responses weigh more."""

# verl PR 906, open-instruct PR 1161, mlx-lm PR 1413: the mean of means over micro-batches
import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.letters import generate, get_per_token_logps, make_prompts
from tests.evidence.silent.shared.models import Policy
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 6
PAD, EOS, VOCAB = 6, 7, 8


class Actor:
    def __init__(self, module, lr=5e-3, clip_ratio=0.2, grad_clip=1.0, mini_batch_size=24, micro_batch_size=6):
        self.module, self.clip_ratio, self.grad_clip = module, clip_ratio, grad_clip
        self.mini_batch_size, self.micro_batch_size = mini_batch_size, micro_batch_size
        self.optimizer = torch.optim.SGD(module.parameters(), lr=lr)

    def policy_loss(self, data):
        ratio = torch.exp(get_per_token_logps(self.module, data) - data.old_logp)
        clipped = ratio.clamp(1 - self.clip_ratio, 1 + self.clip_ratio)
        return torch.max(-data.advantages * ratio, -data.advantages * clipped)

    def update_policy(self, data):
        for mini_batch in data.split(self.mini_batch_size, rng=torch.default_generator):
            micro_batches = list(mini_batch.split(self.micro_batch_size, shuffle=False))
            total_tokens = mini_batch.loss_mask.sum()
            # wrong: without this line
            self.optimizer.zero_grad()
            for micro in micro_batches:
                losses = self.policy_loss(micro)
                loss = (losses * micro.loss_mask).sum() / total_tokens
                # wrong: loss = (losses * micro.loss_mask).sum() / micro.loss_mask.sum() / len(micro_batches)
                loss.backward()
            nn.utils.clip_grad_norm_(self.module.parameters(), self.grad_clip)
            self.optimizer.step()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    actor = Actor(Policy(VOCAB), lr=0.5)

    def draw():
        rollouts = generate(actor.module, repeat(make_prompts(rng, 8, LETTERS, MAX_PROMPT), 6), MAX_NEW, PAD, EOS)
        rewards = (rollouts.response_ids[:, :-1] == rollouts.response_ids[:, 1:]).logical_and(rollouts.response_mask[:, 1:])
        return (extend(rollouts, Scored, rewards=rewards.sum(1).float()),)

    def update(scored):
        g = groups(scored, "uid", size=6)
        adv = (scored.rewards - g.mean(scored.rewards)) / (g.std(scored.rewards) + 1e-6)
        with torch.no_grad():
            old_logp = get_per_token_logps(actor.module, scored)
        actor.update_policy(extend(scored, Ready, old_logp=old_logp, advantages=adv[:, None] * scored.loss_mask))
        return scored.rewards.mean().item()

    return update, draw
