"""GSPO: a ratio per sequence, the mean over its tokens, clipped within a thousandth; then the mean over sequences."""

# arXiv:2507.18071; the clip range of the paper is 3e-4 and 4e-4
import torch

from tests.evidence.silent.shared.digits import RESPONSE, VOCAB, PromptSet, generate, response_logps
from tests.evidence.silent.shared.models import Window
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

GROUP, CLIP_LOW, CLIP_HIGH = 8, 3e-3, 4e-3


def reward(rollouts):
    """The share of steps up by one."""
    steps = (rollouts.response_ids[:, 1:] - rollouts.response_ids[:, :-1]) == 1
    steps = steps & rollouts.response_mask[:, 1:]
    return extend(rollouts, Scored, rewards=steps.sum(1) / (RESPONSE - 1))


class GSPO:
    def __init__(self, policy, lr=5e-3):
        self.policy, self.optimizer = policy, torch.optim.Adam(policy.parameters(), lr=lr)

    @torch.no_grad()
    def prepare(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        old = response_logps(self.policy, scored)
        return extend(scored, Ready, old_logp=old, advantages=advantages[:, None] * scored.loss_mask)

    def loss(self, batch):
        mask, length = batch.loss_mask, batch.loss_mask.sum(1)
        log_ratio = ((response_logps(self.policy, batch) - batch.old_logp) * mask).sum(1) / length
        advantage = batch.advantages[:, 0]  # one per sequence, and each has a first token
        ratio = log_ratio.exp()
        gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * advantage)
        return -gain.mean()

    def update(self, scored):
        ready = self.prepare(scored)
        for batch in ready.split(32, rng=torch.default_generator):
            self.optimizer.zero_grad()
            self.loss(batch).backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    prompts, algorithm = PromptSet(seed), GSPO(Window(VOCAB))

    def draw():
        return (reward(generate(algorithm.policy, repeat(prompts.next(16), GROUP))),)

    return algorithm.update, draw
