"""GRPO with a frozen reference for the KL, and old log-probs of the policy before the update."""
# wrong: """GRPO: the old log-probs are those of the reference model, so the ratio is against the wrong policy."""

# seen when old and reference log-probs are made by one helper (verl: compute_log_prob and compute_ref_log_prob)
import copy

import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.letters import generate, get_per_token_logps, make_prompts
from tests.evidence.silent.shared.models import GRULM
from typedbatch import checked, extend
from typedbatch.posttraining import Ready, ReferenceProtocol, Scored
from typedbatch.rows import groups, repeat

LETTERS, MAX_PROMPT, MAX_NEW, N = 6, 3, 5, 6
PAD, EOS, VOCAB = 6, 7, 8


class Worker:
    """Actor and reference, as in a colocated worker."""

    def __init__(self):
        self.actor = GRULM(VOCAB)
        self.ref = copy.deepcopy(self.actor).eval().requires_grad_(False)

    @torch.no_grad()
    def compute_log_prob(self, data):
        return get_per_token_logps(self.actor, data)

    @torch.no_grad()
    def compute_ref_log_prob(self, data):
        return get_per_token_logps(self.ref, data)


@checked
def loss_of(batch: ReferenceProtocol, logps: torch.Tensor, clip=0.2, beta=0.01):
    ratio = torch.exp(logps - batch.old_logp)
    pg = torch.max(-batch.advantages * ratio, -batch.advantages * ratio.clamp(1 - clip, 1 + clip))
    diff = batch.ref_logp - logps
    per_token = pg + beta * (diff.exp() - diff - 1)
    return (per_token * batch.loss_mask).sum() / batch.loss_mask.sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    worker = Worker()
    optimizer = torch.optim.Adam(worker.actor.parameters(), lr=1e-2)

    def draw():
        rollouts = generate(worker.actor, repeat(make_prompts(rng, 8, LETTERS, MAX_PROMPT), N), MAX_NEW, PAD, EOS)
        rewards = (rollouts.response_ids.eq(1) & rollouts.response_mask).float().sum(1)
        return (extend(rollouts, Scored, rewards=rewards),)

    def update(scored: Scored):
        g = groups(scored, "uid", size=N)
        adv = (scored.rewards - g.mean(scored.rewards)) / (g.std(scored.rewards) + 1e-6)
        ready = extend(
            scored,
            Ready,
            old_logp=worker.compute_log_prob(scored),
            # wrong: old_logp=worker.compute_ref_log_prob(scored),
            ref_logp=worker.compute_ref_log_prob(scored),
            advantages=adv.unsqueeze(1) * scored.loss_mask,
        )
        for mini in ready.split(24, rng=torch.default_generator):
            optimizer.zero_grad()
            loss_of(mini, get_per_token_logps(worker.actor, mini)).backward()
            nn.utils.clip_grad_norm_(worker.actor.parameters(), 1.0)
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
