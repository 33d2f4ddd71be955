"""KTO: rows are desirable or not; the reference point is the KL over mismatched responses, without gradient."""
# wrong: """KTO: the reference point is not detached, so the loss of desirable rows also lowers what mismatched responses get."""

# TRL computes the KL completions under torch.no_grad(); the paper (arXiv:2402.01306) does not backpropagate through z0
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import Batch, extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
BETA, WEIGHT_GOOD, WEIGHT_BAD = 0.5, 1.0, 1.0


class Window(nn.Module):
    """Next token from the last two tokens and the mean of all so far: causal, and padding is left out."""

    def __init__(self, dim=24, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.net = nn.Sequential(nn.Linear(3 * dim, hidden), nn.Tanh(), nn.Linear(hidden, VOCAB))

    def forward(self, ids, mask):
        x = self.embed(ids) * mask.unsqueeze(-1)
        before = F.pad(x, (0, 0, 1, 0))[:, :-1]
        mean = x.cumsum(1) / mask.long().cumsum(1).clamp(min=1).unsqueeze(-1)
        return self.net(torch.cat([x, before, mean], dim=-1))


class PromptSet:
    """Endless prompts, padded on the left, each with an identifier of its own."""

    def __init__(self, seed):
        self.rng, self.served = np.random.default_rng(seed), 0

    def next(self, count):
        rows = [self.rng.integers(DIGITS, size=self.rng.integers(2, PROMPT + 1)).tolist() for _ in range(count)]
        names = objects(f"prompt-{self.served + i}" for i in range(count))
        self.served += count
        return Prompts(
            prompt_ids=torch.tensor([[PAD] * (PROMPT - len(row)) + row for row in rows]),
            prompt_mask=torch.tensor([[False] * (PROMPT - len(row)) + [True] * len(row) for row in rows]),
            uid=names,
        )


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive, logps = torch.ones(len(prompts), dtype=torch.bool), []
    for _ in range(RESPONSE):
        logp = model(ids, mask)[:, -1].log_softmax(-1)
        token = torch.multinomial(logp.exp(), 1)[:, 0].where(alive, PAD)
        logps.append(logp.gather(1, token[:, None])[:, 0] * alive)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts,
        Rollouts,
        response_ids=ids[:, PROMPT:],
        response_mask=there,
        loss_mask=there.clone(),
        rollout_logp=torch.stack(logps, 1),
        response_length=there.sum(1),
        truncated=alive,
    )


def response_logps(model, batch):
    """Of the tokens of the responses, by cross entropy; 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    width = batch.response_ids.size(1)
    logits = model(ids, mask)[:, -width - 1 : -1]
    losses = F.cross_entropy(logits.transpose(1, 2), batch.response_ids, reduction="none")
    return -losses.masked_fill(~batch.response_mask, 0.0)


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
    prompts, policy = PromptSet(seed), Window()
    trainer = KTO(policy, copy.deepcopy(policy).requires_grad_(False))

    def draw():
        return (judge(generate(policy, prompts.next(48))),)

    return trainer.update, draw
