"""Rejection sampling: SFT on the best rollouts of each prompt, cross-entropy over the tokens of the responses."""
# wrong: """SFT on rollouts: the loss mask is cut like the inputs, not like the labels, so it lies one token too far right."""

# verl PR 3287: off-by-one in the slicing of the loss mask of SFT
import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.letters import generate, make_prompts
from tests.evidence.silent.shared.models import GRULM
from typedbatch import extend
from typedbatch.posttraining import Rollouts, Scored
from typedbatch.rows import repeat

LETTERS, MAX_PROMPT, MAX_NEW, SAMPLES = 8, 4, 6, 8
PAD, EOS, VOCAB = 8, 9, 10


class RejectionSamplingTrainer:
    def __init__(self, policy, lr=5e-3, micro_batch=4):
        self.policy, self.micro_batch = policy, micro_batch
        self.opt = torch.optim.Adam(policy.parameters(), lr=lr)

    @staticmethod
    def reward(rollouts: Rollouts) -> Scored:
        """1 for each response that repeats the last letter of the prompt and then stops."""
        same = (rollouts.response_ids[:, 0] == rollouts.prompt_ids[:, -1]).float()
        return extend(rollouts, Scored, rewards=same + (rollouts.response_ids[:, 1] == EOS).float())

    @staticmethod
    def pick(scored: Scored) -> Scored:
        best = scored.rewards.view(-1, SAMPLES).argmax(1)
        return scored[torch.arange(len(best)) * SAMPLES + best]

    def step(self, batch: Scored) -> float:
        batch = self.pick(batch)
        total = batch.loss_mask.sum()
        self.opt.zero_grad()
        logged = 0.0
        for micro in batch.split(self.micro_batch, shuffle=False):
            ids = torch.cat([micro.prompt_ids, micro.response_ids], dim=1)
            attention_mask = torch.cat([micro.prompt_mask, micro.response_mask], dim=1)
            loss_mask = torch.cat([torch.zeros_like(micro.prompt_mask), micro.loss_mask], dim=1)
            logits = self.policy(ids, attention_mask)[:, :-1]
            labels, loss_mask = ids[:, 1:], loss_mask[:, 1:]
            # wrong: labels, loss_mask = ids[:, 1:], loss_mask[:, :-1]
            ce = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
            loss = (ce * loss_mask.flatten()).sum() / total
            loss.backward()
            logged += loss.item()
        self.opt.step()
        return batch.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    policy = GRULM(VOCAB)
    trainer = RejectionSamplingTrainer(policy)

    def draw():
        prompts = repeat(make_prompts(rng, 12, LETTERS, MAX_PROMPT), SAMPLES)
        return (trainer.reward(generate(policy, prompts, MAX_NEW, PAD, EOS)),)

    return trainer.step, draw
