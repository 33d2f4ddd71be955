"""DPO on pairs from a data set, with the log-probs of the reference computed once per batch."""
# wrong: """DPO: the two log-probs of the reference are passed in the wrong order."""
import copy

import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.models import GRULM
from typedbatch.posttraining import Pairs

LETTERS, P, R = 8, 4, 5
PAD, EOS, VOCAB = 8, 9, 10


def padded(rows, width, left=False):
    ids = torch.full((len(rows), width), PAD)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        at = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, at], mask[i, at] = torch.tensor(row), True
    return ids, mask


class PreferenceData:
    """Chosen: the prompt once more. Rejected: letters at random. Both end."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def letters(self, low, high):
        return self.rng.integers(0, LETTERS, self.rng.integers(low, high + 1)).tolist()

    def batch(self, n):
        prompts = [self.letters(2, P) for _ in range(n)]
        prompt_ids, prompt_mask = padded(prompts, P, left=True)
        chosen_ids, chosen_mask = padded([p + [EOS] for p in prompts], R)
        rejected_ids, rejected_mask = padded([self.letters(1, R - 1) + [EOS] for _ in prompts], R)
        return Pairs(
            prompt_ids=prompt_ids,
            prompt_mask=prompt_mask,
            chosen_ids=chosen_ids,
            chosen_mask=chosen_mask,
            rejected_ids=rejected_ids,
            rejected_mask=rejected_mask,
        )


def dpo_loss(policy_chosen_logps, policy_rejected_logps, ref_chosen_logps, ref_rejected_logps, beta):
    pi_logratios = policy_chosen_logps - policy_rejected_logps
    ref_logratios = ref_chosen_logps - ref_rejected_logps
    losses = -nn.functional.logsigmoid(beta * (pi_logratios - ref_logratios))
    return losses.mean()


class DPOTrainer:
    def __init__(self, model, beta=0.3, lr=5e-3):
        self.model, self.beta = model, beta
        self.ref_model = copy.deepcopy(model).eval().requires_grad_(False)
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=lr)

    def concatenated_forward(self, model, batch):
        """Both responses in one forward pass."""
        prompt_ids, prompt_mask = batch.prompt_ids.repeat(2, 1), batch.prompt_mask.repeat(2, 1)
        ids = torch.cat([batch.chosen_ids, batch.rejected_ids])
        mask = torch.cat([batch.chosen_mask, batch.rejected_mask])
        logits = model(torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1))[:, P - 1 : -1]
        logps = logits.log_softmax(-1).gather(2, ids.unsqueeze(2)).squeeze(2)
        return ((logps * mask).sum(1)).chunk(2)

    def train_step(self, batch):
        with torch.no_grad():
            ref_chosen, ref_rejected = self.concatenated_forward(self.ref_model, batch)
        batch.ref_chosen_logp, batch.ref_rejected_logp = ref_chosen, ref_rejected
        chosen, rejected = self.concatenated_forward(self.model, batch)
        loss = dpo_loss(chosen, rejected, batch.ref_chosen_logp, batch.ref_rejected_logp, self.beta)
        # wrong: loss = dpo_loss(chosen, rejected, batch.ref_rejected_logp, batch.ref_chosen_logp, self.beta)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = GRULM(VOCAB)
    with torch.no_grad():
        model.head.bias.copy_(torch.linspace(-1, 1, VOCAB))  # an SFT model with preferences of its own
    data = PreferenceData(seed)
    trainer = DPOTrainer(model)
    return trainer.train_step, lambda: (data.batch(16),)
