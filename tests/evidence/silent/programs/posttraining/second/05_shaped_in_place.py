"""GRPO with replayed rollouts: each batch is learned from twice, with ratios against the sampler."""
# wrong: """GRPO with replayed rollouts: the length penalty is subtracted in place, once more each time a batch is replayed."""
from collections import deque

import torch
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, score
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import generate, token_logp
from typedbatch import extend
from typedbatch.posttraining import Ready
from typedbatch.rows import groups, repeat

GROUP, REPLAYS, PENALTY, CLIP = 6, 3, 0.05, 0.2


def shaped(scored):
    """Rewards less a price for each token."""
    rewards = scored.rewards
    rewards = rewards - PENALTY * scored.response_length
    # wrong: rewards -= PENALTY * scored.response_length
    return rewards


def prepare(scored):
    rewards = shaped(scored)
    by_prompt = groups(scored, "uid", size=GROUP)
    advantages = (rewards - by_prompt.mean(rewards)) / (by_prompt.std(rewards) + 1e-4)
    return extend(scored, Ready, old_logp=scored.rollout_logp, advantages=advantages[:, None] * scored.loss_mask)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    replay, drawn = deque(maxlen=REPLAYS), 0

    def draw():
        nonlocal drawn
        if drawn % REPLAYS == 0:
            replay.append(score(generate(model, repeat(draw_prompts(16), GROUP))))
        drawn += 1
        return (replay[-1],)

    def update(scored):
        for part in prepare(scored).split(48, rng=torch.default_generator):
            ratio = (token_logp(model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
            loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return loss.item()

    return update, draw
