"""Asynchronous GRPO: rollouts of older weights, corrected by a truncated importance weight against the sampler."""
# wrong: """Asynchronous GRPO: the importance weight is sampler over trainer, so what the sampler overdraws is weighted up."""

# truncated importance sampling, "Your efficient RL framework secretly brings you off-policy RL training"
import copy

import torch

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, generate, score, token_logp
from tests.evidence.silent.shared.models import Recurrent
from typedbatch import extend
from typedbatch.posttraining import Ready
from typedbatch.rows import groups, repeat

GROUP, SYNC, CAP, CLIP = 6, 3, 2.0, 0.2


class Sampler:
    """Has weights of its own, which are replaced every SYNC steps."""

    def __init__(self, model):
        self.model, self.version = copy.deepcopy(model), 0

    def sync(self, model, step):
        self.model.load_state_dict(model.state_dict())
        self.version = step

    def sample(self, prompts):
        rollouts = generate(self.model, prompts)
        rollouts.policy_step = torch.full((len(rollouts),), self.version)
        return rollouts


@torch.no_grad()
def prepare(model, scored):
    by_prompt = groups(scored, "uid", size=GROUP)
    advantages = (scored.rewards - by_prompt.mean(scored.rewards))[:, None] * scored.loss_mask
    old_logp = token_logp(model, scored)
    is_weights = (old_logp - scored.rollout_logp).exp().clamp(max=CAP)
    # wrong: is_weights = (scored.rollout_logp - old_logp).exp().clamp(max=CAP)
    return extend(scored, Ready, old_logp=old_logp, advantages=advantages, is_weights=is_weights)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Recurrent(VOCAB)
    sampler, step = Sampler(model), 0
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def draw():
        return (score(sampler.sample(repeat(draw_prompts(12), GROUP))),)

    def update(scored):
        nonlocal step
        for part in prepare(model, scored).split(36, rng=torch.default_generator):
            ratio = (token_logp(model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
            loss = -(part.is_weights * gain)[part.loss_mask].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        step += 1
        if step % SYNC == 0:
            sampler.sync(model, step)
        return scored.rewards.mean().item()

    return update, draw
