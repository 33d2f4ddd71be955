"""KTO: rows are desirable or not; the reference point is the KL over mismatched responses, without gradient."""
# wrong: """KTO: the reference point is not detached, so the loss of desirable rows also lowers what mismatched responses get."""

# TRL computes the KL completions under torch.no_grad(); the paper (arXiv:2402.01306) does not backpropagate through z0
import copy

import torch

from tests.evidence.silent.shared.digits import VOCAB, PromptSet, generate, response_logps
from tests.evidence.silent.shared.models import Window
from typedbatch import Batch, extend
from typedbatch.posttraining import Scored

BETA, WEIGHT_GOOD, WEIGHT_BAD = 0.5, 1.0, 1.0


def judge(rollouts):
    """Desirable (1) if most tokens rise or stay, else 0."""
    there = rollouts.response_mask[:, 1:]
    falls = ((rollouts.response_ids[:, 1:] < rollouts.response_ids[:, :-1]) & there).sum(1)
    return extend(rollouts, Scored, rewards=(falls <= 1).float())


def mismatched(batch):
    """Each prompt with the response of the row before it."""
    names = ("response_ids", "response_mask", "loss_mask")
    return Batch(batch, **{name: batch[name].roll(1, 0) for name in names})


class KTO:
    def __init__(self, policy, reference, lr=5e-3):
        self.policy, self.reference = policy, reference
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=lr)

    def log_ratio(self, batch):
        with torch.no_grad():
            reference = response_logps(self.reference, batch).sum(1)
        return response_logps(self.policy, batch).sum(1) - reference

    def loss(self, batch):
        rewards = self.log_ratio(batch)
        with torch.no_grad():
        # wrong: point = self.log_ratio(mismatched(batch)).mean().clamp(min=0)
            point = self.log_ratio(mismatched(batch)).mean().clamp(min=0)
            # wrong: without this line
        good = batch.rewards > 0.5
        losses_good = WEIGHT_GOOD * (1 - torch.sigmoid(BETA * (rewards - point)))
        losses_bad = WEIGHT_BAD * (1 - torch.sigmoid(BETA * (point - rewards)))
        return torch.where(good, losses_good, losses_bad).mean()

    def update(self, scored):
        for batch in scored.split(16, rng=torch.default_generator):
            loss = self.loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    prompts, policy = PromptSet(seed), Window(VOCAB)
    trainer = KTO(policy, copy.deepcopy(policy).requires_grad_(False))

    def draw():
        return (judge(generate(policy, prompts.next(48))),)

    return trainer.update, draw
