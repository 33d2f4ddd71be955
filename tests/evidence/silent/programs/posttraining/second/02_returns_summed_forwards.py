"""REINFORCE++: k1 KL as a reward of each token, the score at the last one, returns summed from the end, whitened."""
# wrong: """REINFORCE++: the return of a token is the sum of the rewards up to it, not of those from it on."""
import copy

import torch

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, generate, score, token_logp
from tests.evidence.silent.shared.models import Recurrent
from typedbatch import extend
from typedbatch.posttraining import Ready

KL, CLIP = 0.02, 0.2


def token_rewards(scored, logp, ref_logp):
    """The penalty at each token, and the score at the last."""
    rewards = -KL * (logp - ref_logp)
    last = scored.response_mask.sum(1) - 1
    rewards[torch.arange(len(rewards)), last] += scored.rewards
    return rewards


def whiten(x, mask):
    return (x - x[mask].mean()) / (x[mask].std() + 1e-8) * mask


@torch.no_grad()
def prepare(model, reference, scored):
    logp, ref_logp = token_logp(model, scored), token_logp(reference, scored)
    rewards = token_rewards(scored, logp, ref_logp)
    returns = rewards.flip(1).cumsum(1).flip(1) * scored.loss_mask
    # wrong: returns = rewards.cumsum(1) * scored.loss_mask
    advantages = whiten(returns, scored.loss_mask)
    return extend(scored, Ready, old_logp=logp, ref_logp=ref_logp, returns=returns, advantages=advantages)


def policy_loss(model, batch):
    ratio = (token_logp(model, batch) - batch.old_logp).exp()
    gain = torch.min(ratio * batch.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * batch.advantages)
    return -(gain * batch.loss_mask).sum() / batch.loss_mask.sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Recurrent(VOCAB)
    reference = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.0)

    def draw():
        return (score(generate(model, draw_prompts(64))),)

    def update(scored):
        ready = prepare(model, reference, scored)
        for part in ready.split(16, rng=torch.default_generator):
            optimizer.zero_grad()
            policy_loss(model, part).backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
