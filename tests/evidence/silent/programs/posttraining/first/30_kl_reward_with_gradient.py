"""REINFORCE with a KL penalty in the reward of each token and the mean of the batch as the baseline."""
# wrong: """REINFORCE: the KL penalty in the rewards is not detached, so there is a gradient through the advantages."""
import copy

import torch
from torch import nn

from tests.evidence.silent.shared.digits import draw_prompts, sample, token_logp as logp
from tests.evidence.silent.shared.models import GRULM
from typedbatch import extend
from typedbatch.posttraining import Scored
from typedbatch.rows import repeat

DIGITS, PROMPT, RESPONSE = 6, 3, 5
VOCAB = DIGITS + 2
KL_COEF = 0.05


def reward_to_go(token_rewards):
    return token_rewards.flip(1).cumsum(1).flip(1)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = GRULM(VOCAB)
    reference = copy.deepcopy(policy).requires_grad_(False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def draw():
        rollouts = sample(policy, repeat(draw_prompts(16, DIGITS, (2, PROMPT)), 4), RESPONSE, DIGITS)
        hits = (rollouts.response_ids == rollouts.prompt_ids[:, -1:]) & rollouts.response_mask
        return (extend(rollouts, Scored, rewards=hits.sum(1).float()),)

    def update(scored):
        mask = scored.loss_mask
        log_prob = logp(policy, scored)
        ref_log_prob = logp(reference, scored)
        kl = (log_prob.detach() - ref_log_prob) * mask
        # wrong: kl = (log_prob - ref_log_prob) * mask
        last = torch.arange(RESPONSE) == mask.sum(1, keepdim=True) - 1
        token_rewards = scored.rewards[:, None] * last - KL_COEF * kl
        returns = reward_to_go(token_rewards)
        advantages = (returns - returns[mask].mean()) * mask
        loss = -(advantages * log_prob).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
