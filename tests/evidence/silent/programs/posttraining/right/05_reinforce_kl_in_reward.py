"""REINFORCE++: one sample per prompt, k1 KL in the rewards of tokens, returns of tokens whitened over the whole batch."""

# arXiv:2501.03262; whitening is over all prompts, so no group has the mean 0
import copy

import torch

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, generate, score, token_logp
from tests.evidence.silent.shared.models import Recurrent
from typedbatch import extend
from typedbatch.posttraining import Ready

KL, GAMMA = 0.01, 1.0


class ReinforcePlusPlus:
    def __init__(self, model, lr=4e-3):
        self.model, self.reference = model, copy.deepcopy(model).requires_grad_(False)
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=lr)

    def returns(self, scored, logp, ref_logp):
        running, columns = torch.zeros(len(scored)), []
        for t in reversed(range(logp.shape[1])):
            ends = scored.response_length == t + 1
            running = GAMMA * running - KL * (logp - ref_logp)[:, t] + scored.rewards * ends
            columns.insert(0, running)
        return torch.stack(columns, 1) * scored.loss_mask

    @torch.no_grad()
    def prepare(self, scored):
        logp, ref_logp = token_logp(self.model, scored), token_logp(self.reference, scored)
        returns, mask = self.returns(scored, logp, ref_logp), scored.loss_mask
        advantages = (returns - returns[mask].mean()) * mask / (returns[mask].std() + 1e-8)
        return extend(scored, Ready, old_logp=logp, ref_logp=ref_logp, returns=returns, advantages=advantages)

    def update(self, scored):
        for part in self.prepare(scored).split(32, rng=torch.default_generator):
            ratio = (token_logp(self.model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(0.8, 1.2) * part.advantages)
            loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    algorithm = ReinforcePlusPlus(Recurrent(VOCAB))

    def draw():
        return (score(generate(algorithm.model, draw_prompts(64))),)

    return algorithm.update, draw
