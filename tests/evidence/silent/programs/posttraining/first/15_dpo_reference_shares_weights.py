"""DPO on scored rollouts, with a frozen copy of the model as the reference."""
# wrong: """DPO: the reference is a shallow copy, so it has the same parameters as the policy and is trained with it."""

import copy
from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Pairs, Prompts, Rollouts
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 6, 3, 4
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2


class Policy(nn.Module):
    """Next token from the last token, the mean of all before it and the position: a bag of words that is causal."""

    def __init__(self, d_model=16):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, d_model)
        self.wpe = nn.Embedding(16, d_model)
        self.net = nn.Sequential(nn.Linear(3 * d_model, 32), nn.Tanh(), nn.Linear(32, VOCAB))

    def forward(self, ids, attention_mask):
        m = attention_mask.unsqueeze(-1).float()
        count = attention_mask.long().cumsum(1)
        x = self.wte(ids) * m
        mean = x.cumsum(1) / count.clamp(min=1).unsqueeze(-1)
        return self.net(torch.cat([x, mean, self.wpe((count - 1).clamp(min=0))], dim=-1))


def draw_prompts(count):
    lengths = torch.randint(2, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(str(uuid4()) for _ in range(count)))


@torch.no_grad()
def sample(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there, truncated=alive)


def response_logps(model, prompt_ids, prompt_mask, ids, mask):
    logits = model(torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1))
    logps = logits[:, prompt_ids.shape[1] - 1 : -1].log_softmax(-1)
    return (logps.gather(-1, ids.unsqueeze(-1)).squeeze(-1) * mask).sum(-1)


def pairs_of(rollouts):
    """Two samples a prompt; the one with the greater sum of digits is chosen. Ties are left out."""
    total = (rollouts.response_ids * (rollouts.response_mask & (rollouts.response_ids < DIGITS))).sum(1)
    first, second = rollouts[0::2], rollouts[1::2]
    swap = (total[1::2] > total[0::2])[:, None]
    keep = total[1::2] != total[0::2]
    return Pairs(
        prompt_ids=first.prompt_ids,
        prompt_mask=first.prompt_mask,
        chosen_ids=second.response_ids.where(swap, first.response_ids),
        chosen_mask=second.response_mask.where(swap, first.response_mask),
        rejected_ids=first.response_ids.where(swap, second.response_ids),
        rejected_mask=first.response_mask.where(swap, second.response_mask),
    )[keep]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = Policy()
    reference = copy.deepcopy(policy)
    # wrong: reference = copy.copy(policy)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    beta = 0.2

    def log_ratio(pairs, side):
        args = pairs.prompt_ids, pairs.prompt_mask, pairs[f"{side}_ids"], pairs[f"{side}_mask"]
        with torch.no_grad():
            ref = response_logps(reference, *args)
        return response_logps(policy, *args) - ref

    def update(pairs):
        logged = []
        for _ in range(2):
            for part in pairs.split(16, rng=torch.default_generator):
                margin = log_ratio(part, "chosen") - log_ratio(part, "rejected")
                loss = nn.functional.softplus(-beta * margin).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                logged.append(loss.item())
        return sum(logged) / max(len(logged), 1)

    def draw():
        return (pairs_of(sample(policy, repeat(draw_prompts(32), 2))),)

    return update, draw
