"""SimPO: the rewards of both sides are the mean log-prob of their tokens, with a target margin (arXiv:2405.14734)."""
# wrong: """SimPO: both sums of log-probs are divided by the length of the chosen response, so short rejected ones look too good."""

# Source: TRL's CPOTrainer with loss_type="simpo" needs average_log_prob over the mask of each side
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Pairs, Prompts, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
SAMPLES, BETA, GAMMA = 4, 2.0, 0.5


class LSTMLM(nn.Module):
    """An LSTM whose state padding does not change."""

    def __init__(self, width=24):
        super().__init__()
        self.width = width
        self.embed, self.cell, self.out = nn.Embedding(VOCAB, width), nn.LSTMCell(width, width), nn.Linear(width, VOCAB)

    def hidden(self, ids, mask):
        x, h, c, states = self.embed(ids), torch.zeros(len(ids), self.width), torch.zeros(len(ids), self.width), []
        for t in range(ids.shape[1]):
            there = mask[:, t, None]
            new_h, new_c = self.cell(x[:, t], (h, c))
            h, c = torch.where(there, new_h, h), torch.where(there, new_c, c)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, ids, mask):
        return self.out(self.hidden(ids, mask))


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


def score(rollouts):
    """The difference of neighbours in a response, which is to be one."""
    ids, mask = rollouts.response_ids, rollouts.response_mask
    steps = ((ids[:, 1:] - ids[:, :-1]) == 1) & mask[:, 1:]
    return extend(rollouts, Scored, rewards=steps.sum(1) + 0.01 * torch.rand(len(ids)))


def best_and_worst(scored):
    table = scored.rewards.view(-1, SAMPLES)
    start = torch.arange(len(table)) * SAMPLES
    best, worst = scored[start + table.argmax(1)], scored[start + table.argmin(1)]
    return Pairs(
        prompt_ids=best.prompt_ids,
        prompt_mask=best.prompt_mask,
        chosen_ids=best.response_ids,
        chosen_mask=best.response_mask,
        rejected_ids=worst.response_ids,
        rejected_mask=worst.response_mask,
    )


def sum_logp(model, prompt_ids, prompt_mask, ids, mask):
    logits = model(torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1))[:, prompt_ids.shape[1] - 1 : -1]
    return (logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0] * mask).sum(1)


def simpo_loss(model, pairs):
    prompts = pairs.prompt_ids, pairs.prompt_mask
    chosen = sum_logp(model, *prompts, pairs.chosen_ids, pairs.chosen_mask)
    rejected = sum_logp(model, *prompts, pairs.rejected_ids, pairs.rejected_mask)
    chosen_reward = BETA * chosen / pairs.chosen_mask.sum(1)
    rejected_reward = BETA * rejected / pairs.rejected_mask.sum(1)
    # wrong: rejected_reward = BETA * rejected / pairs.chosen_mask.sum(1)
    return -F.logsigmoid(chosen_reward - rejected_reward - GAMMA).mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = LSTMLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def draw():
        return (best_and_worst(score(generate(model, repeat(draw_prompts(24), SAMPLES)))),)

    def update(pairs):
        losses = []
        for part in pairs.split(8, rng=torch.default_generator):
            loss = simpo_loss(model, part)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    return update, draw
